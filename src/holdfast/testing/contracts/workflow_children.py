"""Jobs that add members to their workflow while they run: they wait for them without a worker, or go on beside them."""

from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

from holdfast._core.answers import Answer
from holdfast._core.children import Children
from holdfast._core.job import ActiveJob, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition, finish
from holdfast._core.member import Member, OnFailure
from holdfast._core.outcome import WaitFor
from holdfast._core.policy import Policy
from holdfast._core.requests import QueueSettings
from holdfast._core.steps import StepRecord
from holdfast._core.workflow import Edge, FlowVerb, NewMember
from holdfast._engine import store_defaults
from holdfast._ports.workflows import GrowingWorkflows
from holdfast.testing.contracts.scene import Part, Scene, answered, done, needs, rescued, story
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, no_growth, verbs

AVAILABLE, BLOCKED, HELD = State.AVAILABLE, State.BLOCKED, State.HELD
DONE, LOST, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED
CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


def added(
    at: Scene, graph: Graph, *names: str, on_failure: OnFailure = OnFailure.FAIL, **options: object
) -> tuple[NewMember, ...]:
    """Make new members of a graph; their flow and their full names are the store's business."""
    found = list[NewMember]()
    for name in names:
        job = at.new(**options)  # type: ignore[arg-type]
        graph.ids[name] = job.id
        found.append(NewMember(job, Member(flow=UUID(int=0), node=name, on_failure=on_failure)))
    return tuple(found)


def waiting(job: ActiveJob, members: Sequence[NewMember] = (), *, records: tuple[StepRecord, ...] = ()) -> Transition:
    """Make the transition of a job that waits for these children, to run again after them."""
    edges = tuple(Edge(each.job.id, job.id, tolerates=True) for each in members)
    return finish(job, WaitFor(Children(members=tuple(members), edges=edges, records=records)), jitter=0.0)


async def suspended(at: Scene, graph: Graph, name: str, *children: str) -> ActiveJob:
    """Start a member, and let it wait for new children."""
    (job,) = await graph.start(name)
    assert await at.settle(waiting(job, added(at, graph, *children))) == (Answer.APPLIED,)
    return job


async def plain(at: Scene, *children: str, policy: Policy | None = None) -> Graph:
    """Let a plain job wait for children; it is the root of their workflow."""
    graph = Graph(at)
    job = await at.running(policy=policy)
    graph.ids = {"root": job.id}
    assert await at.settle(waiting(job, added(at, graph, *children))) == (Answer.APPLIED,)
    return graph


class WorkflowChildrenContract(Part):
    """What is promised to jobs that wait for children, and to the workflow that both belong to."""

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_job_runs_again_once_all_its_children_have_ended(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        await suspended(at, graph, "a", "x", "y")
        assert await graph.states("a", "x", "y", "b", "root") == [BLOCKED, AVAILABLE, AVAILABLE, BLOCKED, BLOCKED]
        await graph.run("x")
        assert await graph.states("a") == [BLOCKED]
        await graph.fail("y")
        assert await graph.states("a", "b", "root") == [AVAILABLE, BLOCKED, BLOCKED]
        await graph.run("a", "b")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_plain_job_that_waits_for_children_is_a_workflow(self, at: Scene) -> None:
        (bystander,) = await at.enqueue(at.new())
        graph = await plain(at, "x", "y")
        assert await graph.states() == [BLOCKED, AVAILABLE, AVAILABLE]
        assert (await at.row(bystander)).member is None
        view = await verbs(at.store).flow(graph.ids["root"])
        assert view is not None
        assert [(each.job, each.member.node) for each in view.members] == [
            (graph.ids["x"], "x"),
            (graph.ids["y"], "y"),
            (graph.ids["root"], "task"),
        ]
        await graph.run("x", "y")
        (job,) = await graph.start("root")
        assert (job.flow, job.attempt, job.failures) == (job.id, 2, 0)
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await graph.states() == [DONE, DONE, DONE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_a_suspension_that_is_sent_again_adds_no_children(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        move = waiting(job, added(at, graph, "x"))
        assert [await at.settle(move) for _ in range(3)] == [(Answer.APPLIED,)] * 3
        await graph.run("x")
        assert await at.settle(move) == (Answer.APPLIED,)
        assert await graph.states("a", "x") == [AVAILABLE, DONE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_a_job_that_lost_its_token_adds_no_children(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        assert await at.settle(waiting(job, added(at, graph, "x"))) == (Answer.LOST,)
        assert (await at.store.get(graph.ids["x"]), await graph.states("a")) == (None, [AVAILABLE])

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_children_that_have_ended_before_their_parent_waits_release_it_at_once(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        await suspended(at, graph, "a", "x")
        await graph.run("x")
        (job,) = await graph.start("a")
        assert await at.settle(waiting(job)) == (Answer.APPLIED,)
        assert await graph.states("a") == [AVAILABLE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_a_parent_that_ends_late_does_not_release_a_job_that_waits_for_its_children(self, at: Scene) -> None:
        graph = await Graph(at).add("fast").add("slow").add("a", "fast", "slow", join=1).stored()
        await graph.run("fast")
        await suspended(at, graph, "a", "x")
        await graph.run("slow")
        assert await graph.states("a") == [BLOCKED]
        assert (await verbs(at.store).revive(9)).repairs == ()
        await graph.run("x", "a")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s22_the_steps_of_a_suspension_are_written_with_it(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        record = StepRecord(name=":call:x", nth=1, place=0, is_sequential=True, result=b'["1"]')
        members = added(at, graph, "x")
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        assert await at.settle(waiting(job, members, records=(record,))) == (Answer.LOST,)
        steps = store_defaults.steps(at.store)
        assert (await steps.steps(job.id)).records == ()
        (job,) = await graph.start("a")
        assert await at.settle(waiting(job, members, records=(record,))) == (Answer.APPLIED,)
        assert (await steps.steps(job.id)).records == (record,)

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_a_cancelled_job_adds_no_children(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        (job,) = await graph.start("a")
        assert await at.store.request_cancel([job.id]) == {job.id: State.RUNNING}
        record = StepRecord(name=":call:x", nth=1, place=0, is_sequential=True, result=b"[]")
        assert await at.settle(waiting(job, added(at, graph, "x"), records=(record,))) == (Answer.APPLIED,)
        assert (await graph.states("a", "b", "root"), await at.store.get(graph.ids["x"])) == ([CANCELLED, LOST, LOST], None)
        assert (await store_defaults.steps(at.store).steps(job.id)).records == ()

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s20_nothing_that_a_job_of_a_paused_workflow_adds_is_claimed(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        await graph.steer(FlowVerb.PAUSE)
        assert await at.settle(waiting(job, added(at, graph, "x"))) == (Answer.APPLIED,)
        assert await graph.states("a", "x") == [BLOCKED, HELD]
        await graph.steer(FlowVerb.RESUME)
        await graph.run("x")
        assert await graph.states("a") == [AVAILABLE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s20_a_cancelled_workflow_ends_after_the_children_that_run(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        await suspended(at, graph, "a", "x", "y")
        (x,) = await graph.start("x")
        await graph.steer(FlowVerb.CANCEL)
        assert await graph.states("a", "x", "y", "root") == [BLOCKED, State.RUNNING, CANCELLED, BLOCKED]
        assert await at.settle(answered(x, FAILED)) == (Answer.APPLIED,)
        assert await graph.states("a", "x", "y", "root") == [CANCELLED] * 4
        assert [(await at.row(graph.ids[name])).reason for name in ("a", "x", "root")] == [
            Reason.BY_WORKFLOW,
            Reason.BY_WORKFLOW,
            Reason.BY_OPERATOR,
        ]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s20_a_plain_job_that_is_cancelled_ends_after_its_children(self, at: Scene) -> None:
        graph = await plain(at, "x", "y")
        (x,) = await graph.start("x")
        assert await at.store.request_cancel([graph.ids["root"]]) == {graph.ids["root"]: BLOCKED}
        assert await graph.states() == [BLOCKED, State.RUNNING, CANCELLED]
        assert await at.settle(answered(x, FAILED)) == (Answer.APPLIED,)
        assert await graph.states() == [CANCELLED] * 3
        assert (await at.row(graph.ids["root"])).reason is Reason.BY_OPERATOR

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s20_a_member_that_is_cancelled_ends_after_its_children_and_others_run_on(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").add("other").stored()
        await suspended(at, graph, "a", "x", "y")
        (x,) = await graph.start("x")
        assert await at.store.request_cancel([graph.ids["a"]]) == {graph.ids["a"]: BLOCKED}
        assert await graph.states("x", "y", "b") == [State.RUNNING, CANCELLED, BLOCKED]
        assert await at.settle(done(x)) == (Answer.APPLIED,)
        assert await graph.states("a", "x", "b", "other", "root") == [CANCELLED, DONE, LOST, AVAILABLE, BLOCKED]
        assert (await at.row(graph.ids["a"])).reason is Reason.BY_OPERATOR

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_children_that_expire_or_crash_release_their_parent(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        members = (*added(at, graph, "x", expires_in=5.0), *added(at, graph, "y"))
        assert await at.settle(waiting(job, members)) == (Answer.APPLIED,)
        at.advance(6.0)
        assert [each.job for each in await at.store.expire(9)] == [graph.ids["x"]]
        (claim,) = await at.claim(await at.lease(), ids=[graph.ids["y"]], policy=Policy(max_crashes=1))
        await at.store.end_lease(claim.job.lease, CRASH)
        assert await at.settle(rescued(claim.job, CRASH)) == (Answer.APPLIED,)
        assert await graph.states("x", "y", "a") == [LOST, LOST, AVAILABLE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_a_retry_runs_only_the_children_again_that_had_not_completed(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        await suspended(at, graph, "a", "x", "y")
        await graph.run("x")
        await graph.fail("y", "a")
        assert await graph.root() is LOST
        await graph.steer(FlowVerb.RETRY)
        assert await graph.states("x", "y", "a", "b", "root") == [DONE, AVAILABLE, AVAILABLE, BLOCKED, BLOCKED]
        (job,) = await graph.start("a")
        assert await at.settle(waiting(job)) == (Answer.APPLIED,)
        assert await graph.states("a") == [BLOCKED]
        await graph.run("y", "a", "b")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_a_retry_of_a_job_runs_its_children_again_that_had_not_completed(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("other").stored()
        await suspended(at, graph, "a", "x", "y")
        await graph.run("x")
        await graph.fail("y", "a", "other")
        await at.store.reopen([graph.ids["a"]])
        assert await graph.states("x", "y", "a", "other", "root") == [DONE, AVAILABLE, AVAILABLE, LOST, BLOCKED]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_a_plain_job_that_had_children_can_be_retried(self, at: Scene) -> None:
        graph = await plain(at, "x", "y")
        await graph.run("x")
        await graph.fail("y", "root")
        await at.store.reopen([graph.ids["root"]])
        assert await graph.states() == [AVAILABLE, DONE, AVAILABLE]
        await graph.run("y", "root")
        await at.store.reopen([graph.ids["root"]])
        assert await graph.states() == [AVAILABLE, DONE, DONE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_workflow_waits_for_a_child_that_runs_again(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        await suspended(at, graph, "a", "x")
        await graph.run("x", "a", "b")
        assert await graph.root() is DONE
        await at.store.reopen([graph.ids["x"]])
        assert await graph.states("x", "a", "b", "root") == [AVAILABLE, DONE, DONE, BLOCKED]
        await graph.run("x")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_a_job_that_had_children_waits_for_its_parents_when_it_is_retried(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        await graph.run("a")
        await suspended(at, graph, "b", "x")
        await graph.run("x", "b")
        await graph.steer(FlowVerb.RETRY, node=graph.ids["a"])
        assert await graph.states("a", "b", "x") == [AVAILABLE, BLOCKED, DONE]
        await graph.run("a")
        assert await graph.states("b") == [AVAILABLE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_a_plain_job_that_had_children_is_cancelled_by_its_operator(self, at: Scene) -> None:
        graph = await plain(at, "x")
        await graph.run("x")
        (job,) = await graph.start("root")
        assert await at.store.request_cancel([job.id]) == {job.id: State.RUNNING}
        assert await at.settle(answered(job, FAILED)) == (Answer.APPLIED,)
        row = await at.row(job.id)
        assert (row.state, row.reason) == (CANCELLED, Reason.BY_OPERATOR)

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s27_nothing_is_pruned_while_a_child_runs_again(self, at: Scene) -> None:
        graph = await plain(at, "x", "y")
        await graph.run("x", "y")
        await graph.run("root")
        await at.store.reopen([graph.ids["x"]])
        (x,) = await graph.start("x")
        at.advance(Policy().retention + 2000.0)
        await at.store.prune(100)
        assert await at.store.delete([graph.ids["root"]]) == {graph.ids["root"]: DONE}
        assert [await at.store.get(graph.ids[name]) is None for name in ("root", "x", "y")] == [False, False, True]
        assert await at.settle(done(x)) == (Answer.APPLIED,)
        await at.store.prune(100)
        assert await at.store.get(graph.ids["root"]) is None

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s27_children_are_kept_and_pruned_with_their_workflow(self, at: Scene) -> None:
        graph = await plain(at, "x", policy=Policy(retention=2000.0))
        await graph.run("x")
        at.advance(5000.0)
        await at.store.prune(100)
        assert await graph.states() == [AVAILABLE, DONE]
        (claim,) = await at.claim(await at.lease(), ids=[graph.ids["root"]], policy=Policy(retention=2000.0))
        assert await at.settle(done(claim.job)) == (Answer.APPLIED,)
        at.advance(1999.0)
        await at.store.prune(100)
        assert await graph.states() == [DONE, DONE]
        at.advance(2.0)
        assert (await at.store.prune(100)).jobs == 2
        assert await at.store.get(graph.ids["x"]) is None

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s27_a_child_that_runs_again_is_neither_deleted_nor_purged(self, at: Scene) -> None:
        graph = await plain(at, "x")
        await graph.run("x", "root")
        await at.store.reopen([graph.ids["x"]])
        assert await at.store.delete([graph.ids["x"]]) == {graph.ids["x"]: AVAILABLE}
        assert (await store_defaults.purge(at.store, "default", 9)).jobs == 0
        await graph.run("x")
        assert await at.store.delete([graph.ids["x"]]) == {}

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s27_a_job_that_waits_for_its_children_is_not_deleted(self, at: Scene) -> None:
        graph = await plain(at, "x")
        assert await at.store.delete([*graph.ids.values()]) == {graph.ids["root"]: BLOCKED, graph.ids["x"]: AVAILABLE}
        await graph.run("x", "root")
        assert await at.store.delete([graph.ids["root"], graph.ids["x"]]) == {}

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_a_child_takes_from_its_parent_what_it_has_not_itself(self, at: Scene) -> None:
        for queue, more in (("mail", 5), ("other", 3)):
            await store_defaults.lanes(at.store).set_queue(queue, QueueSettings(priority=more))
        graph = await Graph(at).add("a", queue="mail", priority=7, lane="acme", tags=("nightly",)).stored()
        (claim,) = await at.claim(await at.lease(), ids=[graph.ids["a"]])
        members = (*added(at, graph, "x"), *added(at, graph, "y", queue="other", priority=2, lane="own", tags=("mine",)))
        assert await at.settle(waiting(claim.job, members)) == (Answer.APPLIED,)
        rows = [await at.row(graph.ids[name]) for name in ("x", "y")]
        assert [(row.queue, row.priority, row.key, row.tags) for row in rows] == [
            ("mail", 12, "acme", ("nightly",)),
            ("other", 5, "own", ("nightly", "mine")),
        ]
        assert [row.member and row.member.node for row in rows] == ["a/x", "a/y"]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_dependents_start_after_children_of_children_to_depth_5(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        names = ["a", "v", "w", "x", "y", "z"]
        for parent, child in pairwise(names):
            await suspended(at, graph, parent, child)
        assert await graph.states(*names, "root") == [*[BLOCKED] * 5, AVAILABLE, BLOCKED]
        for name in reversed(names):
            assert await graph.states("b") == [BLOCKED]
            await graph.run(name)
        assert await graph.states("b") == [AVAILABLE]
        await graph.run("b")
        assert await graph.root() is DONE

"""Verbs that meet jobs on which others depend: they take the locks of all workflows that their moves reach."""

from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.children import Children
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.outcome import WaitFor
from holdfast._core.policy import HOOK_RETENTION, Policy
from holdfast._core.schedule import Overlap, TickAnswer
from holdfast._core.workflow import Edge, FlowVerb
from holdfast._engine import store_defaults
from holdfast._ports.store import RescueHooks, Scheduling
from holdfast._ports.workflows import DependentJobs, FlowReports, Workflows
from holdfast.testing.contracts.rescuing import ENDS_AT_ONCE, HOOKED, crash, crashed, no_hooks
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, needs, story
from holdfast.testing.contracts.scheduling import move, refused, written
from holdfast.testing.contracts.workflow_changes import no_reports
from holdfast.testing.contracts.workflow_children import added, waiting
from holdfast.testing.contracts.workflow_dependents import (
    after,
    complete,
    fail,
    failed_because_of,
    is_intact,
    no_dependents,
    start,
    states,
)
from holdfast.testing.contracts.workflow_scene import COMPLETED, FAILED, Graph, chain, no_workflows

AVAILABLE, BLOCKED, DONE, LOST, CANCELLED = State.AVAILABLE, State.BLOCKED, State.COMPLETED, State.FAILED, State.CANCELLED


async def expanded(at: Scene, job: UUID, *names: str) -> Graph:
    """Start a job, which becomes a workflow with these members."""
    graph, active = Graph(at), await start(at, job)
    graph.ids = {"root": job}
    members = added(at, graph, *names)
    children = Children(members=members, edges=tuple(Edge(each.job.id, job) for each in members), is_gate=True)
    assert await at.settle(answered(active, WaitFor(children))) == (Answer.APPLIED,)
    return graph


class OutsiderContract(Part):
    """What is promised to jobs that depend on others when verbs of other kinds move those."""

    @story
    @needs(DependentJobs, no_dependents)
    @needs(Scheduling, refused)
    async def test_s19_a_tick_that_cancels_a_parent_fails_its_dependents_that_wait_for_older_jobs_too(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        (older,) = await at.enqueue(at.new())
        await written(at, overlap=Overlap.CANCEL)
        at.advance(60.0 + EARLY)
        one = await move(at)
        assert await store.advance(one) is TickAnswer.FIRED
        assert one.job is not None
        (child,) = await after(at, older, one.job.id)
        at.advance(60.0)
        two = await move(at)
        assert await store.advance(two) is TickAnswer.FIRED
        assert await store.advance(two) is TickAnswer.FIRED
        assert two.job is not None
        assert await states(at, older, one.job.id, two.job.id, child) == [AVAILABLE, CANCELLED, AVAILABLE, LOST]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_l12_a_job_that_waited_for_one_of_several_waits_for_all_members_that_it_adds(self, at: Scene) -> None:
        for last, expected in ((FAILED, LOST), (COMPLETED, DONE)):
            first, second = await at.enqueue(at.new(), at.new())
            (job,) = await after(at, first, second, required=1)
            await complete(at, first)
            graph = await expanded(at, job, "x", "y")
            await graph.run("x")
            await complete(at, second)
            assert await graph.root() is BLOCKED
            assert await is_intact(at)
            await graph.run("y", outcome=last)
            assert await graph.root() is expected
            assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_job_that_has_waited_for_children_still_requires_one_of_several_when_it_is_retried(
        self, at: Scene
    ) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        (job,) = await after(at, first, second, required=1)
        await complete(at, first)
        await fail(at, second)
        graph, active = Graph(at), await start(at, job)
        graph.ids = {"root": job}
        assert await at.settle(waiting(active, added(at, graph, "x"))) == (Answer.APPLIED,)
        await graph.run("x")
        await fail(at, job)
        assert (await at.store.reopen([job])).states == {job: AVAILABLE}

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_workflow_that_failed_because_of_its_members_does_not_run_again_with_a_parent(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (job,) = await after(at, parent)
        await complete(at, parent)
        graph = await expanded(at, job, "x")
        await graph.fail("x")
        assert await graph.states("root", "x") == [LOST, LOST]
        assert (await at.store.reopen([parent])).states == {parent: AVAILABLE}
        assert await graph.states("root", "x") == [LOST, LOST]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_a_failure_that_a_cancellation_passed_on_is_not_held_back_by_a_later_pause(self, at: Scene) -> None:
        graph, (other,) = await Graph(at).add("a", on_failure=OnFailure.PAUSE).add("b").stored(), await at.enqueue(at.new())
        (child,) = await after(at, graph.ids["a"], other, required=1)
        await graph.run("b")
        await graph.fail("a")
        await graph.steer(FlowVerb.CANCEL)
        await at.store.reopen([graph.ids["b"]])
        for verb in (FlowVerb.PAUSE, FlowVerb.RESUME):
            await graph.steer(verb)
            assert await is_intact(at)
        assert await graph.states("root", "a", "b") == [BLOCKED, LOST, AVAILABLE]
        assert await states(at, child) == [BLOCKED]
        await complete(at, other)
        assert await states(at, child) == [AVAILABLE]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_l12_a_failure_that_a_cancellation_passed_on_pauses_again_when_it_is_retried(self, at: Scene) -> None:
        graph = await Graph(at).add("a", on_failure=OnFailure.PAUSE).add("b", "a").stored()
        await graph.fail("a")
        await graph.steer(FlowVerb.CANCEL)
        await graph.steer(FlowVerb.RETRY)
        await graph.fail("a")
        assert await graph.states("root", "a", "b") == [BLOCKED, LOST, BLOCKED]

    @story
    @needs(DependentJobs, no_dependents)
    @needs(RescueHooks, no_hooks)
    async def test_a_cancelled_parent_whose_rescue_hook_is_owed_is_kept_under_any_retention(self, at: Scene) -> None:
        row = await crashed(at, structs.replace(HOOKED, retention=0.0))
        (child,) = await after(at, row.id)
        assert await at.store.request_cancel([row.id]) == {row.id: CANCELLED}
        assert await at.store.delete([child]) == {}
        at.advance(HOOK_RETENTION - 1.0)
        assert (await at.store.prune(99)).jobs == 0
        assert (await at.row(row.id)).hook_due_at is not None
        at.advance(2.0)
        assert (await at.store.prune(99)).jobs == 1

    @story
    @needs(Workflows, no_workflows)
    @needs(RescueHooks, no_hooks)
    async def test_s27_a_member_whose_rescue_hook_is_owed_is_kept_with_its_root_under_any_retention(self, at: Scene) -> None:
        graph = await Graph(at, policy=Policy(retention=0.0)).add("a").add("b").stored()
        await graph.run("b")
        other = await Graph(at, policy=Policy(retention=0.0)).add("c").stored()
        await other.run("c")
        (claim,) = await at.claim(await at.lease(), policy=ENDS_AT_ONCE, ids=[graph.ids["a"]])
        await crash(at, claim.job)
        assert await graph.states("root", "a", "b") == [LOST, LOST, DONE]
        at.advance(HOOK_RETENTION - 1.0)
        while (await at.store.prune(99)).jobs:
            pass
        assert (await at.row(graph.ids["a"])).hook_due_at is not None
        assert (await graph.root(), await at.store.get(other.ids["root"])) == (LOST, None)
        at.advance(2.0)
        while (await at.store.prune(99)).jobs:
            pass
        assert await at.store.list(at.everything) == ()

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s27_no_member_of_a_workflow_is_deleted_while_a_job_waits_that_depends_on_another_one(self, at: Scene) -> None:
        graph, (other,) = await chain(at, "a", "b").stored(), await at.enqueue(at.new())
        (child,) = await after(at, graph.ids["a"], other)
        await graph.run("a", "b")
        assert await at.store.delete([graph.ids["b"]]) == {graph.ids["b"]: DONE}
        await complete(at, other, child)
        assert await at.store.delete([graph.ids["b"]]) == {}

    @story
    @needs(DependentJobs, no_dependents)
    @needs(FlowReports, no_reports)
    async def test_a_job_that_only_depends_on_others_is_reported_as_no_workflow(self, at: Scene) -> None:
        graph, (plain,) = await Graph(at).add("a").stored(), await at.enqueue(at.new())
        (of_plain,), (of_root,) = await after(at, plain), await after(at, graph.ids["root"])
        await fail(at, plain)
        await graph.fail("a")
        assert await failed_because_of(at, of_plain)
        assert await failed_because_of(at, of_root)
        found = store_defaults.take_flow_changes(at.store)
        assert found == (FlowChange(graph.ids["root"], LOST, Reason.DEPENDENCY_FAILED),)

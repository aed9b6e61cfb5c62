"""What a move of a workflow leaves alone: other workflows, plain jobs, and members of the same one that it does not concern."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.member import OnFailure
from holdfast._core.outcome import Cancel, Done, Retry
from holdfast._core.policy import RETENTION_FLOOR, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter
from holdfast._core.workflow import FlowVerb
from holdfast._ports.workflows import Workflows
from holdfast.testing.contracts.scene import Part, Scene, answered, done, needs, rescued, story
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, no_workflows, verbs

CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


async def in_every_state(at: Scene) -> Graph:
    """Store a workflow that has a member in every state."""
    graph = Graph(at).add("done").add("failed", on_failure=OnFailure.CONTINUE).add("held").add("running").add("free")
    await graph.add("stopped", on_failure=OnFailure.CONTINUE).add("blocked", "running", "done").add("later", delay=60.0).stored()
    await graph.run("done")
    await graph.fail("failed")
    hold = Policy(on_crash=CrashPolicy.HOLD)
    (claim,) = await at.claim(await at.lease(), ids=[graph.ids["held"]], policy=hold)
    await at.store.end_lease(claim.job.lease, CRASH)
    assert await at.settle(rescued(claim.job, CRASH)) == (Answer.APPLIED,)
    await graph.start("running")
    await at.store.request_cancel([graph.ids["stopped"]])
    return graph


async def rows_of(at: Scene, *graphs: Graph) -> dict[UUID, JobRecord]:
    """Read all jobs of workflows."""
    return {job: await at.row(job) for graph in graphs for job in graph.ids.values()}


class WorkflowNeighbourContract(Part):
    """What is promised to those whom a move does not concern."""

    @story
    @needs(Workflows, no_workflows)
    async def test_no_move_of_a_workflow_changes_other_workflows_or_plain_jobs(self, at: Scene) -> None:
        other, plain = await in_every_state(at), await at.running()
        (waiting,) = await at.enqueue(at.new())
        before = {**await rows_of(at, other), plain.id: await at.row(plain.id), waiting: await at.row(waiting)}
        view = await verbs(at.store).flow(other.ids["root"])

        async def fail(graph: Graph) -> None:
            (job,) = await graph.start("free")
            await at.settle(answered(job, FAILED))

        async def steer(graph: Graph, *chosen: FlowVerb) -> None:
            for verb in chosen:
                await graph.steer(verb)

        acts: list[Callable[[Graph], Awaitable[object]]] = [
            fail,
            lambda graph: steer(graph, FlowVerb.PAUSE, FlowVerb.RESUME),
            lambda graph: steer(graph, FlowVerb.CANCEL, FlowVerb.RETRY),
            lambda graph: at.store.request_cancel([graph.ids["free"], graph.ids["root"]]),
            lambda graph: at.store.reopen([graph.ids["failed"], graph.ids["stopped"]]),
            lambda graph: verbs(at.store).revive(9, flow=graph.ids["root"]),
        ]
        for act in acts:
            await act(await in_every_state(at))
            after = {**await rows_of(at, other), plain.id: await at.row(plain.id), waiting: await at.row(waiting)}
            assert after == before
            assert await verbs(at.store).flow(other.ids["root"]) == view

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_pause_and_its_end_change_only_what_was_available(self, at: Scene) -> None:
        graph = await in_every_state(at)
        before = await rows_of(at, graph)
        for _ in range(2):
            await graph.steer(FlowVerb.PAUSE)
            paused = await rows_of(at, graph)
            changed = {name for name, job in graph.ids.items() if paused[job] != before[job]}
            assert changed == {"free", "later"}
        assert (await verbs(at.store).revive(9)).repairs == ()
        await graph.steer(FlowVerb.RESUME)
        assert await rows_of(at, graph) == before

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_cancellation_changes_nothing_that_has_ended(self, at: Scene) -> None:
        graph = await in_every_state(at)
        ended = {name: await at.row(graph.ids[name]) for name in ("done", "failed", "stopped")}
        await graph.steer(FlowVerb.CANCEL)
        assert {name: await at.row(graph.ids[name]) for name in ended} == ended
        rows = {name: await at.row(graph.ids[name]) for name in ("free", "later", "blocked", "held")}
        assert {(row.state, row.reason) for row in rows.values()} == {(State.CANCELLED, Reason.BY_WORKFLOW)}
        row = await at.row(graph.ids["running"])
        assert (row.state, row.cancel_requested) == (State.RUNNING, True)

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_retry_changes_nothing_that_completed_runs_or_waits(self, at: Scene) -> None:
        graph = await in_every_state(at)
        names = ("done", "running", "free", "later", "held", "blocked")
        before = {name: await at.row(graph.ids[name]) for name in names}
        await graph.steer(FlowVerb.RETRY)
        assert {name: await at.row(graph.ids[name]) for name in names} == before
        assert await graph.states("failed", "stopped") == [State.AVAILABLE, State.AVAILABLE]

    @story
    @needs(Workflows, no_workflows)
    async def test_a_cancelled_member_has_the_reason_of_the_one_that_cancelled_it(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("c").add("d").stored()
        (first,) = await graph.start("a")
        await at.store.request_cancel([first.id])
        await at.settle(answered(first, Retry(after="0s")))
        second, third = await graph.start("b", "d")
        await graph.steer(FlowVerb.CANCEL)
        await at.settle(answered(second, Done(b"1")), answered(third, Cancel("no need")))
        rows = [await at.row(graph.ids[name]) for name in "abcd"]
        assert [(row.state, row.reason) for row in rows] == [
            (State.CANCELLED, Reason.BY_OPERATOR),
            (State.COMPLETED, None),
            (State.CANCELLED, Reason.BY_WORKFLOW),
            (State.CANCELLED, Reason.BY_HANDLER),
        ]

    @story
    @needs(Workflows, no_workflows)
    async def test_s27_members_that_never_ran_are_kept_as_those_that_did(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a", policy=Policy(retention=0.0)).add("c").stored()
        await graph.fail("a")
        at.advance(30 * 86_400.0)
        await at.store.prune(9)
        assert await graph.states() == [State.BLOCKED, State.FAILED, State.FAILED, State.AVAILABLE]
        row = await at.row(graph.ids["b"])
        assert (row.state, row.is_stub) == (State.FAILED, False)

    @story
    @needs(Workflows, no_workflows)
    async def test_s27_a_root_that_is_reduced_to_a_stub_keeps_its_members(self, at: Scene) -> None:
        graph = await Graph(at, policy=Policy(retention=0.0)).add("a").add("b", "a").stored(result="b")
        await graph.run("a", "b")
        before = await verbs(at.store).flow(graph.ids["root"])
        at.advance(1.0)
        assert (await at.store.prune(9)).stubs == 1
        assert await verbs(at.store).flow(graph.ids["root"]) == before
        assert await graph.steer(FlowVerb.RETRY) is State.COMPLETED
        assert (await at.store.reopen([graph.ids["a"]])).states == {graph.ids["a"]: State.COMPLETED}
        at.advance(RETENTION_FLOOR)
        assert (await at.store.prune(9)).jobs == 3
        assert [await at.store.get(job) for job in graph.ids.values()] == [None] * 3

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_pass_ends_the_overdue_workflows_that_it_looks_at(self, at: Scene) -> None:
        graphs = [await Graph(at, deadline=10.0).add("a").stored() for _ in range(4)]
        await graphs[0].run("a")
        at.advance(11.0)
        ids = [graph.ids["root"] for graph in graphs]
        first = await verbs(at.store).revive(2, dry_run=True)
        assert (first.overdue, first.next) == ((ids[1], ids[2]), ids[2])
        rest = await verbs(at.store).revive(2, after=first.next, dry_run=True)
        assert (rest.overdue, rest.next) == ((ids[3],), None)
        assert (await verbs(at.store).revive(9, flow=ids[2])).overdue == (ids[2],)
        assert [await graph.root() for graph in graphs[2:]] == [State.FAILED, State.BLOCKED]

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_to_resume_one_workflow_leaves_another_one_paused(self, at: Scene) -> None:
        first, second = await Graph(at).add("a").stored(), await Graph(at).add("a").stored()
        for graph in (first, second):
            await graph.steer(FlowVerb.PAUSE)
        await first.steer(FlowVerb.RESUME)
        assert (await first.states("a"), await second.states("a")) == ([State.AVAILABLE], [State.HELD])

    @story
    @needs(Workflows, no_workflows)
    async def test_a_tolerated_failure_changes_the_policy_of_no_other_member(self, at: Scene) -> None:
        graph = await chain(at, "a", "b", "c", on_failure=OnFailure.PAUSE).stored()
        await graph.fail("a")
        await graph.steer(FlowVerb.RESUME, failed=OnFailure.CONTINUE)
        await graph.fail("b")
        assert await graph.states("c", "root") == [State.BLOCKED, State.BLOCKED]
        view = await verbs(at.store).flow(graph.ids["root"])
        assert view is not None
        assert view.flow.is_paused

    @story
    @needs(Workflows, no_workflows)
    async def test_s11_a_workflow_whose_unique_key_is_taken_is_not_retried(self, at: Scene) -> None:
        first = await Graph(at, key="k").add("a").add("b").stored()
        await first.fail("a")
        await first.steer(FlowVerb.RETRY)
        assert await first.states("a", "b") == [State.AVAILABLE, State.AVAILABLE]
        await first.run("b")
        await first.fail("a")
        await at.enqueue(at.new(key="k"))
        await Graph(at, key="other").add("a").stored()
        await first.steer(FlowVerb.RETRY)
        assert await first.states("root", "a") == [State.BLOCKED, State.AVAILABLE]
        await first.fail("a")
        second = await Graph(at, key="k").add("a").stored()
        assert await first.steer(FlowVerb.RETRY) is State.FAILED
        assert await first.steer(FlowVerb.RESUME, is_retry=True) is State.FAILED
        for name in ("a", "root"):
            assert (await at.store.reopen([first.ids[name]])).taken == {first.ids[name]: second.ids["root"]}
        assert await first.states("root", "a") == [State.FAILED, State.FAILED]
        await second.run("a")
        assert await first.steer(FlowVerb.RETRY) is State.BLOCKED

    @story
    @needs(Workflows, no_workflows)
    async def test_to_delete_a_root_deletes_its_members_and_no_others(self, at: Scene) -> None:
        first, second = await chain(at, "a", "b").stored(), await chain(at, "a", "b").stored()
        await first.run("a", "b")
        await second.run("a", "b")
        assert await at.store.delete([first.ids["a"]]) == {}
        assert await at.store.delete([first.ids["root"]]) == {}
        assert [await at.store.get(job) for job in first.ids.values()] == [None] * 3
        assert await second.states() == [State.COMPLETED] * 3
        view = await verbs(at.store).flow(second.ids["root"])
        assert view is not None
        assert len(view.members) == 3

    @story
    @needs(Workflows, no_workflows)
    async def test_s27_pruning_takes_members_before_their_roots_and_no_others(self, at: Scene) -> None:
        graphs = [await chain(at, *"abc").stored() for _ in range(3)]
        for graph in graphs[1:]:
            await graph.run(*"abc")
        await graphs[0].run("a")
        kept = await rows_of(at, graphs[0])
        at.advance((await at.row(graphs[0].ids["root"])).policy.retention + RETENTION_FLOOR)
        left = [job for graph in graphs[1:] for job in graph.ids.values()]
        while (await at.store.prune(2)).jobs:
            known = [job for job in left if await at.store.get(job) is not None]
            for graph in graphs[1:]:
                members = {job for name, job in graph.ids.items() if name != "root"} & {*known}
                assert not members or graph.ids["root"] in known
        assert [await at.store.get(job) for job in left] == [None] * 8
        assert await rows_of(at, graphs[0]) == kept
        await graphs[0].run("b", "c")
        assert await graphs[0].root() is State.COMPLETED

    @story
    @needs(Workflows, no_workflows)
    async def test_a_dependent_that_was_scheduled_is_not_due_before(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a", run_at=at.now.replace(year=2100)).stored()
        (job,) = await graph.start("a")
        view = await verbs(at.store).flow(graph.ids["root"])
        assert view is not None
        assert [member.state for member in view.members] == [State.RUNNING, State.BLOCKED, State.BLOCKED]
        await at.settle(done(job))
        assert (await graph.states("b"), (await at.row(graph.ids["b"])).available_at.year) == ([State.SCHEDULED], 2100)
        view = await verbs(at.store).flow(graph.ids["root"])
        assert view is not None
        assert [member.state for member in view.members] == [State.COMPLETED, State.SCHEDULED, State.BLOCKED]

    @story
    @needs(Workflows, no_workflows)
    async def test_workflows_are_listed_without_their_members_and_plain_jobs(self, at: Scene) -> None:
        graphs = [await Graph(at).add("a").add("b", "a").stored() for _ in range(3)]
        await at.enqueue(at.new())
        await graphs[1].run("a", "b")
        which = JobFilter(only_workflows=True)
        first, second, third = (graph.ids["root"] for graph in graphs)
        for asked, ids in (
            (which, [third, second, first]),
            (structs.replace(which, state=State.COMPLETED), [second]),
            (structs.replace(which, before=third, limit=1), [second]),
            (structs.replace(which, task="other"), []),
        ):
            assert [row.id for row in await at.store.list(asked)] == ids

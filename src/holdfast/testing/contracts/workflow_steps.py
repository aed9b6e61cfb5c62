"""Members of workflows that take durable steps and await signals."""

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import HeldFor, State
from holdfast._core.outcome import Suspend
from holdfast._core.policy import RETENTION_FLOOR, CrashPolicy, Policy
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.steps import FOREVER
from holdfast._core.workflow import FlowVerb
from holdfast._engine import store_defaults
from holdfast._ports.steps import Steps
from holdfast._ports.workflows import Workflows
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, needs, rescued, story
from holdfast.testing.contracts.signalling import ACCEPTED, send
from holdfast.testing.contracts.stepping import FIRST, kept, no_steps, recorded
from holdfast.testing.contracts.workflow_neighbours import CRASH
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, no_workflows, verbs


async def with_steps(at: Scene, *, policy: Policy | None = None) -> Graph:
    """Return a workflow whose two members have taken a step each and failed."""
    graph = await Graph(at, policy=policy).add("a").add("b").stored()
    first, second = await graph.start("a", "b")
    await recorded(at, first, FIRST)
    await recorded(at, second, FIRST)
    await at.settle(answered(first, FAILED), answered(second, FAILED))
    return graph


class WorkflowStepContract(Part):
    """What steps and signals promise to members of workflows."""

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_a_fresh_retry_of_a_member_forgets_its_steps_and_a_plain_one_keeps_them(self, at: Scene) -> None:
        graph = await with_steps(at)
        ids = [graph.ids["a"], graph.ids["b"]]
        which = JobFilter(state=State.FAILED)
        await at.store.reopen([ids[0]])
        assert [await kept(at, job) for job in ids] == [(FIRST,), (FIRST,)]
        await graph.fail("a")
        await at.store.reopen([ids[0]], is_fresh=True)
        assert [await kept(at, job) for job in ids] == [(), (FIRST,)]
        await store_defaults.steer(at.store, Steer(SteerVerb.REOPEN, is_fresh=True), [ids[1]], which)
        assert [await kept(at, job) for job in ids] == [(), ()]
        assert await graph.states("a", "b") == [State.AVAILABLE] * 2

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_a_retry_of_a_workflow_keeps_the_steps_of_its_members_unless_it_is_fresh(self, at: Scene) -> None:
        graph = await with_steps(at)
        ids = [graph.ids["a"], graph.ids["b"]]
        await graph.steer(FlowVerb.RETRY)
        assert [await kept(at, job) for job in ids] == [(FIRST,), (FIRST,)]
        await graph.fail("a", "b")
        await at.store.reopen([graph.ids["root"]], is_fresh=True)
        assert [await kept(at, job) for job in ids] == [(), ()]

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_a_member_that_completes_forgets_its_steps_and_releases_what_waits_for_it(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        (first,) = await graph.start("a")
        await recorded(at, first, FIRST)
        assert await at.settle(structs.replace(done(first), forgets_steps=True)) == (Answer.APPLIED,)
        assert await kept(at, first.id) == ()
        assert await graph.states("b") == [State.AVAILABLE]

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_steps_and_signals_of_members_are_deleted_and_pruned_with_their_root(self, at: Scene) -> None:
        graphs = [await with_steps(at, policy=Policy(retention=60.0)) for _ in range(3)]
        await at.store.delete([graphs[0].ids["root"]])
        assert [await kept(at, each.ids["a"]) for each in graphs] == [(), (FIRST,), (FIRST,)]
        await at.store.reopen([graphs[2].ids["a"]])
        at.advance(RETENTION_FLOOR + EARLY)
        await at.store.prune(1000)
        assert [await kept(at, each.ids["b"]) for each in graphs] == [(), (), (FIRST,)]

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_a_member_awaits_its_signal_through_a_pause(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("c").stored()
        jobs = await graph.start("a", "b", "c")
        await at.settle(*(answered(job, Suspend(FOREVER, "go")) for job in jobs[:2]))
        view = await verbs(at.store).flow(graph.ids["root"])
        assert view is not None
        assert [member.state for member in view.members] == [State.BLOCKED, State.BLOCKED, State.RUNNING, State.BLOCKED]
        await graph.steer(FlowVerb.PAUSE)
        await at.settle(answered(jobs[2], Suspend(FOREVER, "go")))
        for job in (jobs[0], jobs[2]):
            assert await send(at, job.id) is ACCEPTED
        row = await at.row(jobs[1].id)
        assert (row.state, row.awaits) == (State.HELD, "go")
        assert await graph.states("a", "b", "c") == [State.HELD] * 3
        await graph.steer(FlowVerb.RESUME)
        assert await graph.states("a", "b", "c") == [State.AVAILABLE, State.BLOCKED, State.AVAILABLE]
        await graph.steer(FlowVerb.PAUSE)
        await graph.steer(FlowVerb.CANCEL)
        row = await at.row(jobs[1].id)
        assert (row.state, row.awaits) == (State.CANCELLED, None)

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_what_a_pause_holds_is_held_for_nothing_else(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").stored()
        (claim,) = await at.claim(await at.lease(), ids=[graph.ids["a"]], policy=Policy(on_crash=CrashPolicy.HOLD))
        await at.store.end_lease(claim.job.lease, CRASH)
        await at.settle(rescued(claim.job, CRASH))
        await graph.steer(FlowVerb.PAUSE)
        assert (await at.row(graph.ids["a"])).held_for is HeldFor.CRASH
        await at.store.reopen([graph.ids["a"]])
        rows = [await at.row(graph.ids[name]) for name in ("a", "b")]
        assert [(row.state, row.held_for) for row in rows] == [(State.HELD, None)] * 2

    @story
    @needs(Workflows, no_workflows)
    @needs(Steps, no_steps)
    async def test_members_that_await_signals_or_others_are_counted_as_blocked(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        (job,) = await graph.start("a")
        await at.settle(answered(job, Suspend(FOREVER, "go")))
        assert await graph.states("a", "b", "root") == [State.BLOCKED] * 3
        assert await at.store.counts() == {("", State.BLOCKED): 3}
        assert [view.counts for view in await at.store.queues()] == [{State.BLOCKED: 3}]

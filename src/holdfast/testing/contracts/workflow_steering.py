"""What operators do to workflows: pause, resume, cancel, retry, delete; deadlines, repairs and retention."""

from holdfast._core.answers import Answer
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.outcome import Retry
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.workflow import FlowVerb
from holdfast._engine import store_defaults
from holdfast._ports.workflows import Workflows
from holdfast.testing.contracts.scene import Part, Scene, answered, done, needs, released, story
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, no_workflows, verbs

AVAILABLE, BLOCKED, HELD = State.AVAILABLE, State.BLOCKED, State.HELD
DONE, LOST, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED


class WorkflowSteeringContract(Part):
    """What is promised to operators of workflows."""

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_nothing_of_a_paused_workflow_is_claimed(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").add("c").add("d").stored()
        running, retried = await graph.start("a", "d")
        assert await graph.steer(FlowVerb.PAUSE) is BLOCKED
        assert await graph.states() == [BLOCKED, State.RUNNING, BLOCKED, HELD, State.RUNNING]
        await at.settle(done(running), answered(retried, Retry(after="0s")))
        assert await graph.states() == [BLOCKED, DONE, HELD, HELD, HELD]
        assert (await at.store.reopen([graph.ids["b"]])).states == {graph.ids["b"]: HELD}
        assert await at.claim(await at.lease(), 9) == ()
        assert await graph.steer(FlowVerb.RESUME) is BLOCKED
        assert len(await at.claim(await at.lease(), 9)) == 3

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_resumed_member_has_its_former_position(self, at: Scene) -> None:
        graph = await Graph(at).add("a").stored()
        at.advance(1.0)
        await at.enqueue(at.new())
        await graph.steer(FlowVerb.PAUSE)
        at.advance(1.0)
        await graph.steer(FlowVerb.RESUME)
        assert [claim.job.id for claim in await at.claim(await at.lease())] == [graph.ids["a"]]

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_claim_that_is_released_during_a_pause_is_held(self, at: Scene) -> None:
        graph = await Graph(at).add("a").stored()
        (job,) = await graph.start("a")
        await graph.steer(FlowVerb.PAUSE)
        assert await at.settle(released(job)) == (Answer.APPLIED,)
        assert await at.settle(released(job)) == (Answer.APPLIED,)
        assert await graph.states("a") == [HELD]

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_member_that_was_held_and_cancelled_can_be_reopened_after_the_pause(self, at: Scene) -> None:
        graph = await Graph(at).add("a").stored()
        await graph.steer(FlowVerb.PAUSE)
        await at.store.request_cancel([graph.ids["a"]])
        assert await graph.states() == [LOST, CANCELLED]
        await graph.steer(FlowVerb.RESUME)
        assert (await at.store.reopen([graph.ids["a"]])).states == {graph.ids["a"]: AVAILABLE}
        await graph.run("a")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_nothing_of_a_cancelled_workflow_is_claimed_and_it_ends_with_its_last_active_member(
        self, at: Scene
    ) -> None:
        graph = await Graph(at).add("a").add("b", "a").add("c").add("d").stored()
        running, other = await graph.start("a", "d")
        assert await graph.steer(FlowVerb.CANCEL) is BLOCKED
        assert await graph.states() == [BLOCKED, State.RUNNING, CANCELLED, CANCELLED, State.RUNNING]
        beaten = await at.store.beat([running.lease])
        assert {*beaten.cancelled[running.lease]} == {running.id, other.id}
        move = answered(running, Retry(after="0s"))
        assert await at.settle(move) == (Answer.APPLIED,)
        assert await at.settle(move) == (Answer.APPLIED,)
        assert await graph.root() is BLOCKED
        await at.settle(done(other))
        assert await graph.states() == [CANCELLED, CANCELLED, CANCELLED, CANCELLED, DONE]
        reasons = [(await at.row(graph.ids[name])).reason for name in ("root", "a", "b")]
        assert reasons == [Reason.BY_OPERATOR, Reason.BY_WORKFLOW, Reason.BY_WORKFLOW]

    @story
    @needs(Workflows, no_workflows)
    async def test_a_cancel_ends_the_pause_so_that_a_later_retry_runs_at_once(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        running = await Graph(at).add("c").add("d", on_failure=OnFailure.PAUSE).stored()
        (job,) = await running.start("c")
        await running.fail("d")
        for each in (graph, running):
            await each.steer(FlowVerb.PAUSE)
            await each.steer(FlowVerb.CANCEL)
            found = await verbs(at.store).flow(each.ids["root"])
            assert found is not None
            assert found.flow.paused_at is None
        await at.settle(answered(job, Retry(after="0s")))
        assert [await each.root() for each in (graph, running)] == [CANCELLED, CANCELLED]
        for each in (graph, running):
            assert await each.steer(FlowVerb.RETRY) is BLOCKED
        assert await graph.states() == [BLOCKED, AVAILABLE, BLOCKED]
        assert await running.states() == [BLOCKED, AVAILABLE, AVAILABLE]
        await graph.run("a", "b")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_to_cancel_the_root_cancels_the_workflow(self, at: Scene) -> None:
        graph = await chain(at, "a", "b").stored()
        assert await at.store.request_cancel([graph.ids["root"]]) == {graph.ids["root"]: CANCELLED}
        assert await graph.states() == [CANCELLED] * 3
        await graph.steer(FlowVerb.CANCEL)
        assert (await at.row(graph.ids["root"])).reason is Reason.BY_OPERATOR

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_nothing_of_an_overdue_workflow_is_claimed(self, at: Scene) -> None:
        graph = await Graph(at, deadline=10.0).add("a").add("b", "a").add("c").stored()
        at.advance(9.0)
        assert (await verbs(at.store).revive(9)).overdue == ()
        (job,) = await graph.start("a")
        at.advance(2.0)
        for is_dry, states in ((True, [BLOCKED, AVAILABLE]), (False, [CANCELLED, CANCELLED])):
            assert (await verbs(at.store).revive(9, dry_run=is_dry)).overdue == (graph.ids["root"],)
            assert await graph.states("b", "c") == states
        await at.settle(answered(job, FAILED))
        row = await at.row(graph.ids["root"])
        assert (row.state, row.reason) == (LOST, Reason.TIMED_OUT)

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_member_that_ends_after_the_deadline_releases_nothing(self, at: Scene) -> None:
        graph = await Graph(at, deadline=10.0).add("a").add("b", "a").stored()
        (job,) = await graph.start("a")
        at.advance(11.0)
        await at.settle(done(job))
        assert await graph.states() == [LOST, DONE, CANCELLED]

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_failure_that_cancels_ends_the_workflow(self, at: Scene) -> None:
        graph = await Graph(at).add("a", on_failure=OnFailure.CANCEL).add("b", "a").add("c").stored()
        await graph.fail("a")
        assert await graph.states() == [LOST, LOST, CANCELLED, CANCELLED]
        row = await at.row(graph.ids["root"])
        assert (row.reason, (await graph.error("root")).message) == (Reason.DEPENDENCY_FAILED, "a did not complete")

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_failure_that_pauses_waits_for_a_decision(self, at: Scene) -> None:
        for failed, states in ((OnFailure.FAIL, [LOST, LOST]), (OnFailure.CONTINUE, [LOST, AVAILABLE])):
            graph = await chain(at, "a", "b", on_failure=OnFailure.PAUSE).stored()
            await graph.fail("a")
            assert await graph.states("a", "b", "root") == [LOST, BLOCKED, BLOCKED]
            assert (await verbs(at.store).revive(9)).repairs == ()
            await graph.steer(FlowVerb.RESUME, failed=failed)
            assert await graph.states("a", "b") == states

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_failure_that_pauses_can_be_tried_again(self, at: Scene) -> None:
        graph = await chain(at, "a", "b", on_failure=OnFailure.PAUSE).stored()
        await graph.fail("a")
        await graph.steer(FlowVerb.RESUME, is_retry=True)
        await graph.run("a", "b")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_retry_runs_only_what_has_not_completed(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b").add("c", "a", "b").add("d", "c").stored()
        await graph.run("a")
        (failed,) = await graph.fail("b")
        assert await graph.steer(FlowVerb.RETRY) is BLOCKED
        assert await graph.states() == [BLOCKED, DONE, AVAILABLE, BLOCKED, BLOCKED]
        assert await at.settle(failed) == (Answer.APPLIED,)
        assert await graph.states("b", "c") == [AVAILABLE, BLOCKED]
        row = await at.row(graph.ids["b"])
        assert (row.failures, row.error, row.reason, len(row.attempts)) == (0, None, None, 1)
        await graph.run("b", "c", "d")
        assert await graph.root() is DONE
        assert (await at.row(graph.ids["a"])).attempt == 1

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_retry_from_a_member_repeats_what_is_behind_it(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").add("c", "b").add("other").stored()
        await graph.run("a", "b", "c", "other")
        assert await graph.steer(FlowVerb.RETRY, node=graph.ids["b"]) is BLOCKED
        assert await graph.states() == [BLOCKED, DONE, AVAILABLE, BLOCKED, DONE]
        await graph.run("b", "c")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_reopened_member_takes_its_dependents_with_it(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").add("x").add("y", "x").stored()
        await graph.fail("a", "x")
        assert (await at.store.reopen([graph.ids["a"]])).states == {graph.ids["a"]: AVAILABLE}
        assert await graph.states() == [BLOCKED, AVAILABLE, BLOCKED, LOST, LOST]
        await graph.run("a", "b")
        assert await graph.root() is LOST
        assert (await at.store.reopen([graph.ids["root"]])).states == {graph.ids["root"]: BLOCKED}
        await graph.run("x", "y")
        assert await graph.root() is DONE

    @story
    @needs(Workflows, no_workflows)
    async def test_an_unknown_workflow_is_not_steered(self, at: Scene) -> None:
        graph = await Graph(at).add("a").stored()
        for verb in FlowVerb:
            graph.ids["root"] = at.chance.uuid7()
            assert await graph.steer(verb) is None

    @story
    @needs(Workflows, no_workflows)
    async def test_l17_a_pass_changes_nothing_in_intact_workflows(self, at: Scene) -> None:
        graphs = [await chain(at, *"abc").stored() for _ in range(3)]
        await graphs[0].run("a")
        before = [await at.row(job) for graph in graphs for job in graph.ids.values()]
        seen, after = 0, None
        while True:
            revived = await verbs(at.store).revive(2, after=after)
            seen, after = seen + 1, revived.next
            assert (revived.repairs, revived.overdue) == ((), ())
            if after is None:
                break
        assert (seen, [await at.row(job) for graph in graphs for job in graph.ids.values()]) == (2, before)
        assert (await verbs(at.store).revive(9, flow=graphs[1].ids["root"])).next is None

    @story
    @needs(Workflows, no_workflows)
    async def test_s27_members_are_kept_until_their_root_is_pruned(self, at: Scene) -> None:
        graph = await chain(at, "a", "b", policy=Policy(retention=0.0)).stored()
        await graph.run("a")
        at.advance(30 * 86_400.0)
        assert (await at.store.prune(9)).jobs == 0
        assert await graph.states() == [BLOCKED, DONE, AVAILABLE]
        await graph.run("b")
        at.advance(RETENTION_FLOOR + 1.0)
        pruned = await at.store.prune(9)
        assert (pruned.jobs, pruned.stubs) == (0, 0)
        retention = (await at.row(graph.ids["root"])).policy.retention
        at.advance(retention)
        while (await at.store.prune(2)).jobs:
            pass
        assert [await at.store.get(job) for job in graph.ids.values()] == [None] * 3
        assert await verbs(at.store).flow(graph.ids["root"]) is None

    @story
    @needs(Workflows, no_workflows)
    async def test_s27_members_of_an_unfinished_workflow_are_not_deleted(self, at: Scene) -> None:
        graph = await Graph(at).add("a", queue="q").add("b", "a", queue="q").add("c", queue="q").stored()
        await graph.run("c")
        left = await at.store.delete([*graph.ids.values()])
        assert [left[job] for job in graph.ids.values()] == [BLOCKED, AVAILABLE, BLOCKED, DONE]
        await at.enqueue(at.new(queue="q"))
        assert (await store_defaults.purge(at.store, "q", 9)).jobs == 1
        assert await graph.states("a", "b") == [AVAILABLE, BLOCKED]
        await graph.steer(FlowVerb.CANCEL)
        assert await at.store.delete([graph.ids["root"]]) == {}
        assert [await at.store.get(job) for job in graph.ids.values()] == [None] * 4

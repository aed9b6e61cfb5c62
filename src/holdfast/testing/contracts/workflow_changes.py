"""A store reports, once, which workflows its own writes have ended or paused."""

from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.outcome import Retry
from holdfast._core.workflow import FlowVerb
from holdfast._engine import store_defaults
from holdfast._ports.workflows import FlowReports
from holdfast.testing.contracts.scene import Part, Scene, answered, done, needs, story
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, verbs


async def no_reports(at: Scene) -> None:
    """Check that a store without reports is known as such."""
    assert store_defaults.take_flow_changes(at.store) == ()


def changes(at: Scene) -> list[tuple[State, Reason | None]]:
    """Take the changes that the store reports, without their workflows."""
    return [(each.state, each.reason) for each in store_defaults.take_flow_changes(at.store)]


class WorkflowChangeContract(Part):
    """What the reports of a store promise."""

    @story
    @needs(FlowReports, no_reports)
    async def test_the_write_that_ends_the_last_member_reports_the_end_of_its_workflow_once(self, at: Scene) -> None:
        graph, other = await chain(at, "a", "b").stored(), await chain(at, "c").stored()
        (move,) = await graph.run("a")
        assert changes(at) == []
        (move,) = await graph.run("b")
        assert store_defaults.take_flow_changes(at.store) == (FlowChange(graph.ids["root"], State.COMPLETED),)
        await at.settle(move)
        assert changes(at) == []
        await other.fail("c")
        assert changes(at) == [(State.FAILED, Reason.DEPENDENCY_FAILED)]

    @story
    @needs(FlowReports, no_reports)
    async def test_several_ends_in_one_exchange_are_all_reported(self, at: Scene) -> None:
        graphs = [await Graph(at).add("a").stored() for _ in range(3)]
        jobs = [job for graph in graphs for job in await graph.start("a")]
        await at.settle(done(jobs[0]), answered(jobs[1], FAILED), answered(jobs[2], Retry(after="0s")))
        found = {each.flow: each.state for each in store_defaults.take_flow_changes(at.store)}
        assert found == {graphs[0].ids["root"]: State.COMPLETED, graphs[1].ids["root"]: State.FAILED}

    @story
    @needs(FlowReports, no_reports)
    async def test_a_pause_for_a_failed_member_is_reported_once_and_that_of_an_operator_is_not(self, at: Scene) -> None:
        graph = Graph(at).add("a", on_failure=OnFailure.PAUSE).add("b", on_failure=OnFailure.PAUSE).add("c")
        await graph.stored()
        first, second = await graph.start("a", "b")
        await at.settle(answered(first, FAILED))
        assert changes(at) == [(State.HELD, Reason.DEPENDENCY_FAILED)]
        await at.settle(answered(second, FAILED))
        assert changes(at) == []
        await graph.steer(FlowVerb.RESUME)
        await graph.steer(FlowVerb.PAUSE)
        assert changes(at) == []

    @story
    @needs(FlowReports, no_reports)
    async def test_a_verb_of_an_operator_reports_the_workflows_that_its_write_has_ended(self, at: Scene) -> None:
        idle, busy, one = [await chain(at, "a", "b").stored() for _ in range(3)]
        (job,) = await busy.start("a")
        await idle.steer(FlowVerb.CANCEL)
        await at.store.request_cancel([one.ids["a"]])
        assert changes(at) == [(State.CANCELLED, Reason.BY_OPERATOR), (State.FAILED, Reason.DEPENDENCY_FAILED)]
        await busy.steer(FlowVerb.CANCEL)
        assert changes(at) == []
        await at.settle(done(job))
        assert changes(at) == [(State.CANCELLED, Reason.BY_OPERATOR)]
        await idle.steer(FlowVerb.CANCEL)
        assert changes(at) == []

    @story
    @needs(FlowReports, no_reports)
    async def test_passes_report_what_expires_and_what_is_overdue(self, at: Scene) -> None:
        await Graph(at).add("a", expires_in=5.0).stored()
        await Graph(at, deadline=5.0).add("a").stored()
        at.advance(6.0)
        await at.store.expire(9)
        assert changes(at) == [(State.FAILED, Reason.DEPENDENCY_FAILED)]
        await verbs(at.store).revive(9, dry_run=True)
        assert changes(at) == []
        await verbs(at.store).revive(9)
        assert changes(at) == [(State.FAILED, Reason.TIMED_OUT)]

    @story
    @needs(FlowReports, no_reports)
    async def test_a_workflow_without_members_has_completed_when_it_is_stored(self, at: Scene) -> None:
        await Graph(at).stored()
        assert changes(at) == [(State.COMPLETED, None)]

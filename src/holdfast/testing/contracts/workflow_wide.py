"""Workflows with many members alike: what moves one of them moves all, and no other."""

from collections import Counter

from holdfast._core.answers import Answer
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.workflow import FlowVerb
from holdfast._ports.workflows import Workflows
from holdfast.testing.contracts.scene import Part, Scene, done, needs, story
from holdfast.testing.contracts.workflow_dependents import is_intact
from holdfast.testing.contracts.workflow_scene import Graph, no_workflows, verbs

AVAILABLE, BLOCKED, HELD = State.AVAILABLE, State.BLOCKED, State.HELD
WIDTH = 120
MANY = [f"child {number}" for number in range(WIDTH)]


def wide(at: Scene, *parents: str, tolerates: bool = False, on_failure: OnFailure = OnFailure.FAIL) -> Graph:
    """Return a workflow of these parents, with many members that depend on all of them."""
    graph = Graph(at)
    for parent in parents:
        graph.add(parent, on_failure=on_failure)
    for name in MANY:
        graph.add(name, *parents, tolerates=tolerates)
    return graph


async def children(graph: Graph) -> Counter[State]:
    """Count the many members by their states."""
    view = await verbs(graph.at.store).flow(graph.ids["root"])
    assert view is not None
    return Counter(each.state for each in view.members if each.member.node in MANY)


class WideWorkflowContract(Part):
    """What is promised to many jobs that wait for the same."""

    @story
    @needs(Workflows, no_workflows)
    async def test_s18_a_parent_releases_all_its_children_and_no_others(self, at: Scene) -> None:
        graph, other = await wide(at, "a").add("last", *MANY[:2]).stored(), await wide(at, "a").stored()
        await graph.run("a")
        assert (await children(graph), await children(other)) == ({AVAILABLE: WIDTH}, {BLOCKED: WIDTH})
        assert await graph.states("last", "root") == [BLOCKED, BLOCKED]
        assert await is_intact(at)

    @story
    @needs(Workflows, no_workflows)
    async def test_s18_many_children_wait_for_both_parents(self, at: Scene) -> None:
        graph, other = await wide(at, "a", "b").add("any", "a", "b", join=1).stored(), await wide(at, "a", "b").stored()
        await graph.run("a")
        assert (await children(graph), await graph.states("any")) == ({BLOCKED: WIDTH}, [AVAILABLE])
        assert await is_intact(at)
        await graph.run("b")
        assert (await children(graph), await children(other)) == ({AVAILABLE: WIDTH}, {BLOCKED: WIDTH})
        assert await is_intact(at)

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_a_failure_ends_many_children_and_what_depends_on_them(self, at: Scene) -> None:
        graph = await wide(at, "a").add("after one", MANY[7]).add("after all", *MANY, join=1, tolerates=True).stored()
        await graph.fail("a")
        assert (await children(graph), await graph.states("after one", "after all")) == (
            {State.FAILED: WIDTH},
            [State.FAILED, AVAILABLE],
        )
        row = await at.row(graph.ids[MANY[-1]])
        assert (row.reason, str(row.error)) == (Reason.DEPENDENCY_FAILED, "DependencyFailed: a did not complete")
        assert await is_intact(at)

    @story
    @needs(Workflows, no_workflows)
    async def test_s19_a_failure_that_comes_to_many_children_in_two_ways_is_counted_twice(self, at: Scene) -> None:
        graph = Graph(at).add("a").add("x", "a").add("b")
        for name in MANY:
            graph.add(name, "a", "x", "b", tolerates=True)
        await graph.stored()
        await graph.fail("a")
        assert (await graph.states("x"), await children(graph)) == ([State.FAILED], {BLOCKED: WIDTH})
        assert await is_intact(at)
        await graph.run("b")
        assert await children(graph) == {AVAILABLE: WIDTH}

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_many_children_of_a_paused_workflow_are_held(self, at: Scene) -> None:
        graph = await wide(at, "a").stored()
        (job,) = await graph.start("a")
        await graph.steer(FlowVerb.PAUSE)
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await children(graph) == {HELD: WIDTH}
        await graph.steer(FlowVerb.RESUME)
        assert await children(graph) == {AVAILABLE: WIDTH}

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_failure_that_pauses_a_workflow_holds_many_children_back(self, at: Scene) -> None:
        graph = await wide(at, "a", on_failure=OnFailure.PAUSE).add("b").add("c", "b").stored()
        await graph.fail("a")
        assert (await children(graph), await graph.states("b", "c")) == ({BLOCKED: WIDTH}, [HELD, BLOCKED])
        await graph.steer(FlowVerb.RESUME, is_retry=True)
        await graph.run("a")
        assert await children(graph) == {AVAILABLE: WIDTH}

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_failure_that_cancels_a_workflow_cancels_many_children(self, at: Scene) -> None:
        graph = await wide(at, "a", on_failure=OnFailure.CANCEL).stored()
        await graph.fail("a")
        assert (await children(graph), await graph.root()) == ({State.CANCELLED: WIDTH}, State.FAILED)

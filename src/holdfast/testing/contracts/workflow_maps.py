"""Members that become gates while they run: over the items of a list, or of a graph that they build; and jobs that members enqueue."""

from collections.abc import Sequence

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.children import Children
from holdfast._core.job import ActiveJob, Reason, State
from holdfast._core.lifecycle import Transition, finish
from holdfast._core.member import OnFailure
from holdfast._core.outcome import WaitFor
from holdfast._core.schedule import Overlap, TickAnswer
from holdfast._core.workflow import Edge, FlowVerb, Items, NewMember, gate_edges
from holdfast._engine import store_defaults
from holdfast._engine.store_defaults import growing_workflows as growing
from holdfast._ports.workflows import GrowingWorkflows
from holdfast.testing.contracts.scene import Part, Scene, answered, done, needs, rescued, story
from holdfast.testing.contracts.scheduling import move, written
from holdfast.testing.contracts.workflow_children import CRASH, added, plain, suspended
from holdfast.testing.contracts.workflow_scene import COMPLETED, FAILED, Graph, chain, no_growth, verbs

AVAILABLE, BLOCKED = State.AVAILABLE, State.BLOCKED
DONE, LOST, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED


def mapping(job: ActiveJob, items: Sequence[NewMember]) -> Transition:
    """Make the transition of a member that runs once for each item of a list."""
    edges = tuple(Edge(each.job.id, job.id) for each in items)
    return finish(job, WaitFor(Children(members=tuple(items), edges=edges, is_gate=True)), jitter=0.0)


class WorkflowMapContract(Part):
    """What is promised to members that become gates while they run, and to what members enqueue."""

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_map_ends_with_its_items_and_names_them_in_order(self, at: Scene) -> None:
        graph = await Graph(at).add("list").add("test", "list", each="list").add("report", "test", takes=("test",)).stored("test")
        await graph.run("list")
        (job,) = await graph.start("test")
        assert await at.settle(mapping(job, added(at, graph, "[0]", "[1]", "[2]"))) == (Answer.APPLIED,)
        assert await graph.states("test", "[0]", "[1]", "[2]", "report") == [BLOCKED, AVAILABLE, AVAILABLE, AVAILABLE, BLOCKED]
        await graph.run("[2]", "[0]", "[1]")
        assert await graph.states("test", "report") == [DONE, AVAILABLE]
        items = Items(tuple(graph.ids[name] for name in ("[0]", "[1]", "[2]")))
        await graph.run("report")
        assert await verbs(at.store).outputs([job.id, graph.ids["root"]]) == {job.id: items, graph.ids["root"]: items}
        row = await at.row(graph.ids["[1]"])
        assert row.member is not None
        assert row.member.node == "test[1]"

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_map_over_an_empty_list_ends_in_the_same_write(self, at: Scene) -> None:
        graph = await Graph(at).add("list").add("test", "list", each="list").add("report", "test").stored("test")
        await graph.run("list")
        (job,) = await graph.start("test")
        assert await at.settle(mapping(job, ())) == (Answer.APPLIED,)
        assert await graph.states("test", "report") == [DONE, AVAILABLE]
        assert await verbs(at.store).outputs([job.id]) == {job.id: Items(())}

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_map_over_an_empty_list_can_be_the_last_of_its_workflow(self, at: Scene) -> None:
        graph = await Graph(at).add("list").add("test", "list", each="list").stored("test")
        await graph.run("list")
        (job,) = await graph.start("test")
        assert await at.settle(mapping(job, ())) == (Answer.APPLIED,)
        assert await graph.states("test", "root") == [DONE, DONE]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_map_fails_with_an_item_after_all_others_have_ended(self, at: Scene) -> None:
        graph = await Graph(at).add("list").add("test", "list", each="list").add("report", "test").stored()
        await graph.run("list")
        (job,) = await graph.start("test")
        assert await at.settle(mapping(job, added(at, graph, "[0]", "[1]"))) == (Answer.APPLIED,)
        await graph.fail("[1]")
        assert await graph.states("test", "report") == [BLOCKED, BLOCKED]
        await graph.run("[0]")
        assert await graph.states("test", "report", "root") == [LOST, LOST, LOST]
        assert (await graph.error("test")).message == "test[1] did not complete"
        await graph.steer(FlowVerb.RETRY)
        assert await graph.states("test", "[0]", "[1]", "report") == [BLOCKED, DONE, AVAILABLE, BLOCKED]
        await graph.run("[1]", "report")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_items_have_the_policy_of_their_map(self, at: Scene) -> None:
        for policy, states in ((OnFailure.CONTINUE, [DONE, AVAILABLE]), (OnFailure.PAUSE, [BLOCKED, BLOCKED])):
            graph = (
                Graph(at).add("list").add("test", "list", each="list", on_failure=policy).add("report", "test", tolerates=True)
            )
            await graph.stored()
            await graph.run("list")
            (job,) = await graph.start("test")
            assert await at.settle(mapping(job, added(at, graph, "[0]"))) == (Answer.APPLIED,)
            await graph.fail("[0]")
            assert await graph.states("test", "report") == states
            await graph.steer(FlowVerb.RESUME, failed=OnFailure.FAIL)
            assert await graph.states("report") == [AVAILABLE]
            view = await verbs(at.store).flow(graph.ids["root"])
            assert view is not None
            assert view.flow.paused_at is None

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s20_a_map_that_is_cancelled_cancels_its_items(self, at: Scene) -> None:
        graph = await Graph(at).add("list").add("test", "list", each="list").add("report", "test").stored()
        await graph.run("list")
        (job,) = await graph.start("test")
        assert await at.settle(mapping(job, added(at, graph, "[0]", "[1]"))) == (Answer.APPLIED,)
        (item,) = await graph.start("[0]")
        await at.store.request_cancel([job.id])
        assert await graph.states("test", "[0]", "[1]") == [BLOCKED, State.RUNNING, CANCELLED]
        assert await at.settle(answered(item, FAILED)) == (Answer.APPLIED,)
        assert await graph.states("test", "[0]", "report", "root") == [CANCELLED, CANCELLED, LOST, LOST]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_job_becomes_the_root_of_the_graph_that_it_builds(self, at: Scene) -> None:
        graph = Graph(at)
        job = await at.running()
        graph.ids = {"root": job.id}
        members = added(at, graph, "a", "b")
        inner = Edge(graph.ids["a"], graph.ids["b"])
        edges = (inner, *gate_edges(job.id, [inner.parent, inner.child], [inner]))
        children = Children(members=members, edges=edges, is_gate=True, result=graph.ids["b"], deadline=50.0)
        move = finish(job, WaitFor(children), jitter=0.0)
        assert await at.settle(move) == (Answer.APPLIED,)
        assert await graph.states() == [BLOCKED, AVAILABLE, BLOCKED]
        assert await at.claim(await at.lease(), ids=[job.id]) == ()
        await graph.run("a", "b")
        assert await graph.states() == [DONE, DONE, DONE]
        assert await verbs(at.store).outputs([job.id]) == {job.id: COMPLETED.result}
        assert await at.settle(move) == (Answer.APPLIED,)

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_dependents_start_after_graphs_that_jobs_build_nested_to_depth_5(self, at: Scene) -> None:
        graph = await chain(at, "inner-0", "last-0").stored()
        for depth in range(5):
            (job,) = await graph.start(f"inner-{depth}")
            members = added(at, graph, f"inner-{depth + 1}", f"last-{depth + 1}")
            jobs = [each.job.id for each in members]
            link = Edge(jobs[0], jobs[1])
            children = Children(members=members, edges=(link, *gate_edges(job.id, jobs, [link])), is_gate=True)
            assert await at.settle(finish(job, WaitFor(children), jitter=0.0)) == (Answer.APPLIED,)
        waiting = [f"{name}-{depth}" for depth in range(5) for name in ("inner", "last")]
        await graph.run("inner-5")
        for depth in range(5, 0, -1):
            assert await graph.states(*waiting) == [BLOCKED] * len(waiting)
            await graph.run(f"last-{depth}")
            last, gate = waiting.pop(), waiting.pop()
            assert await graph.states(gate, last) == [DONE, AVAILABLE]
        await graph.run("last-0")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_graph_that_a_job_builds_ends_at_its_deadline(self, at: Scene) -> None:
        graph = Graph(at)
        job = await at.running()
        graph.ids = {"root": job.id}
        (a,) = added(at, graph, "a")
        children = Children(members=(a,), edges=gate_edges(job.id, [a.job.id], ()), is_gate=True, deadline=50.0)
        assert await at.settle(finish(job, WaitFor(children), jitter=0.0)) == (Answer.APPLIED,)
        at.advance(51.0)
        assert (await verbs(at.store).revive(9)).overdue == (job.id,)
        assert (await graph.states(), (await at.row(job.id)).reason) == ([LOST, CANCELLED], Reason.TIMED_OUT)

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_job_that_builds_an_empty_graph_has_completed(self, at: Scene) -> None:
        job = await at.running()
        assert await at.settle(finish(job, WaitFor(Children(is_gate=True)), jitter=0.0)) == (Answer.APPLIED,)
        assert await at.state(job.id) is DONE
        assert await verbs(at.store).outputs([job.id]) == {job.id: b"null"}

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_child_that_builds_an_empty_graph_lets_its_parent_go_on(self, at: Scene) -> None:
        graph = await plain(at, "x", "y")
        for name, state in (("x", BLOCKED), ("y", AVAILABLE)):
            (job,) = await graph.start(name)
            assert await at.settle(finish(job, WaitFor(Children(is_gate=True)), jitter=0.0)) == (Answer.APPLIED,)
            assert await graph.states(name, "root") == [DONE, state]
            assert (await verbs(at.store).revive(9)).repairs == ()

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_a_workflow_waits_for_what_its_members_enqueue(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        (child,) = added(at, graph, "x")
        call = at.chance.uuid4()
        for _ in range(3):
            assert await growing(at.store).enqueue_member(call, child, under=(job.id, job.token)) == EnqueueAnswer()
        assert await graph.states("x") == [AVAILABLE]
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await graph.states("a", "root") == [DONE, BLOCKED]
        await graph.fail("x")
        assert (await graph.root(), (await graph.error("root")).message) == (LOST, "a/x did not complete")
        await graph.steer(FlowVerb.RETRY)
        await graph.run("x")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_a_workflow_waits_for_what_children_enqueue(self, at: Scene) -> None:
        graph = await plain(at, "x")
        (job,) = await graph.start("x")
        (child,) = added(at, graph, "z")
        assert await growing(at.store).enqueue_member(at.chance.uuid4(), child, under=(job.id, job.token)) == EnqueueAnswer()
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await graph.states() == [BLOCKED, DONE, AVAILABLE]
        await graph.fail("z")
        assert await graph.states() == [AVAILABLE, DONE, LOST]

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_a_cancelled_job_does_not_wait_for_what_its_children_enqueue_afterwards(self, at: Scene) -> None:
        graph = await plain(at, "x")
        (job,) = await graph.start("x")
        await graph.steer(FlowVerb.CANCEL)
        (child,) = added(at, graph, "z")
        assert await growing(at.store).enqueue_member(at.chance.uuid4(), child, under=(job.id, job.token)) == EnqueueAnswer()
        assert await graph.states("root", "z") == [BLOCKED, CANCELLED]
        assert (await verbs(at.store).revive(9)).repairs == ()
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await graph.root() is CANCELLED

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_a_member_that_lost_its_token_enqueues_nothing(self, at: Scene) -> None:
        graph = await chain(at, "a").stored()
        (job,) = await graph.start("a")
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        (child,), call = added(at, graph, "x"), at.chance.uuid4()
        for _ in range(2):
            answer = await growing(at.store).enqueue_member(call, child, under=(job.id, job.token))
            assert (answer, await at.store.get(child.job.id)) == (EnqueueAnswer(is_lost=True), None)
        await graph.run("a")
        assert await graph.root() is DONE

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_intact_children_are_not_repaired(self, at: Scene) -> None:
        graph = await Graph(at).add("list").add("test", "list", each="list").add("a").stored()
        await graph.run("list")
        (job,) = await graph.start("test")
        assert await at.settle(mapping(job, added(at, graph, "[0]", "[1]"))) == (Answer.APPLIED,)
        await suspended(at, graph, "a", "x", "y")
        await graph.fail("x", "[0]")
        before = await graph.states()
        assert (await verbs(at.store).revive(9)).repairs == ()
        assert await graph.states() == before

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_a_schedule_that_cancels_its_last_job_cancels_all_of_a_workflow(self, at: Scene) -> None:
        schedules = store_defaults.scheduling(at.store)
        await written(at, overlap=Overlap.CANCEL)
        at.advance(60.1)
        assert await schedules.advance(await move(at)) is TickAnswer.FIRED
        (claim,) = await at.claim(await at.lease())
        graph = Graph(at)
        graph.ids = {"root": claim.job.id}
        members = added(at, graph, "a", "b")
        edges = gate_edges(claim.job.id, [each.job.id for each in members], ())
        children = Children(members=members, edges=edges, is_gate=True)
        assert await at.settle(finish(claim.job, WaitFor(children), jitter=0.0)) == (Answer.APPLIED,)
        (a,) = await graph.start("a")
        at.advance(60.0)
        again = await move(at)
        for _ in range(2):
            assert await schedules.advance(again) is TickAnswer.FIRED
        assert await graph.states("root", "a", "b") == [BLOCKED, State.RUNNING, CANCELLED]
        assert await at.settle(answered(a, FAILED)) == (Answer.APPLIED,)
        assert await graph.states("root", "a", "b") == [CANCELLED] * 3
        assert again.job is not None
        assert await at.state(again.job.id) is AVAILABLE

"""Jobs on which others depend: they run again, belong to workflows, wait for children, are pruned, deleted or purged."""

from holdfast._core.answers import Answer
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.workflow import FlowVerb
from holdfast._engine import store_defaults
from holdfast._ports.workflows import DependentJobs
from holdfast.testing.contracts.scene import Part, Scene, done, needs, raised, story
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
from holdfast.testing.contracts.workflow_scene import Graph, chain, verbs

AVAILABLE, BLOCKED, DONE, LOST, CANCELLED = State.AVAILABLE, State.BLOCKED, State.COMPLETED, State.FAILED, State.CANCELLED


class ParentContract(Part):
    """What is promised to jobs on which others depend, and to the workflows to which those belong."""

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_a_chain_of_dependents_fails_to_its_end_in_one_write(self, at: Scene) -> None:
        (first,) = await at.enqueue(at.new())
        jobs = [first]
        for _ in range(150):
            jobs += await after(at, jobs[-1])
        tolerant = (await after(at, jobs[-1], tolerates=True))[0]
        await fail(at, first)
        assert await states(at, jobs[1], jobs[-1], tolerant) == [LOST, LOST, AVAILABLE]
        assert await is_intact(at)
        await at.store.reopen([first])
        assert await states(at, first, jobs[1], jobs[-1]) == [AVAILABLE, BLOCKED, BLOCKED]
        assert await is_intact(at)
        await complete(at, *jobs[:3])
        assert await states(at, jobs[2], jobs[3], jobs[4]) == [DONE, AVAILABLE, BLOCKED]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_parent_that_runs_again_takes_back_the_dependents_that_failed_because_of_it(self, at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        (both,), (lost,) = await after(at, first, second), await after(at, first)
        (behind,) = await after(at, lost)
        await complete(at, first)
        assert await states(at, both, lost, behind) == [BLOCKED, AVAILABLE, BLOCKED]
        await at.store.reopen([first])
        assert await states(at, both, lost, behind) == [BLOCKED, AVAILABLE, BLOCKED]
        assert await is_intact(at)
        await complete(at, second)
        assert await states(at, both) == [BLOCKED]
        await fail(at, first)
        assert await states(at, both, lost, behind) == [LOST, AVAILABLE, BLOCKED]
        await at.store.reopen([first])
        assert await states(at, both, lost, behind) == [BLOCKED, AVAILABLE, BLOCKED]
        await complete(at, first, lost)
        assert await states(at, both, lost, behind) == [AVAILABLE, DONE, AVAILABLE]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_dependent_that_is_retried_alone_counts_its_parents_again(self, at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        (child,) = await after(at, first, second)
        await fail(at, first)
        assert await states(at, child) == [LOST]
        assert (await at.store.reopen([child])).states == {child: LOST}
        await at.store.reopen([first])
        await complete(at, first, second, child)
        assert (await at.store.reopen([child])).states == {child: AVAILABLE}
        await complete(at, child)
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_members_and_roots_of_workflows_are_parents_and_wait_for_no_dependent(self, at: Scene) -> None:
        graph, other = await chain(at, "a", "b").stored(), await chain(at, "c", "d").stored()
        (of_member,) = await after(at, graph.ids["a"])
        (of_root,) = await after(at, graph.ids["root"])
        (of_both,) = await after(at, graph.ids["b"], other.ids["c"])
        await graph.run("a")
        assert await states(at, of_member, of_root, of_both) == [AVAILABLE, BLOCKED, BLOCKED]
        await graph.run("b")
        assert await graph.root() is DONE
        assert await states(at, of_member, of_root, of_both) == [AVAILABLE, AVAILABLE, BLOCKED]
        await other.fail("c")
        assert await states(at, of_both) == [LOST]
        assert await other.states("c", "d", "root") == [LOST, LOST, LOST]
        assert await is_intact(at)
        await other.steer(FlowVerb.RETRY)
        assert await states(at, of_both) == [BLOCKED]
        assert await is_intact(at)
        await other.run("c")
        assert await states(at, of_both) == [AVAILABLE]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s20_what_is_done_to_a_workflow_reaches_its_dependents_only_as_the_ends_of_their_parents(
        self, at: Scene
    ) -> None:
        graph = await Graph(at).add("a", on_failure=OnFailure.PAUSE).add("b").add("c", on_failure=OnFailure.CONTINUE).stored()
        (of_a,), (of_b,), (of_c,) = [await after(at, graph.ids[each]) for each in "abc"]
        await graph.fail("c")
        assert await states(at, of_a, of_b, of_c) == [BLOCKED, BLOCKED, AVAILABLE]
        await graph.fail("a")
        (later,) = await after(at, graph.ids["a"])
        assert await states(at, of_a, of_b, of_c, later) == [BLOCKED, BLOCKED, AVAILABLE, BLOCKED]
        assert await is_intact(at)
        await graph.steer(FlowVerb.RESUME, failed=OnFailure.CONTINUE)
        assert await states(at, of_a, of_b, later) == [AVAILABLE, BLOCKED, AVAILABLE]
        await graph.steer(FlowVerb.CANCEL)
        assert await states(at, of_a, of_b, of_c) == [AVAILABLE, LOST, AVAILABLE]
        await graph.steer(FlowVerb.RETRY)
        assert await states(at, of_a, of_b, of_c) == [AVAILABLE, BLOCKED, AVAILABLE]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_dependents_learn_of_a_failure_that_a_pause_held_up_when_the_workflow_is_cancelled(self, at: Scene) -> None:
        graph = await Graph(at).add("a", on_failure=OnFailure.PAUSE).add("b", "a").stored()
        (strict,) = await after(at, graph.ids["a"])
        (tolerant,) = await after(at, graph.ids["a"], tolerates=True)
        await graph.fail("a")
        assert await states(at, strict, tolerant) == [BLOCKED, BLOCKED]
        await graph.steer(FlowVerb.CANCEL)
        assert await states(at, strict, tolerant, graph.ids["b"]) == [LOST, AVAILABLE, CANCELLED]
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s20_the_deadline_of_a_workflow_fails_its_dependents(self, at: Scene) -> None:
        graph = await Graph(at, deadline=10.0).add("a").stored()
        (child,) = await after(at, graph.ids["root"])
        at.advance(11.0)
        assert (await verbs(at.store).revive(9)).overdue == (graph.ids["root"],)
        assert await graph.root() is LOST
        assert await failed_because_of(at, child, "workflow did not complete")

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_the_end_of_a_paused_workflow_passes_on_what_its_pause_held_back(self, at: Scene) -> None:
        for deadline in (None, 10.0):
            graph = await Graph(at, deadline=deadline).add("a", on_failure=OnFailure.PAUSE).add("b").stored()
            (other,) = await at.enqueue(at.new())
            (child,), (late,) = await after(at, graph.ids["a"]), await after(at, graph.ids["a"], other, tolerates=True)
            await graph.fail("a")
            assert await states(at, child, late) == [BLOCKED, BLOCKED]
            if deadline is None:
                await graph.steer(FlowVerb.CANCEL)
            else:
                at.advance(11.0)
                await verbs(at.store).revive(9, flow=graph.ids["root"])
            assert await failed_because_of(at, child, "a")
            assert await is_intact(at)
            await complete(at, other)
            assert await states(at, late) == [AVAILABLE]
            await graph.steer(FlowVerb.RETRY)
            assert await states(at, child, late) == [BLOCKED, AVAILABLE]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_l12_a_parent_may_still_add_children_and_wait_for_them(self, at: Scene) -> None:
        job = await at.running()
        (child,) = await after(at, job.id)
        graph = Graph(at)
        graph.ids = {"root": job.id}
        assert await at.settle(waiting(job, added(at, graph, "x"))) == (Answer.APPLIED,)
        assert await graph.states("root", "x") == [BLOCKED, AVAILABLE]
        await graph.run("x")
        assert await states(at, job.id, child) == [AVAILABLE, BLOCKED]
        await complete(at, job.id)
        assert await states(at, child) == [AVAILABLE]
        dependent = await start(at, child)
        graph.ids = {"root": child}
        assert await at.settle(waiting(dependent, added(at, graph, "y"))) == (Answer.APPLIED,)
        await graph.run("y")
        await complete(at, child)
        assert await is_intact(at)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_a_dependent_is_cancelled_alone(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (child,) = await after(at, parent)
        (behind,) = await after(at, child)
        assert await at.store.request_cancel([child]) == {child: CANCELLED}
        assert (await at.row(child)).reason is Reason.BY_OPERATOR
        assert await states(at, parent, child, behind) == [AVAILABLE, CANCELLED, LOST]
        await complete(at, parent)
        assert await states(at, child, behind) == [CANCELLED, LOST]

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s27_a_parent_is_kept_while_a_dependent_waits_and_pruned_in_the_end(self, at: Scene) -> None:
        short, long = Policy(retention=60.0), Policy(retention=90 * 86_400.0)
        graph = await Graph(at, policy=short).add("a", policy=short).stored()
        parent, other = await at.enqueue(at.new(policy=short), at.new(policy=long))
        (child,) = await after(at, parent, graph.ids["a"], other, policy=long)
        (claim,) = await at.claim(await at.lease(), ids=[parent], policy=short)
        await at.settle(done(claim.job))
        (claim,) = await at.claim(await at.lease(), ids=[graph.ids["a"]], policy=short)
        await at.settle(done(claim.job))
        at.advance(RETENTION_FLOOR + 120.0)
        await at.store.prune(99)
        assert await at.store.delete([parent, graph.ids["a"], graph.ids["root"]]) == dict.fromkeys(
            (parent, graph.ids["a"], graph.ids["root"]), DONE
        )
        assert await states(at, child, parent, *graph.ids.values()) == [BLOCKED, DONE, DONE, DONE]
        assert await is_intact(at)
        await complete(at, other)
        assert await states(at, child) == [AVAILABLE]
        at.advance(1.0)
        await at.store.prune(99)
        assert [await at.store.get(each) for each in (parent, *graph.ids.values())] == [None] * 3
        assert await states(at, child) == [AVAILABLE]
        (claim,) = await at.claim(await at.lease(), ids=[child], policy=long)
        await at.settle(done(claim.job))
        assert (await at.store.reopen([child])).states == {child: AVAILABLE}
        (claim,) = await at.claim(await at.lease(), ids=[child], policy=short)
        await at.settle(done(claim.job))
        at.advance(91 * 86_400.0)
        while (await at.store.prune(99)).total:
            pass
        assert [await at.store.get(each) for each in (child, other)] == [None] * 2

    @story
    @needs(DependentJobs, no_dependents)
    async def test_a_failure_does_not_touch_dependents_that_run_or_have_ended(self, at: Scene) -> None:
        (parent,) = await at.enqueue(at.new())
        (active,), (over,) = await after(at, parent), await after(at, parent)
        await complete(at, parent, over)
        job, kept = await start(at, active), await at.row(over)
        await at.store.reopen([parent])
        await fail(at, parent)
        assert await states(at, active, over) == [State.RUNNING, DONE]
        assert await at.row(over) == kept
        assert await at.settle(raised(job)) == (Answer.APPLIED,)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_to_delete_a_waiting_parent_fails_its_dependents(self, at: Scene) -> None:
        keyed, other = at.new(key="k"), at.new()
        await at.enqueue(keyed, other)
        (child,), (either,) = await after(at, keyed.id, other.id), await after(at, keyed.id, other.id, required=1)
        (behind,), (late,) = await after(at, child), await after(at, keyed.id, other.id, tolerates=True)
        assert await at.store.delete([keyed.id]) == {}
        assert await at.store.get(keyed.id) is None
        assert await failed_because_of(at, child)
        assert await states(at, either, behind, late) == [BLOCKED, LOST, BLOCKED]
        assert await is_intact(at)
        await at.enqueue(at.new(key="k"))
        await complete(at, other.id)
        assert await states(at, either, late) == [AVAILABLE, AVAILABLE]
        assert await at.store.delete([child, either, behind]) == {}
        job = await start(at, late)
        assert await at.store.delete([late]) == {late: State.RUNNING}
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await at.store.delete([late]) == {}

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_a_purge_deletes_parents_and_dependents_that_wait_and_fails_those_of_other_queues(self, at: Scene) -> None:
        first, second, elsewhere = await at.enqueue(at.new(queue="mail"), at.new(queue="mail"), at.new())
        (child,), (released,) = await after(at, first), await after(at, elsewhere, queue="mail")
        await complete(at, elsewhere)
        graph = await Graph(at).add("a", queue="mail").stored()
        assert (await store_defaults.purge(at.store, "mail", 99)).jobs == 3
        assert [await at.store.get(each) for each in (first, second, released)] == [None] * 3
        assert await failed_because_of(at, child)
        assert await graph.states("a") == [AVAILABLE]
        assert await is_intact(at)

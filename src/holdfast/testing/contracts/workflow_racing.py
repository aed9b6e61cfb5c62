"""Moves of one workflow at the same time, by several stores: each is one step, in any order."""

import asyncio

from holdfast._core.job import State
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._ports.workflows import Workflows
from holdfast.testing.contracts.scene import Part, Scene, answered, done, insist, needs, story
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, no_workflows, verbs

ROUNDS = 10
FINISHED = {State.COMPLETED, State.FAILED, State.CANCELLED}


class WorkflowRaceContract(Part):
    """What is promised to moves that meet."""

    @story
    @needs(Workflows, no_workflows)
    async def test_s20_a_pause_that_meets_a_settle_leaves_nothing_available(self, at: Scene) -> None:
        owner, operator = at.another(), at.another()
        for _ in range(ROUNDS):
            graph = await Graph(at).add("a").add("b", "a").add("c").stored()
            (job,) = await graph.start("a")
            pause = verbs(operator).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.PAUSE))
            await asyncio.gather(insist(owner, [done(job)]), pause)
            assert await graph.states("a", "b", "c") == [State.COMPLETED, State.HELD, State.HELD]
            await graph.steer(FlowVerb.RESUME)
            await graph.run("b", "c")
            assert await graph.root() is State.COMPLETED

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_cancellation_that_meets_a_settle_ends_the_workflow(self, at: Scene) -> None:
        owner, operator = at.another(), at.another()
        for _ in range(ROUNDS):
            graph = await Graph(at).add("a").add("b", "a").add("c").stored()
            (job,) = await graph.start("a")
            cancel = verbs(operator).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.CANCEL))
            await asyncio.gather(insist(owner, [done(job)]), cancel)
            assert await graph.states("a", "b", "c", "root") == [State.COMPLETED] + [State.CANCELLED] * 3

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_a_retry_that_meets_the_last_failure_leaves_a_workflow_that_can_end(self, at: Scene) -> None:
        owner, operator = at.another(), at.another()
        for _ in range(ROUNDS):
            graph = await Graph(at).add("a").add("b").add("c", "a", "b").stored()
            await graph.fail("a")
            (job,) = await graph.start("b")
            again = verbs(operator).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.RETRY))
            await asyncio.gather(insist(owner, [answered(job, FAILED)]), again)
            assert (await verbs(at.store).revive(99)).repairs == ()
            await graph.steer(FlowVerb.RETRY)
            await graph.run("a", "b", "c")
            assert await graph.root() is State.COMPLETED

    @story
    @needs(Workflows, no_workflows)
    async def test_l12_members_that_end_at_once_in_many_ways_leave_nothing_behind(self, at: Scene) -> None:
        stores = [at.another() for _ in range(4)]
        for _ in range(ROUNDS):
            graph = Graph(at)
            for name in "abcd":
                graph.add(name)
            await graph.add("all", *"abcd").add("any", *"abcd", join=1).add("late", *"abcd", tolerates=True).stored()
            one, two, three = await graph.start("a", "b", "c")
            await asyncio.gather(
                insist(stores[0], [done(one)]),
                insist(stores[1], [done(two)]),
                insist(stores[2], [answered(three, FAILED)]),
                stores[3].request_cancel([graph.ids["d"]]),
            )
            assert await graph.states("all", "any", "late") == [State.FAILED, State.AVAILABLE, State.AVAILABLE]
            assert (await verbs(at.store).revive(99)).repairs == ()
            await graph.run("any", "late")
            assert await graph.root() in FINISHED

"""Moves of one workflow at the same time, by several stores: each is one step, in any order."""

import asyncio

from holdfast._core.answers import Answer
from holdfast._core.dependencies import After
from holdfast._core.job import State
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._engine.store_defaults import growing_workflows as growing
from holdfast._ports.workflows import DependentJobs, GrowingWorkflows, Workflows
from holdfast.testing.contracts.scene import Part, Scene, answered, done, insist, needs, rescued, story
from holdfast.testing.contracts.workflow_children import CRASH, added, suspended, waiting
from holdfast.testing.contracts.workflow_dependents import after, complete, dependents, fail, no_dependents, states
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, no_growth, no_workflows, verbs

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

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_a_suspension_that_meets_a_cancellation_ends_cancelled(self, at: Scene) -> None:
        owner, operator = at.another(), at.another()
        for number in range(ROUNDS):
            graph, job = Graph(at), await at.running()
            graph.ids = {"root": job.id}
            move = waiting(job, added(at, graph, "x"))
            copies = [insist(store, [move]) for store in (owner, operator)[: 1 + number % 2]]
            answers, _ = await asyncio.gather(asyncio.gather(*copies), operator.request_cancel([job.id]))
            assert {answer.answers for answer in answers} == {(Answer.APPLIED,)}
            child = await at.store.get(graph.ids["x"])
            assert (await graph.root(), child and child.state) in [(State.CANCELLED, None), (State.CANCELLED, State.CANCELLED)]
            assert (await verbs(at.store).revive(99)).repairs == ()

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s18_a_suspension_that_meets_a_rescue_is_applied_or_lost(self, at: Scene) -> None:
        owner, rescuer = at.another(), at.another()
        for _ in range(ROUNDS):
            member, root = await chain(at, "a").stored(), Graph(at)
            (job,), plain = await member.start("a"), await at.running()
            root.ids = {"a": plain.id}
            for graph, active in ((member, job), (root, plain)):
                await at.store.end_lease(active.lease, CRASH)
                first, second = await asyncio.gather(
                    insist(owner, [waiting(active, added(at, graph, "x"))]), insist(rescuer, [rescued(active, CRASH)])
                )
                assert {*first.answers, *second.answers} == {Answer.APPLIED, Answer.LOST}
                is_suspended = first.answers == (Answer.APPLIED,)
                assert await graph.states("a") == [State.BLOCKED if is_suspended else State.AVAILABLE]
                assert (await at.store.get(graph.ids["x"]) is not None) is is_suspended
            assert (await verbs(at.store).revive(99)).repairs == ()

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_l12_a_suspension_that_meets_the_end_of_a_child_runs_again(self, at: Scene) -> None:
        owner, other = at.another(), at.another()
        for _ in range(ROUNDS):
            graph = await chain(at, "a").stored()
            await suspended(at, graph, "a", "x")
            await graph.fail("x", "a")
            await graph.steer(FlowVerb.RETRY)
            a, x = await graph.start("a", "x")
            await asyncio.gather(insist(owner, [waiting(a)]), insist(other, [done(x)]))
            assert await graph.states("a", "x") == [State.AVAILABLE, State.COMPLETED]
            assert (await verbs(at.store).revive(99)).repairs == ()
            await graph.run("a")
            assert await graph.root() is State.COMPLETED

    @story
    @needs(GrowingWorkflows, no_growth)
    async def test_s19_a_job_that_a_member_enqueues_while_others_end_keeps_the_workflow_open(self, at: Scene) -> None:
        owner, other = at.another(), at.another()
        for _ in range(ROUNDS):
            graph = await Graph(at).add("a").add("b").stored()
            a, b = await graph.start("a", "b")
            (child,), call = added(at, graph, "x"), at.chance.uuid4()
            copies = [growing(owner).enqueue_member(call, child, under=(a.id, a.token)) for _ in range(2)]
            await asyncio.gather(*copies, insist(other, [done(b)]))
            await insist(owner, [done(a)])
            assert await graph.states("x", "root") == [State.AVAILABLE, State.BLOCKED]
            assert (await verbs(at.store).revive(99)).repairs == ()
            await graph.run("x")
            assert await graph.root() is State.COMPLETED

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_dependents_that_meet_the_ends_of_their_parents_are_released_once(self, at: Scene) -> None:
        owners, clients = (at.another(), at.another()), (at.another(), at.another())
        for _ in range(ROUNDS):
            graph = await chain(at, "a", "b").stored()
            (member,), plain, other = await graph.start("a"), await at.running(), await at.running()
            parents, news = (plain.id, member.id, other.id), (at.new(), at.new())
            joins = [
                dependents(client).enqueue_after(at.chance.uuid4(), [new], After(parents[:: 1 - 2 * place]))
                for place, (client, new) in enumerate(zip(clients, news, strict=True))
            ]
            first, second = insist(owners[0], [done(plain), done(member)]), insist(owners[1], [done(other)])
            (found, more), _ = await asyncio.gather(asyncio.gather(first, second), asyncio.gather(*joins))
            assert {*found.answers, *more.answers} == {Answer.APPLIED}
            assert await states(at, *parents, *(new.id for new in news)) == [State.COMPLETED] * 3 + [State.AVAILABLE] * 2
            assert (await verbs(at.store).revive(99)).repairs == ()
            await complete(at, *(new.id for new in news))

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s18_a_dependent_that_meets_a_retry_of_its_parent_waits_for_it(self, at: Scene) -> None:
        operator, client = at.another(), at.another()
        for _ in range(ROUNDS):
            (parent,) = await at.enqueue(at.new())
            await fail(at, parent)
            (older,), new = await after(at, parent), at.new()
            join = dependents(client).enqueue_after(at.chance.uuid4(), [new], After((parent,)))
            await asyncio.gather(operator.reopen([parent]), join)
            assert await states(at, parent, older, new.id) == [State.AVAILABLE, State.BLOCKED, State.BLOCKED]
            assert (await verbs(at.store).revive(99)).repairs == ()
            await complete(at, parent, older, new.id)

    @story
    @needs(DependentJobs, no_dependents)
    async def test_s19_a_deletion_of_a_parent_that_meets_a_dependent_leaves_none_that_waits(self, at: Scene) -> None:
        operator, client = at.another(), at.another()
        for _ in range(ROUNDS):
            (parent,), new = await at.enqueue(at.new()), at.new()
            join = dependents(client).enqueue_after(at.chance.uuid4(), [new], After((parent,)))
            await asyncio.gather(operator.delete([parent]), join, return_exceptions=True)
            row = await at.store.get(new.id)
            assert await at.store.get(parent) is None
            assert row is None or row.state is State.FAILED
            assert (await verbs(at.store).revive(99)).repairs == ()

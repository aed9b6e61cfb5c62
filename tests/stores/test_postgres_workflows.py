"""Workflows on PostgreSQL: locks of others, moves that meet claims, a role that may only enqueue, and repairs of damage made by hand."""

import asyncio
import random
from typing import Any, cast

import psycopg
import pytest
from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import State
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._ports.store import Store
from holdfast.stores.postgres.locked_flows import MoreFlows
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Scene, answered, done, insist, play
from holdfast.testing.contracts.workflow_children import added, waiting
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, chain, verbs
from tests.contract.test_postgres import AtHome
from tests.stores.claimed_results import brings_small_results
from tests.stores.postgres_databases import Homes

COUNTERS = "UPDATE holdfast.members SET needs = {needs}, waits = {waits} WHERE node = '{node}'"
WORKERS = 4


async def drained(at: Scene, store: Store, ended: list[object]) -> None:
    """Claim and settle jobs until none of them was claimed ten times in a row."""
    lease, idle = await at.lease(), 0
    while idle < 10:
        answer = await store.exchange((), at.request(lease, 7))
        idle = 0 if answer.claims else idle + 1
        moves = [answered(each.job, FAILED) if each.priority else done(each.job) for each in answer.claims]
        if moves:
            assert {*(await insist(store, moves)).answers} == {Answer.APPLIED}
            ended += [(each.job.id, each.job.attempt) for each in answer.claims]


class TestLocks(AtHome):
    """What a locked workflow delays, and what moves of members do to each other."""

    def test_a_settle_that_does_not_name_its_workflow_releases_its_dependents(self) -> None:
        async def act(at: Scene) -> None:
            graph = await chain(at, "a", "b").stored()
            (job,), plain = await graph.start("a"), await at.running()
            unnamed = structs.replace(done(job), flow=None)
            assert await at.settle(unnamed, done(plain)) == (Answer.APPLIED, Answer.APPLIED)
            assert await at.settle(unnamed) == (Answer.APPLIED,)
            assert await graph.states("a", "b") == [State.COMPLETED, State.AVAILABLE]
            (job,) = await graph.start("b")
            answer = await at.exchange(structs.replace(done(job), flow=None), at.request(job.lease))
            assert (answer.answers, await graph.root()) == ((Answer.APPLIED,), State.COMPLETED)

        play(self, act)

    def test_s21_a_claim_brings_the_small_results_that_it_takes(self) -> None:
        play(self, brings_small_results)

    def test_a_transaction_that_must_lock_more_workflows_is_rolled_back_and_keeps_its_connection(self) -> None:
        async def act(at: Scene) -> None:
            store, (job,), sessions = cast(PostgresStore, at.store), await at.enqueue(at.new()), set[int]()

            async def begin() -> None:
                async with store._transaction(9.0) as connection:
                    sessions.add(connection.get_server_pid())
                    await connection.execute("DELETE FROM holdfast.pending")
                    raise MoreFlows([job])

            for _ in range(2):
                with pytest.raises(MoreFlows):
                    await begin()
            assert (len(sessions), await at.state(job)) == (1, State.AVAILABLE)

        play(self, act)

    def test_a_locked_workflow_delays_its_members_and_no_others(self) -> None:
        async def act(at: Scene) -> None:
            graph, other = await chain(at, "a", "b").stored(), await chain(at, "a", "b").stored()
            (job,), (free,), plain = await graph.start("a"), await other.start("a"), await at.running()
            with psycopg.connect(self.home.dsn) as session:
                session.execute("SELECT 1 FROM holdfast.flows WHERE id = %s FOR UPDATE", [graph.ids["root"]])
                assert await at.settle(done(plain), done(job)) == (Answer.APPLIED, Answer.BUSY)
                assert await at.settle(done(free)) == (Answer.APPLIED,)
                assert await graph.states("a", "b") == [State.RUNNING, State.BLOCKED]
            assert await at.settle(done(job)) == (Answer.APPLIED,)
            assert await graph.states("a", "b") == [State.COMPLETED, State.AVAILABLE]

        play(self, act)

    def test_s20_claims_that_meet_a_pause_or_a_cancellation_leave_nothing_available(self) -> None:
        async def act(at: Scene) -> None:
            operator, workers = at.another(), [at.another() for _ in range(WORKERS)]
            for verb, left in ((FlowVerb.PAUSE, State.HELD), (FlowVerb.CANCEL, State.CANCELLED)) * 3:
                graph, lease = Graph(at), await at.lease()
                for number in range(60):
                    graph.add(str(number))
                await graph.stored()
                steer = verbs(operator).steer_flow(graph.ids["root"], SteerFlow(verb=verb))
                *found, _ = await asyncio.gather(
                    *(each.exchange((), at.request(lease, 5)) for each in workers for _ in range(2)), steer
                )
                claimed = {claim.job.id: claim.job for answer in found for claim in answer.claims}
                for name, job in graph.ids.items():
                    if name != "root":
                        row = await at.row(job)
                        assert (row.state, row.cancel_requested) == (
                            (State.RUNNING, verb is FlowVerb.CANCEL) if job in claimed else (left, False)
                        )
                await at.settle(*map(done, claimed.values()))
                await graph.steer(FlowVerb.CANCEL)
                assert await graph.root() is State.CANCELLED

        play(self, act)

    def test_l12_moves_that_meet_in_many_sessions_neither_deadlock_nor_leave_anything_behind(self) -> None:
        async def act(at: Scene) -> None:
            chance, graphs = random.Random(3), list[Graph]()
            for _ in range(6):
                graph = Graph(at)
                for number in range(30):
                    before = [str(number - number % 5 - each) for each in (1, 2, 3)] if number >= 5 else []
                    graph.add(str(number), *before, priority=int(chance.random() < 0.05))
                graphs.append(await graph.stored())

            async def operate(store: Store) -> None:
                for _ in range(25):
                    graph, job = chance.choice(graphs), chance.choice([*chance.choice(graphs).ids.values()])
                    match chance.randrange(5):
                        case 0:
                            await verbs(store).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.PAUSE))
                            await verbs(store).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.RESUME))
                        case 1:
                            await verbs(store).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.RETRY))
                        case 2:
                            await store.reopen([job, graph.ids["3"], graph.ids["7"]])
                        case 3:
                            await store.request_cancel([job, graph.ids["8"]])
                        case _:
                            await store.prune(10)

            ended = list[object]()
            before = self.deadlocks()
            workers = [drained(at, at.another(), ended) for _ in range(WORKERS)]
            await asyncio.gather(*workers, operate(at.another()), operate(at.another()))
            await drained(at, at.store, ended)
            assert len({*ended}) == len(ended)
            assert self.deadlocks() == before
            assert (await verbs(at.store).revive(99)).repairs == ()
            assert {await graph.root() for graph in graphs} <= {State.COMPLETED, State.FAILED, State.CANCELLED}

        play(self, act)

    def test_l12_jobs_that_wait_for_children_in_many_sessions_neither_deadlock_nor_leave_anything_behind(self) -> None:
        async def act(at: Scene) -> None:
            chance, graph, before = random.Random(4), Graph(at), self.deadlocks()
            jobs = [at.new() for _ in range(40)]
            await at.enqueue(*jobs)

            async def work(store: Store) -> None:
                lease, idle = await at.lease(), 0
                while idle < 10:
                    answer = await store.exchange((), at.request(lease, 7))
                    idle = 0 if answer.claims else idle + 1
                    moves = [
                        waiting(each.job, added(at, graph, "x", "y"))
                        if each.job.attempt == 1 and each.job.id in roots
                        else done(each.job)
                        for each in answer.claims
                    ]
                    copies = [insist(each, moves) for each in (store, at.store)[: 1 + (chance.random() < 0.3)]]
                    for answers in zip(*[each.answers for each in await asyncio.gather(*copies)], strict=True):
                        assert Answer.APPLIED in answers
                        assert {*answers} <= {Answer.APPLIED, Answer.MISSING}  # a copy may come after an operator's delete

            async def operate(store: Store) -> None:
                for _ in range(25):
                    some = chance.sample([*roots], 5)
                    match chance.randrange(4):
                        case 0:
                            await store.request_cancel(some)
                        case 1:
                            await store.reopen(some)
                        case 2:
                            await verbs(store).revive(20)
                        case _:
                            await store.delete(some[:1])

            roots = {job.id for job in jobs}
            await asyncio.gather(*(work(at.another()) for _ in range(WORKERS)), operate(at.another()), operate(at.another()))
            await work(at.store)
            assert self.deadlocks() == before
            assert (await verbs(at.store).revive(99)).repairs == ()
            assert self.home.sql("SELECT count(*) FROM holdfast.pending") == [(0,)]
            assert self.home.sql("SELECT id FROM holdfast.flows EXCEPT SELECT flow FROM holdfast.members") == []

        play(self, act)

    def deadlocks(self) -> int:
        """Return how many deadlocks the server has ended in this database."""
        self.home.sql("SELECT pg_stat_force_next_flush()")
        ((found,),) = self.home.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(found)


def test_a_role_that_may_only_enqueue_stores_workflows(homes: Homes) -> None:
    home = homes.empty("roles")
    store: Any = home.store(FakeClock())

    class Enqueuing(AtHome):
        home = homes.empty("roles")

    async def act(at: Scene) -> None:
        graph, call = Graph(at, key="k").add("a").add("b", "a"), at.chance.uuid4()
        for _ in range(2):
            assert await store._enqueuer.enqueue_flow(call, graph.new()) == EnqueueAnswer()
        assert (await graph.states("a", "b")) == [State.AVAILABLE, State.BLOCKED]

    play(Enqueuing(), act)


class TestRepairs(AtHome):
    """Every handle opens the same database."""

    def damage(self, *statements: str) -> None:
        """Change the tables by hand."""
        for statement in statements:
            self.home.sql(statement)

    def test_l17_counters_damaged_by_hand_are_repaired_to_those_of_an_intact_workflow(self) -> None:
        async def act(at: Scene) -> None:
            graph = Graph(at).add("a").add("b").add("c", "a", "b").add("d", "c").add("e", "a", "b", "c", join=2)
            await graph.stored()
            await graph.run("a")
            intact = {name: await at.row(job) for name, job in graph.ids.items()}
            chance = random.Random(5)
            for _ in range(20):
                damaged = chance.sample(["c", "d", "e", "workflow"], chance.randint(1, 4))
                self.damage(
                    *(COUNTERS.format(needs=chance.randint(0, 4), waits=chance.randint(0, 6), node=node) for node in damaged)
                )
                found = await verbs(at.store).revive(9)
                assert {each.node for each in found.repairs} <= set(damaged)
                assert {name: await at.row(job) for name, job in graph.ids.items()} == intact
                assert (await verbs(at.store).revive(9)).repairs == ()

        play(self, act)

    def test_l17_a_release_that_was_undone_by_hand_is_done_again(self) -> None:
        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b", "a").stored()
            await graph.run("a")
            self.damage("UPDATE holdfast.pending SET state = 'blocked' WHERE id <> flow")
            (found,) = (await verbs(at.store).revive(9, dry_run=True)).repairs
            assert (found.node, await graph.states("b")) == ("b", [State.BLOCKED])
            await verbs(at.store).revive(9)
            await graph.run("b")
            assert await graph.root() is State.COMPLETED

        play(self, act)

    def test_l17_dependents_of_a_member_that_was_deleted_by_hand_fail(self) -> None:
        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b", "a").add("c", "a", tolerates=True).stored()
            self.damage(
                "DELETE FROM holdfast.pending WHERE id IN (SELECT job FROM holdfast.members WHERE node = 'a')",
                "DELETE FROM holdfast.members WHERE node = 'a'",
            )
            del graph.ids["a"]
            await verbs(at.store).revive(9)
            assert await graph.states("b", "c") == [State.FAILED, State.AVAILABLE]
            await graph.run("c")
            assert await graph.root() is State.FAILED

        play(self, act)

    def test_a_workflow_whose_policy_cannot_be_read_ends_as_others_do(self) -> None:
        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b", "a").stored()
            self.damage("UPDATE holdfast.pending SET policy = 'spoiled'")
            await graph.fail("a")
            assert await graph.states("b", "root") == [State.FAILED, State.FAILED]

        play(self, act)

"""Jobs that depend on others on PostgreSQL: writers and workers in many sessions, a wide release, and ids out of order."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.dependencies import After
from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock
from holdfast.errors import ConfigurationError, JobNotFound
from holdfast.stores.postgres.locked_flows import LockedFlows
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Scene, answered, done, insist, play
from holdfast.testing.contracts.workflow_dependents import after, dependents, start
from holdfast.testing.contracts.workflow_scene import FAILED, Graph, verbs
from tests.contract.test_postgres import AtHome
from tests.stores.postgres_databases import Homes

WORKERS = 3


class TestDependents(AtHome):
    """Every handle opens the same database."""

    def test_l12_writers_that_tie_jobs_to_others_in_many_sessions_neither_deadlock_nor_leave_anything_behind(self) -> None:
        async def act(at: Scene) -> None:
            chance, before, graphs = random.Random(5), self.deadlocks(), list[Graph]()
            for _ in range(4):
                graphs.append(await Graph(at).add("a").add("b").add("c", "a", "b").add("d", "c").stored())
            jobs = [*await at.enqueue(*(at.new() for _ in range(20)))]
            jobs += [job for graph in graphs for job in graph.ids.values()]
            ended, is_over = set[tuple[object, int]](), asyncio.Event()

            async def tie(store: Store) -> None:
                for _ in range(30):
                    parents = tuple(chance.sample(jobs, chance.randrange(1, 4)))
                    required, tolerates = chance.choice([None, 1]), chance.random() < 0.3
                    news = [at.new(priority=int(chance.random() < 0.1)) for _ in range(chance.randrange(1, 3))]
                    try:
                        wish = After(parents, required, tolerates)
                        assert await dependents(store).enqueue_after(at.chance.uuid4(), news, wish) == EnqueueAnswer()
                    except JobNotFound:
                        continue
                    jobs.extend(job.id for job in news)

            async def work(store: Store) -> None:
                lease, idle = await at.lease(), 0
                while not is_over.is_set() or idle < 10:
                    answer = await store.exchange((), at.request(lease, 5))
                    idle = 0 if answer.claims else idle + 1
                    moves = [answered(each.job, FAILED) if each.priority else done(each.job) for each in answer.claims]
                    if moves:
                        assert {*(await insist(store, moves)).answers} == {Answer.APPLIED}
                        claimed = {(each.job.id, each.job.attempt) for each in answer.claims}
                        assert not claimed & ended
                        ended.update(claimed)

            async def operate(store: Store) -> None:
                for _ in range(30):
                    some, graph = chance.sample(jobs, 4), chance.choice(graphs)
                    match chance.randrange(6):
                        case 0:
                            await store.request_cancel(some)
                        case 1:
                            await store.reopen(some)
                        case 2:
                            await store.delete(some[:2])
                        case 3:
                            await verbs(store).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.RETRY))
                        case 4:
                            await verbs(store).revive(20)
                        case _:
                            await store.prune(10)

            async def write() -> None:
                await asyncio.gather(tie(at.another()), tie(at.another()), operate(at.another()), operate(at.another()))
                is_over.set()

            await asyncio.gather(write(), *(work(at.another()) for _ in range(WORKERS)))
            assert self.deadlocks() == before
            assert (await verbs(at.store).revive(9_999)).repairs == ()
            rows = [row for job in jobs if (row := await at.store.get(job)) is not None]
            assert {PLACE_OF[row.state] for row in rows} == {Place.FINISHED}

        play(self, act)

    def test_s19_a_parent_of_thousands_of_dependents_settles_quickly(self) -> None:
        async def act(at: Scene) -> None:
            (parent,) = await at.enqueue(at.new())
            children = await after(at, parent, number=2_000)
            job, begun = await start(at, parent), SystemClock().monotonic()
            assert (await insist(at.store, [done(job)])).answers == (Answer.APPLIED,)
            assert SystemClock().monotonic() - begun < 3.0
            assert {await at.state(child) for child in children[::100]} == {State.AVAILABLE}

        play(self, act)

    def test_s18_a_parent_with_a_younger_id_than_its_dependent_is_locked_in_order(self) -> None:
        async def act(at: Scene) -> None:
            child, parent = at.new(), at.new()
            await at.enqueue(parent)
            await dependents(at.store).enqueue_after(at.chance.uuid4(), [child], After((parent.id,)))
            assert child.id < parent.id
            job = await start(at, parent.id)
            assert await at.settle(answered(job, FAILED)) == (Answer.APPLIED,)
            assert await at.state(child.id) is State.FAILED
            await at.store.reopen([parent.id])
            assert await at.state(child.id) is State.BLOCKED
            assert await at.settle(done(await start(at, parent.id))) == (Answer.APPLIED,)
            assert await at.state(child.id) is State.AVAILABLE

        play(self, act)

    def test_s19_a_choice_of_jobs_moves_one_that_gets_a_dependent_after_the_locks_of_workflows(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def act(at: Scene) -> None:
            for verb in (SteerVerb.CANCEL, SteerVerb.DELETE, SteerVerb.REOPEN):
                (parent,), lock_of, children = await at.enqueue(at.new()), LockedFlows.lock_of, list[UUID]()
                if verb is SteerVerb.REOPEN:
                    assert await at.settle(answered(await start(at, parent), FAILED)) == (Answer.APPLIED,)

                async def lock(self: LockedFlows, jobs: Sequence[UUID]) -> None:
                    await lock_of(self, jobs)  # noqa: B023
                    if not children:  # noqa: B023
                        children.extend(await after(at, parent))  # noqa: B023

                monkeypatch.setattr(LockedFlows, "lock_of", lock)
                answer = await store_defaults.steer(at.store, Steer(verb), [parent], JobFilter())
                monkeypatch.undo()
                if parent in answer.left:  # its row was still locked for a moment
                    answer = await store_defaults.steer(at.store, Steer(verb), [parent], JobFilter())
                left = {SteerVerb.CANCEL: State.CANCELLED, SteerVerb.REOPEN: State.AVAILABLE}.get(verb)
                assert answer.states == ({} if left is None else {parent: left})
                assert await at.state(children[0]) is (State.BLOCKED if verb is SteerVerb.REOPEN else State.FAILED)

        play(self, act)

    def deadlocks(self) -> int:
        """Return how many deadlocks the server has ended in this database."""
        self.home.sql("SELECT pg_stat_force_next_flush()")
        ((found,),) = self.home.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(found)


def test_a_role_that_may_only_enqueue_is_refused_and_nothing_is_stored(homes: Homes) -> None:
    store: Any = homes.empty("roles").store(FakeClock())

    class Enqueuing(AtHome):
        home = homes.empty("roles")

    async def act(at: Scene) -> None:
        (parent,), job = await at.enqueue(at.new()), at.new()
        with pytest.raises(ConfigurationError, match="use a role that may"):
            await store._enqueuer.enqueue_after(at.chance.uuid4(), [job], After((parent,)))
        assert await at.store.get(job.id) is None

    play(Enqueuing(), act)

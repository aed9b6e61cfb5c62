"""Verbs for many jobs on MongoDB: how many commands they send does not grow with the number of jobs."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from holdfast._core.job import State
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.scene import Scene, play
from holdfast.testing.contracts.workflow_scene import Graph, verbs
from tests.contract.test_mongo import AtHome
from tests.stores.test_mongo_guards import Sent

Act = Callable[[], Awaitable[object]]
FEW, MANY = 3, 60


async def cancelled(at: Scene, count: int) -> tuple[UUID, ...]:
    jobs = await at.enqueue(*(at.new(key=f"{number} of {count}") for number in range(count)))
    await at.store.request_cancel(jobs)
    return jobs


async def workflow(at: Scene, count: int) -> Graph:
    graph = Graph(at)
    for number in range(count):
        graph.add(str(number))
    return await graph.stored()


async def cancel(at: Scene, count: int) -> Act:
    jobs = await at.enqueue(*(at.new() for _ in range(count)))
    return lambda: at.store.request_cancel(jobs)


async def reopen(at: Scene, count: int) -> Act:
    jobs = await cancelled(at, count)
    return lambda: at.store.reopen(jobs)


async def delete(at: Scene, count: int) -> Act:
    jobs = await cancelled(at, count)
    return lambda: at.store.delete(jobs)


async def steer(at: Scene, count: int) -> Act:
    jobs = await cancelled(at, count)
    return lambda: at.store.steer(Steer(SteerVerb.DELETE), jobs, JobFilter())  # type: ignore[attr-defined]


async def purge(at: Scene, count: int) -> Act:
    await at.enqueue(*(at.new(queue="full") for _ in range(count)))
    return lambda: at.store.purge("full", count)  # type: ignore[attr-defined]


async def prune(at: Scene, count: int) -> Act:
    await cancelled(at, count)
    at.step_wall(1e7)
    return lambda: at.store.prune(count)


async def enqueue_workflow(at: Scene, count: int) -> Act:
    return lambda: workflow(at, count)


async def delete_workflow(at: Scene, count: int) -> Act:
    graph = await workflow(at, count)
    await verbs(at.store).steer_flow(graph.ids["root"], SteerFlow(verb=FlowVerb.CANCEL))
    return lambda: at.store.delete([graph.ids["root"]])


VERBS = (cancel, reopen, delete, steer, purge, prune, enqueue_workflow, delete_workflow)


class TestMongo(AtHome):
    @pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
    def test_a_verb_for_many_jobs_sends_as_many_commands_as_for_few(self, verb: Callable[[Scene, int], Awaitable[Act]]) -> None:
        numbers = list[int]()

        async def count(at: Scene) -> None:
            store = self.home.own_store(at.clock)
            assert isinstance(store, MongoStore)
            at.store, sent = store, Sent(store)
            for jobs in (1, FEW, MANY):
                act = await verb(at, jobs)
                before = len(sent.commands)
                await act()
                numbers.append(len(sent.commands) - before)
            await store.close()

        play(self, count)
        assert numbers[2] == numbers[1] > 0

    def test_counts_with_a_limit_read_no_more_finished_jobs_than_that(self) -> None:
        async def count(at: Scene) -> None:
            await cancelled(at, MANY)
            await at.enqueue(*(at.new() for _ in range(FEW)))
            counted = {("", State.CANCELLED): 11, ("", State.AVAILABLE): FEW}
            assert await at.store.counts(None, 10) == counted
            assert [view.counts for view in await at.store.queues(10)] == [
                {state: number for (_, state), number in counted.items()}
            ]

        play(self, count)

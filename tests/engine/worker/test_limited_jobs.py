"""Workers run limited jobs within their limits: never too many, at once when they may, and without asking in a loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import NewJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._engine import messages
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast._engine.worker.options import WorkerOptions
from holdfast.testing.clock import FakeChance
from tests.engine.support import LEASE, OTHER, Bench, forever
from tests.engine.worker.test_worker import POLL, USABLE, Office, passing
from tests.event_loops import beside

MAIL = Scope(ScopeKind.QUEUE, "mail")
CRASH = LeaseEnd(RescueReason.CRASHED)


class Runs:
    """Handlers that run until the test ends one, counted."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.starts: list[float] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def work(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        loop = asyncio.get_running_loop()
        self.starts.append(loop.time())
        waiter = loop.create_future()
        self._waiting.append(waiter)
        await waiter
        self.running -= 1

    def end(self) -> None:
        """End the handler that started first."""
        self._waiting.popleft().set_result(None)


async def quick() -> None: ...


def mail(chance: FakeChance, task: str, *, queue: str = "mail", key: str = "", priority: int = 0) -> NewJob:
    return NewJob(id=chance.uuid7(), task=task, payload=b"{}", policy=Policy(), queue=queue, key=key, priority=priority)


class Mail(Office):
    """A worker of a queue with a limit."""

    def __init__(self, handler: Callable[..., Any], limit: Limit, *others: TaskDefinition, slots: int = 10) -> None:
        options = WorkerOptions(concurrency=slots, threads=2)
        super().__init__(define(handler, name="send", queue="mail"), *others, options=options)
        self.limit = limit

    async def start(self, jobs: int = 0) -> list[UUID]:
        """Set the limit, enqueue jobs, and start the worker."""
        await self.memory.set_limit(MAIL, self.limit, Origin())
        made = await self.add("send", *["mail"] * jobs)
        await self.open()
        beside(self.keep_beating())
        return made

    async def start_isolated(self) -> list[UUID]:
        """Set the limit, and start a worker for the last attempt of a job."""
        made = await self.add("send", "mail")
        policies = {name: structs.replace(policy, max_crashes=2) for name, policy in self.registry.policies().items()}
        await self.memory.open_lease(OTHER)
        claim = ClaimRequest(lease=OTHER.id, claim=UUID(int=99), tasks=policies, limit=1)
        (taken,) = (await self.memory.exchange([], claim)).claims
        await self.memory.end_lease(OTHER.id, CRASH)
        await self.memory.exchange([rescue(taken.job, CRASH, jitter=0.0)])
        await self.memory.set_limit(MAIL, self.limit, Origin())
        await self.memory.open_lease(LEASE)
        self.far.say(messages.LeaseGranted(LEASE.id, LEASE.worker, self.clock.monotonic() + USABLE, True))
        await self.far.hear(messages.Ready)
        beside(self.keep_beating())
        return made

    async def add(self, task: str, *queues: str, priority: int = 0) -> list[UUID]:
        jobs = [mail(self.chance, task, queue=queue, priority=priority) for queue in queues]
        if jobs:
            await self.memory.enqueue(self.chance.uuid4(), jobs)
        return [job.id for job in jobs]

    def exchanges(self) -> int:
        return self.store.calls.count("exchange")


@pytest.mark.virtual_time
async def test_s12_a_worker_never_runs_more_jobs_than_a_limit_allows() -> None:
    runs = Runs()
    office = Mail(runs.work, Limit(concurrency=2))
    jobs = await office.start(9)
    await passing(0.5)
    while runs.running:
        assert runs.running <= 2
        runs.end()
        await passing(0.01)
    assert (runs.most, len(runs.starts)) == (2, 9)
    assert {await office.state(job) for job in jobs} == {State.COMPLETED}


@pytest.mark.virtual_time
async def test_a_freed_slot_is_used_by_its_own_worker_at_once() -> None:
    runs = Runs()
    office = Mail(runs.work, Limit(concurrency=1))
    await office.start(4)
    await passing(0.5)
    for number in range(2, 5):
        await passing(3.3 * POLL)
        ended = office.clock.monotonic()
        runs.end()
        await passing(0.001)
        assert len(runs.starts) == number
        assert runs.starts[-1] == ended


@pytest.mark.parametrize("turns", range(2))
async def test_a_slot_freed_between_two_claims_is_used_without_a_pause(turns: int) -> None:
    bench = Bench(define(quick, queue="mail"))
    await bench.memory.set_limit(MAIL, Limit(concurrency=1), Origin())
    await bench.memory.open_lease(LEASE)
    jobs = [mail(bench.chance, "quick") for _ in range(6)]
    await bench.memory.enqueue(bench.chance.uuid4(), jobs)
    for _ in range(turns):
        await bench.exchange.step()
    pauses = list[float]()
    while len(bench.ended) < len(jobs):
        ended = len(bench.ended)
        pauses.append(await bench.exchange.step())
        if bench.executor.running:
            await bench.until_ended(ended + 1)
    await bench.settle()
    assert set(pauses) == {0.0}
    assert (await bench.memory.counts())["", State.COMPLETED] == len(jobs)


@pytest.mark.virtual_time
async def test_a_worker_whose_limit_is_full_asks_no_more_than_it_polls() -> None:
    runs = Runs()
    office = Mail(runs.work, Limit(concurrency=1))
    await office.start(5)
    await passing(POLL)
    office.store.calls.clear()
    await passing(20 * POLL)
    assert 20 <= office.exchanges() <= 44  # a claim of each kind for each poll
    assert runs.running == 1


@pytest.mark.virtual_time
async def test_an_idle_worker_with_limits_asks_no_more_than_it_polls() -> None:
    office = Mail(quick, Limit(concurrency=1, rate="1/s"))
    await office.start()
    await passing(POLL)
    office.store.calls.clear()
    await passing(20 * POLL)
    assert 20 <= office.store.calls.count("next_due") <= 24
    assert office.exchanges() <= 8  # after audits, of each kind


@pytest.mark.virtual_time
async def test_s24_jobs_start_when_their_rate_allows_and_the_worker_does_not_spin() -> None:
    starts = list[float]()

    async def note() -> None:
        starts.append(asyncio.get_running_loop().time())

    office = Mail(note, Limit(rate="2/s", burst=2))
    await office.start(6)
    await passing(0.1)
    assert len(starts) == 2
    office.store.calls.clear()
    await passing(3.0)
    gaps = [later - earlier for earlier, later in pairwise(starts[1:])]
    assert len(starts) == 6
    assert all(0.499 <= gap <= 0.51 for gap in gaps)
    assert office.exchanges() <= 4 * 5 + 6  # for each start a few claims, then one poll a second


@pytest.mark.virtual_time
async def test_each_key_of_a_rate_starts_when_it_may() -> None:
    runs = Runs()
    office = Mail(runs.work, Limit(rate_per_key="1/m"))
    await office.start()
    jobs = [mail(office.chance, "send", key=key) for key in ("a", "a", "b", "c", "c")]
    await office.memory.enqueue(office.chance.uuid4(), jobs)
    await passing(2 * POLL)
    assert len(runs.starts) == 3
    await passing(60.0)
    assert len(runs.starts) == 5


@pytest.mark.virtual_time
@pytest.mark.parametrize("urgent_queue", ["mail", "plain"])
async def test_an_urgent_job_of_the_other_kind_waits_for_one_claim_at_most(urgent_queue: str) -> None:
    order = list[str]()

    async def slow() -> None:
        order.append("slow")
        await passing(0.1)

    async def urgent() -> None:
        order.append("urgent")

    office = Mail(slow, Limit(concurrency=100), define(urgent), slots=1)
    await office.start()
    await office.add("send", *["mail" if urgent_queue == "plain" else "plain"] * 50)
    await passing(POLL + 0.75)
    before = len(order)
    assert before > 3
    await office.add("urgent", urgent_queue, priority=-100)
    await passing(0.5)
    assert order.index("urgent") - before <= 1


@pytest.mark.virtual_time
async def test_plain_and_limited_jobs_share_the_slots_of_a_worker() -> None:
    ran = list[str]()

    async def limited() -> None:
        ran.append("limited")
        await passing(0.01)

    async def plain() -> None:
        ran.append("plain")
        await passing(0.01)

    office = Mail(limited, Limit(concurrency=100), define(plain), slots=1)
    await office.start(20)
    await office.add("plain", *["default"] * 20)
    while len(ran) < 20:
        await passing(0.01)
    assert 9 <= ran[:20].count("plain") <= 11


async def test_a_limit_that_appears_while_a_worker_is_busy_counts_from_its_next_claim() -> None:
    bench = Bench(define(forever, queue="mail"), slots=4)
    await bench.memory.open_lease(LEASE)
    jobs = [mail(bench.chance, "forever") for _ in range(6)]
    await bench.memory.enqueue(bench.chance.uuid4(), jobs[:2])
    await bench.exchange.step()
    await bench.memory.set_limit(MAIL, Limit(concurrency=3), Origin())
    await bench.memory.enqueue(bench.chance.uuid4(), jobs[2:])
    for _ in range(4):
        await bench.exchange.step()
    assert len(bench.executor.running) == 3


@pytest.mark.virtual_time
async def test_a_worker_whose_jobs_wait_for_a_rate_is_not_idle() -> None:
    office = Mail(quick, Limit(rate="1/h"))
    await office.start(2)
    await passing(10 * POLL)
    pongs = office.received(messages.Pong)
    assert pongs
    assert not any(pong.is_idle for pong in pongs)


@pytest.mark.virtual_time
async def test_a_worker_for_an_isolated_attempt_runs_a_job_that_a_limit_counts() -> None:
    office = Mail(quick, Limit(concurrency=1), slots=1)
    (job,) = await office.start_isolated()
    await asyncio.wait_for(office.running, 60.0)
    assert [row.state for row in [await office.row(job)]] == [State.COMPLETED]

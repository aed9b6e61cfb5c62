"""Workers whose jobs are delivered by a queue: nothing is lost with it, nothing runs twice, everything is acknowledged."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.service import Signal
from holdfast._engine.supervisor.recovery import Contact, Recovery
from holdfast._engine.supervisor.republisher import Republisher
from holdfast._engine.tasks.options import Options
from holdfast._engine.worker.inbox import Inbox
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.worker import Worker
from holdfast._ports.transport import ClaimSource
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance
from proof.simulator.queue import FaultyQueue, FaultyTransport, Mishaps
from tests.engine.machines import MemoryCell, MemoryChannel
from tests.engine.support import PROCESS, SETTINGS, TIMING, Flaky, Log, LoopClock, forever, registry
from tests.event_loops import beside, run_virtual

USABLE = TIMING.ttl - TIMING.margin
ACK_WAIT = 40.0
DEAD = NewLease(UUID(int=2), "dead", PROCESS, TIMING)
NONE = Mishaps()
ROUGH = Mishaps(loss=0.3, double=0.3, swap=0.5, lateness=5.0)
RARE_LOOKS = structs.replace(SETTINGS, poll_interval=20.0, recovery_interval=5.0)


async def passing(seconds: float) -> None:
    await LoopClock().sleep(seconds)


class Shop:
    """Workers, a client, a supervisor's sweep, and the queue between them."""

    def __init__(
        self,
        *tasks: Callable[..., Any],
        mishaps: Mishaps = NONE,
        ack: str = "claim",
        settings: Any = RARE_LOOKS,
        seed: int = 0,
    ) -> None:
        self.clock, self.chance, self.log = LoopClock(), FakeChance(), Log()
        self.memory = MemoryStore(self.clock)
        self.registry, self.settings = registry(*tasks), settings
        self.queue = FaultyQueue(random.Random(seed), mishaps, ack_wait=ACK_WAIT, acks_on_finish=ack == "finish")
        self.client = Client(Environment(self.memory, self.transport(), self.clock, self.chance, self.log.events))
        self.stores: list[Flaky] = []
        self.channels: list[MemoryChannel] = []
        self.runs: list[asyncio.Task[None]] = []

    def transport(self) -> FaultyTransport:
        return FaultyTransport(self.queue, self.clock.sleep, lambda: False)

    async def hire(self, concurrency: int = 3, queues: tuple[str, ...] | None = None, *, is_isolated: bool = False) -> Worker:
        """One more worker, whose supervisor does nothing but beat."""
        far, near = MemoryChannel.pair()
        lease = NewLease(self.chance.uuid4(), f"worker-{len(self.runs)}", PROCESS, TIMING)
        await self.memory.open_lease(lease)
        self.stores.append(Flaky(self.memory))
        worker = Worker(
            MemoryCell(near),
            Environment(self.stores[-1], self.transport(), self.clock, self.chance, self.log.events),  # type: ignore[arg-type]
            registry=self.registry,
            settings=self.settings,
            options=WorkerOptions(concurrency=concurrency, threads=1, queues=queues),
        )
        self.channels.append(far)
        self.runs.append(beside(worker.run()))
        far.say(messages.LeaseGranted(lease.id, lease.worker, self.clock.monotonic() + USABLE, is_isolated))
        await far.hear(messages.Ready)
        beside(self._keep_beating(far, lease))
        return worker

    async def _keep_beating(self, far: MemoryChannel, lease: NewLease) -> None:
        while True:
            sent = self.clock.monotonic()
            await self.memory.beat([lease.id])
            far.say(messages.LeaseRenewed(sent + USABLE))
            await passing(TIMING.beat)

    async def enqueue(self, task: str = "work", count: int = 1, **options: Any) -> list[UUID]:
        """Their ids."""
        known = self.registry.get(task)
        assert known is not None
        jobs = [
            Options.of(**options).new_job(self.chance.uuid7(), task, b"{}", queue="default", priority=0, policy=known.policy)
            for _ in range(count)
        ]
        await self.client.enqueue(jobs)
        return [job.id for job in jobs]

    async def sweep(self) -> None:
        """As a supervisor does, for ever."""
        sweep = Republisher(
            self.memory,
            self.transport(),
            tasks=lambda: sorted(self.registry.names()),
            queues=lambda: None,
            interval=self.settings.recovery_interval,
            events=self.log.events,
        )
        while True:
            await passing(await sweep.step())

    async def states(self) -> dict[str, int]:
        return {state.value: count for (_, state), count in (await self.memory.counts()).items()}

    def vias(self) -> list[str]:
        """What led to each claim."""
        return [fields["via"] for fields in self.log.of("job.claimed")]

    async def until_empty(self) -> None:
        """Nothing to deliver and nothing to acknowledge."""
        while self.queue.waiting or self.queue.unacknowledged:
            await passing(1.0)


async def work() -> None:
    """Short."""


# a good day


@pytest.mark.virtual_time
async def test_a_delivered_job_is_claimed_by_its_id_at_once_and_acknowledged() -> None:
    shop = Shop(work)
    await shop.hire()
    await passing(1.0)
    started = shop.clock.monotonic()
    await shop.enqueue()
    while await shop.states() != {"completed": 1}:
        await passing(0.001)
    assert shop.clock.monotonic() - started < 0.1
    (claimed,) = shop.log.of("job.claimed")
    assert (claimed["via"], "recovery" in claimed) == ("delivery", False)
    await shop.until_empty()
    assert shop.queue.sent == 1


@pytest.mark.virtual_time
async def test_each_job_is_handed_to_one_worker_and_no_worker_fetches_more_than_it_has_slots_for() -> None:
    ends = asyncio.Event()

    async def wait() -> None:
        await ends.wait()

    shop = Shop(wait)
    workers = [await shop.hire(2) for _ in range(3)]
    await passing(1.0)
    await shop.enqueue("wait", 7)
    await passing(2.0)
    assert [len(worker.executor.running) for worker in workers] == [2, 2, 2]
    assert len(shop.queue.waiting) == 1
    assert shop.queue.unacknowledged == {}
    ends.set()
    await passing(10.0)
    assert await shop.states() == {"completed": 7}
    await shop.until_empty()


@pytest.mark.virtual_time
async def test_jobs_due_later_and_those_of_other_queues_are_told_to_nobody_who_could_not_run_them() -> None:
    shop = Shop(work)
    await shop.hire(queues=("a",))
    await passing(1.0)
    await shop.enqueue(delay="3s", queue="a")
    assert shop.queue.sent == 0
    await shop.enqueue(queue="b")
    await passing(30.0)
    assert await shop.states() == {"available": 1, "completed": 1}
    assert [message.queue for message in shop.queue.waiting] == ["b"]


@pytest.mark.virtual_time
async def test_what_cannot_be_claimed_is_acknowledged_all_the_same() -> None:
    shop = Shop(work)
    await shop.memory.pause(["default"], is_paused=True)
    await shop.hire()
    await passing(1.0)
    await shop.enqueue()
    shop.queue.put(UUID(int=5), "default", ClaimSource.DELIVERY)
    await passing(1.0)
    await shop.until_empty()
    assert await shop.states() == {"available": 1}
    await shop.client.pause(["default"], is_paused=False)
    await passing(1.0)
    assert await shop.states() == {"completed": 1}


@pytest.mark.virtual_time
async def test_a_worker_for_last_tries_leaves_deliveries_to_others() -> None:
    shop = Shop(work)
    await shop.hire(is_isolated=True)
    await passing(1.0)
    await shop.enqueue()
    await passing(60.0)
    assert len(shop.queue.waiting) == 1


# acknowledging at the end


@pytest.mark.virtual_time
async def test_until_the_finish_means_that_a_message_outlives_its_worker_and_comes_again() -> None:
    shop = Shop(forever, ack="finish")
    await shop.hire()
    await passing(1.0)
    await shop.enqueue("forever")
    await passing(1.0)
    assert len(shop.queue.unacknowledged) == 1
    await passing(ACK_WAIT)
    # It came again, was no longer there to be claimed, and was acknowledged; the job runs on.
    assert await shop.states() == {"running": 1}
    assert (shop.queue.unacknowledged, shop.queue.waiting) == ({}, [])


@pytest.mark.virtual_time
@pytest.mark.parametrize("how", ["ended", "lost", "cancelled"])
async def test_it_is_acknowledged_as_soon_as_the_job_is_no_longer_here(how: str) -> None:
    ends = asyncio.Event()

    async def wait() -> None:
        await ends.wait()

    shop = Shop(wait, ack="finish")
    worker = await shop.hire()
    await passing(1.0)
    (job,) = await shop.enqueue("wait")
    await passing(1.0)
    assert len(shop.queue.unacknowledged) == 1
    match how:
        case "ended":
            ends.set()
        case "lost":
            await shop.memory.end_lease(worker.executor.running[job].claim.job.lease, LeaseEnd(RescueReason.EXPIRED))
            shop.channels[0].say(messages.LeaseLost())
        case _:
            await shop.client.cancel([job])
    await passing(2 * TIMING.beat)
    assert worker.executor.running == {}
    assert shop.queue.unacknowledged == {}


# bad days


@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ack", ["claim", "finish"])
async def test_whatever_the_queue_does_each_job_runs_once_and_every_message_is_acknowledged(seed: int, ack: str) -> None:
    numbers, ran = random.Random(seed), Counter[int]()

    async def work() -> None:
        ran["runs"] += 1
        await passing(numbers.random() * 3.0)

    shop = Shop(work, mishaps=ROUGH, ack=ack, seed=seed)
    for _ in range(3):
        await shop.hire(numbers.choice([1, 3, 10]))
    beside(shop.sweep())
    for _ in range(20):
        await shop.enqueue(count=numbers.choice([1, 1, 7]), delay=numbers.choice([0, 0, 4.0]))
        if numbers.random() < 0.1:
            shop.queue.forget()
        await passing(numbers.random() * 4.0)
    shop.queue.mishaps = NONE
    while set(await shop.states()) != {"completed"}:
        await passing(1.0)
    assert ran["runs"] == (await shop.states())["completed"]
    await shop.until_empty()
    vias = Counter(shop.vias())
    assert vias["delivery"] > 0, vias


@pytest.mark.virtual_time
async def test_with_every_message_lost_work_starts_within_one_look() -> None:
    shop = Shop(work, mishaps=Mishaps(loss=1.0))
    await shop.hire()
    await passing(7.0)
    await shop.enqueue()
    await passing(RARE_LOOKS.poll_interval)
    assert await shop.states() == {"completed": 1}
    assert shop.vias() == ["poll"]


@pytest.mark.virtual_time
async def test_jobs_that_nobody_was_told_of_are_found_although_deliveries_never_cease() -> None:
    shop = Shop(work)
    await shop.hire()
    transport = FaultyTransport(shop.queue, passing, lambda: True)
    quiet = Client(Environment(shop.memory, transport, shop.clock, shop.chance, shop.log.events))
    await passing(1.0)

    async def keep_enqueuing() -> None:
        while True:
            await shop.enqueue()
            await passing(0.5)

    beside(keep_enqueuing())
    shop.client, loud = quiet, shop.client
    (untold,) = await shop.enqueue()
    shop.client = loud
    await passing(RARE_LOOKS.poll_interval + 1.0)
    row = await shop.memory.get(untold)
    assert row is not None
    assert row.state is State.COMPLETED


@pytest.mark.parametrize("slots", [3, 1])
def test_a_delivered_job_is_not_claimed_while_jobs_before_it_are_due(slots: int) -> None:
    async def test() -> None:
        shop, asked = Shop(work), 0
        exchange, is_locked = shop.memory.exchange, True

        async def beside_another(transitions: Any, request: ClaimRequest | None = None) -> ExchangeAnswer:
            """Another claim has locked the first due job."""
            nonlocal asked
            asked += 1
            assert asked < 300, "the worker asks the store in a loop"
            is_look = request is not None and request.ids is None
            return await exchange(transitions, None if is_locked and is_look else request)

        shop.memory.exchange = beside_another  # type: ignore[method-assign]
        transport = FaultyTransport(shop.queue, passing, lambda: True)
        quiet = Client(Environment(shop.memory, transport, shop.clock, shop.chance, shop.log.events))
        shop.client, loud = quiet, shop.client
        (first,) = await shop.enqueue()
        shop.client = loud
        (second,) = await shop.enqueue()
        await shop.hire(slots)
        await passing(2.0)
        assert await shop.states() == {"available": 2}
        is_locked = False
        await passing(1.0)
        assert [fields["job"] for fields in shop.log.of("job.claimed")] == [first, second]

    run_virtual(test())


@pytest.mark.virtual_time
async def test_a_store_that_fails_costs_no_message() -> None:
    shop = Shop(work)
    await shop.hire()
    await passing(1.0)
    shop.stores[0].fail("exchange", 2)
    shop.stores[0].lose_answer("exchange")
    await shop.enqueue(count=3)
    while await shop.states() != {"completed": 3}:
        await passing(0.1)
    await shop.until_empty()
    assert len(shop.log.of("job.completed")) == 3


# more work than can be done


@pytest.mark.virtual_time
async def test_while_looking_finds_more_than_fits_jobs_are_taken_in_order_and_what_was_fetched_goes_to_others() -> None:
    order: list[int] = []

    async def work() -> None:
        await passing(1.0)

    shop = Shop(work)
    await shop.enqueue(count=30)
    await shop.enqueue(count=5, priority=-1)
    await shop.hire(2)
    await passing(100.0)
    assert await shop.states() == {"completed": 35}
    claimed = [fields["job"] for fields in shop.log.of("job.claimed")]
    rows = [await shop.memory.get(job) for job in claimed]
    order = [row.priority for row in rows if row is not None]
    assert order == sorted(order)
    await shop.until_empty()


@pytest.mark.virtual_time
async def test_what_comes_after_its_slot_was_taken_is_handed_on_and_acknowledged() -> None:
    shop, rooms, wake = Shop(work), [2, 2, 1, 1], Signal()
    inbox = Inbox(
        shop.transport(),
        shop.transport().publish,
        queues=None,
        free=lambda: rooms.pop(0),
        wake=wake,
        pause=1.5,
    )
    await shop.enqueue(count=2)
    await passing(0.1)
    assert await inbox.step() == 0.0
    assert (len(inbox.next(5)), shop.queue.sent, await wake.wait(0)) == (2, 2, True)
    assert await inbox.step() == 1.5  # one slot has gone, so nothing is asked for, and one message too many is here
    first = inbox.next(5)
    await passing(0.1)
    assert (len(first), shop.queue.sent, await wake.wait(0)) == (1, 3, False)
    (other,) = shop.queue.waiting
    assert (other.job in first, other.via) == (False, ClaimSource.DELIVERY)
    await inbox.claimed(first, first)
    await passing(0.1)
    assert shop.queue.unacknowledged == {}


# the sweep


@pytest.mark.virtual_time
async def test_a_sweep_tells_of_jobs_that_wait_and_several_supervisors_tell_once() -> None:
    shop = Shop(work, settings=structs.replace(RARE_LOOKS, recovery_interval=1.0))
    await shop.hire()
    await passing(1.0)
    shop.queue.mishaps = Mishaps(loss=1.0)
    await shop.enqueue(count=3)
    shop.queue.mishaps = NONE
    for _ in range(4):
        beside(shop.sweep())
    await passing(TIMING.beat - 2.0)  # with its beats a worker looks by itself
    assert await shop.states() == {"completed": 3}
    assert Counter(shop.vias()) == {"sweep": 3}
    assert shop.queue.sent == 6
    assert all(fields["jobs"] == 3 for fields in shop.log.of("transport.republished"))


@pytest.mark.virtual_time
async def test_it_leaves_alone_what_has_just_come_what_is_not_due_and_all_while_something_waits_to_be_delivered() -> None:
    shop = Shop(work)
    shop.queue.mishaps = Mishaps(loss=1.0)
    await shop.enqueue(delay="1h")
    await shop.enqueue()
    shop.queue.mishaps = NONE
    shop.queue.put(UUID(int=9), "default", ClaimSource.DELIVERY)
    beside(shop.sweep())
    await passing(4.0)
    assert shop.queue.sent == 2
    await passing(60.0)
    assert shop.queue.sent == 2  # the one that waits to be delivered says that nobody has time anyway
    shop.queue.forget()
    await passing(5.0)
    assert shop.queue.sent == 3


@pytest.mark.virtual_time
async def test_a_pass_is_bounded() -> None:
    shop = Shop(work)
    shop.queue.mishaps = Mishaps(loss=1.0)
    await shop.enqueue(count=1500)
    shop.queue.mishaps = NONE
    shop.queue.sent = 0
    await passing(10.0)
    beside(shop.sweep())
    await passing(1.0)
    assert shop.queue.sent == 1000


# recoveries


@pytest.mark.virtual_time
async def test_a_rescued_job_goes_to_one_worker_with_the_reason_and_the_claim_says_that_the_store_recovered_it() -> None:
    shop = Shop(work)
    await shop.enqueue()
    shop.queue.forget()
    await shop.memory.open_lease(DEAD)
    request = ClaimRequest(lease=DEAD.id, claim=UUID(int=3), tasks=shop.registry.policies(), limit=1)
    assert len((await shop.memory.exchange((), request)).claims) == 1
    await shop.hire()
    await passing(1.0)
    recovery = Recovery(
        Environment(shop.memory, shop.transport(), shop.clock, shop.chance, shop.log.events),
        Contact(TIMING, shop.clock.monotonic),
    )
    await recovery.end(DEAD.id, DEAD.worker, LeaseEnd(RescueReason.CRASHED, "SIGKILL"))
    assert [(message.job, message.rescued) for message in shop.queue.waiting] == []
    while await shop.states() != {"completed": 1}:
        await passing(0.01)
    (claimed,) = shop.log.of("job.claimed")
    assert (claimed["via"], claimed["rescued"], claimed["recovery"]) == ("delivery", "crashed", "store")
    (rescued,) = shop.log.of("job.rescued")
    assert rescued["recovery"] == "store"
    await shop.until_empty()


@pytest.mark.virtual_time
async def test_a_message_that_its_receiver_did_not_live_to_acknowledge_recovers_the_job() -> None:
    shop = Shop(work, settings=structs.replace(RARE_LOOKS, timing=LeaseTiming.of("5m"), poll_interval=500.0))
    await shop.hire()
    await passing(1.0)
    shop.queue.mishaps = Mishaps(loss=1.0)
    (job,) = await shop.enqueue(delay=f"{ACK_WAIT - 1.0} s")  # so that nobody finds it by looking before
    shop.queue.mishaps = NONE
    shop.queue.lose_receiver(job, "default")
    await passing(ACK_WAIT + 0.5)
    (claimed,) = shop.log.of("job.claimed")
    assert (claimed["via"], claimed["recovery"]) == ("redelivery", "redelivery")
    await shop.until_empty()

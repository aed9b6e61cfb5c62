"""Workers whose transport delivers jobs: no job is lost with a message or runs twice, and every message is acknowledged."""

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
from tests.engine.machines import MemoryChannel, MemorySupervisorLink
from tests.engine.support import PROCESS, SETTINGS, TIMING, Flaky, Log, LoopClock, forever, registry
from tests.event_loops import beside, run_virtual

USABLE = TIMING.ttl - TIMING.margin
ACK_WAIT = 40.0
DEAD = NewLease(UUID(int=2), "dead", PROCESS, TIMING)
NONE = Mishaps()
ROUGH = Mishaps(loss=0.3, double=0.3, swap=0.5, lateness=5.0)
RARE_POLLS = structs.replace(SETTINGS, poll_interval=20.0, recovery_interval=5.0)


async def passing(seconds: float) -> None:
    await LoopClock().sleep(seconds)


class QueueBench:
    """Workers, a client, a supervisor's republisher, and the queue between them."""

    def __init__(
        self,
        *tasks: Callable[..., Any],
        mishaps: Mishaps = NONE,
        ack: str = "claim",
        settings: Any = RARE_POLLS,
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

    async def start_worker(
        self, concurrency: int = 3, queues: tuple[str, ...] | None = None, *, is_isolated: bool = False
    ) -> Worker:
        """Start one more worker, whose supervisor does nothing but beat."""
        far, near = MemoryChannel.pair()
        lease = NewLease(self.chance.uuid4(), f"worker-{len(self.runs)}", PROCESS, TIMING)
        await self.memory.open_lease(lease)
        self.stores.append(Flaky(self.memory))
        worker = Worker(
            MemorySupervisorLink(near),
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
        """Enqueue jobs with these options; return their ids."""
        known = self.registry.get(task)
        assert known is not None
        jobs = [
            Options.of(**options).new_job(self.chance.uuid7(), task, b"{}", queue="default", priority=0, policy=known.policy)
            for _ in range(count)
        ]
        await self.client.enqueue(jobs)
        return [job.id for job in jobs]

    async def republish(self) -> None:
        """Republish waiting jobs until cancelled, as a supervisor does."""
        republisher = Republisher(
            self.memory,
            self.transport(),
            tasks=lambda: sorted(self.registry.names()),
            queues=lambda: None,
            interval=self.settings.recovery_interval,
            events=self.log.events,
        )
        while True:
            await passing(await republisher.step())

    async def states(self) -> dict[str, int]:
        return {state.value: count for (_, state), count in (await self.memory.counts()).items()}

    def vias(self) -> list[str]:
        """Return the source of each claim."""
        return [fields["via"] for fields in self.log.of("job.claimed")]

    async def until_empty(self) -> None:
        """Wait until no message is left to deliver or to acknowledge."""
        while self.queue.waiting or self.queue.unacknowledged:
            await passing(1.0)


async def work() -> None: ...


# without faults


@pytest.mark.virtual_time
async def test_a_delivered_job_is_claimed_by_its_id_at_once_and_acknowledged() -> None:
    bench = QueueBench(work)
    await bench.start_worker()
    await passing(1.0)
    started = bench.clock.monotonic()
    await bench.enqueue()
    while await bench.states() != {"completed": 1}:
        await passing(0.001)
    assert bench.clock.monotonic() - started < 0.1
    (claimed,) = bench.log.of("job.claimed")
    assert (claimed["via"], "recovery" in claimed) == ("delivery", False)
    await bench.until_empty()
    assert bench.queue.sent == 1


@pytest.mark.virtual_time
async def test_each_job_is_handed_to_one_worker_and_no_worker_fetches_more_than_it_has_slots_for() -> None:
    ends = asyncio.Event()

    async def wait() -> None:
        await ends.wait()

    bench = QueueBench(wait)
    workers = [await bench.start_worker(2) for _ in range(3)]
    await passing(1.0)
    await bench.enqueue("wait", 7)
    await passing(2.0)
    assert [len(worker.executor.running) for worker in workers] == [2, 2, 2]
    assert len(bench.queue.waiting) == 1
    assert bench.queue.unacknowledged == {}
    ends.set()
    await passing(10.0)
    assert await bench.states() == {"completed": 7}
    await bench.until_empty()


@pytest.mark.virtual_time
async def test_jobs_due_later_are_not_sent_and_those_of_other_queues_are_not_delivered() -> None:
    bench = QueueBench(work)
    await bench.start_worker(queues=("a",))
    await passing(1.0)
    await bench.enqueue(delay="3s", queue="a")
    assert bench.queue.sent == 0
    await bench.enqueue(queue="b")
    await passing(30.0)
    assert await bench.states() == {"available": 1, "completed": 1}
    assert [message.queue for message in bench.queue.waiting] == ["b"]


@pytest.mark.virtual_time
async def test_a_delivery_that_cannot_be_claimed_is_acknowledged() -> None:
    bench = QueueBench(work)
    await bench.memory.pause(["default"], is_paused=True)
    await bench.start_worker()
    await passing(1.0)
    await bench.enqueue()
    bench.queue.put(UUID(int=5), "default", ClaimSource.DELIVERY)
    await passing(1.0)
    await bench.until_empty()
    assert await bench.states() == {"available": 1}
    await bench.client.pause(["default"], is_paused=False)
    await passing(1.0)
    assert await bench.states() == {"completed": 1}


@pytest.mark.virtual_time
async def test_a_worker_for_isolated_jobs_leaves_deliveries_to_others() -> None:
    bench = QueueBench(work)
    await bench.start_worker(is_isolated=True)
    await passing(1.0)
    await bench.enqueue()
    await passing(60.0)
    assert len(bench.queue.waiting) == 1


# acknowledging on finish


@pytest.mark.virtual_time
async def test_a_message_acknowledged_on_finish_comes_again_while_its_job_runs() -> None:
    bench = QueueBench(forever, ack="finish")
    await bench.start_worker()
    await passing(1.0)
    await bench.enqueue("forever")
    await passing(1.0)
    assert len(bench.queue.unacknowledged) == 1
    await passing(ACK_WAIT)
    # The message came again, its job could not be claimed, and the worker acknowledged it; the job runs on.
    assert await bench.states() == {"running": 1}
    assert (bench.queue.unacknowledged, bench.queue.waiting) == ({}, [])


@pytest.mark.virtual_time
@pytest.mark.parametrize("how", ["ended", "lost", "cancelled"])
async def test_on_finish_a_message_is_acknowledged_as_soon_as_its_job_leaves_the_worker(how: str) -> None:
    ends = asyncio.Event()

    async def wait() -> None:
        await ends.wait()

    bench = QueueBench(wait, ack="finish")
    worker = await bench.start_worker()
    await passing(1.0)
    (job,) = await bench.enqueue("wait")
    await passing(1.0)
    assert len(bench.queue.unacknowledged) == 1
    match how:
        case "ended":
            ends.set()
        case "lost":
            await bench.memory.end_lease(worker.executor.running[job].claim.job.lease, LeaseEnd(RescueReason.EXPIRED))
            bench.channels[0].say(messages.LeaseLost())
        case _:
            await bench.client.cancel([job])
    await passing(2 * TIMING.beat)
    assert worker.executor.running == {}
    assert bench.queue.unacknowledged == {}


# with faults


@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ack", ["claim", "finish"])
async def test_each_job_runs_once_and_every_message_is_acknowledged_under_faults_of_the_queue(seed: int, ack: str) -> None:
    numbers, ran = random.Random(seed), Counter[int]()

    async def work() -> None:
        ran["runs"] += 1
        await passing(numbers.random() * 3.0)

    bench = QueueBench(work, mishaps=ROUGH, ack=ack, seed=seed)
    for _ in range(3):
        await bench.start_worker(numbers.choice([1, 3, 10]))
    beside(bench.republish())
    for _ in range(20):
        await bench.enqueue(count=numbers.choice([1, 1, 7]), delay=numbers.choice([0, 0, 4.0]))
        if numbers.random() < 0.1:
            bench.queue.forget()
        await passing(numbers.random() * 4.0)
    bench.queue.mishaps = NONE
    while set(await bench.states()) != {"completed"}:
        await passing(1.0)
    assert ran["runs"] == (await bench.states())["completed"]
    await bench.until_empty()
    vias = Counter(bench.vias())
    assert vias["delivery"] > 0, vias


@pytest.mark.virtual_time
async def test_a_job_starts_within_one_poll_when_every_message_is_lost() -> None:
    bench = QueueBench(work, mishaps=Mishaps(loss=1.0))
    await bench.start_worker()
    await passing(7.0)
    await bench.enqueue()
    await passing(RARE_POLLS.poll_interval)
    assert await bench.states() == {"completed": 1}
    assert bench.vias() == ["poll"]


@pytest.mark.virtual_time
async def test_jobs_without_a_message_are_found_although_deliveries_never_cease() -> None:
    bench = QueueBench(work)
    await bench.start_worker()
    transport = FaultyTransport(bench.queue, passing, lambda: True)
    silent = Client(Environment(bench.memory, transport, bench.clock, bench.chance, bench.log.events))
    await passing(1.0)

    async def keep_enqueuing() -> None:
        while True:
            await bench.enqueue()
            await passing(0.5)

    beside(keep_enqueuing())
    bench.client, sending = silent, bench.client
    (unsent,) = await bench.enqueue()
    bench.client = sending
    await passing(RARE_POLLS.poll_interval + 1.0)
    row = await bench.memory.get(unsent)
    assert row is not None
    assert row.state is State.COMPLETED


@pytest.mark.parametrize("slots", [3, 1])
def test_a_delivered_job_is_not_claimed_while_jobs_before_it_are_due(slots: int) -> None:
    async def test() -> None:
        bench, asked = QueueBench(work), 0
        exchange, is_locked = bench.memory.exchange, True

        async def beside_another(transitions: Any, request: ClaimRequest | None = None) -> ExchangeAnswer:
            """Claim nothing by looking: another claim has locked the first due job."""
            nonlocal asked
            asked += 1
            assert asked < 300, "the worker asks the store in a loop"
            is_look = request is not None and request.ids is None
            return await exchange(transitions, None if is_locked and is_look else request)

        bench.memory.exchange = beside_another  # type: ignore[method-assign]
        transport = FaultyTransport(bench.queue, passing, lambda: True)
        silent = Client(Environment(bench.memory, transport, bench.clock, bench.chance, bench.log.events))
        bench.client, sending = silent, bench.client
        (first,) = await bench.enqueue()
        bench.client = sending
        (second,) = await bench.enqueue()
        await bench.start_worker(slots)
        await passing(2.0)
        assert await bench.states() == {"available": 2}
        is_locked = False
        await passing(1.0)
        assert [fields["job"] for fields in bench.log.of("job.claimed")] == [first, second]

    run_virtual(test())


@pytest.mark.virtual_time
async def test_no_message_is_lost_when_the_store_fails() -> None:
    bench = QueueBench(work)
    await bench.start_worker()
    await passing(1.0)
    bench.stores[0].fail("exchange", 2)
    bench.stores[0].lose_answer("exchange")
    await bench.enqueue(count=3)
    while await bench.states() != {"completed": 3}:
        await passing(0.1)
    await bench.until_empty()
    assert len(bench.log.of("job.completed")) == 3


# a backlog


@pytest.mark.virtual_time
async def test_a_backlog_is_claimed_in_order_and_fetched_messages_go_to_other_workers() -> None:
    order: list[int] = []

    async def work() -> None:
        await passing(1.0)

    bench = QueueBench(work)
    await bench.enqueue(count=30)
    await bench.enqueue(count=5, priority=-1)
    await bench.start_worker(2)
    await passing(100.0)
    assert await bench.states() == {"completed": 35}
    claimed = [fields["job"] for fields in bench.log.of("job.claimed")]
    rows = [await bench.memory.get(job) for job in claimed]
    order = [row.priority for row in rows if row is not None]
    assert order == sorted(order)
    await bench.until_empty()


@pytest.mark.virtual_time
async def test_a_message_that_comes_after_its_slot_was_taken_is_republished_and_acknowledged() -> None:
    bench, free_slots, wake = QueueBench(work), [2, 2, 1, 1], Signal()
    inbox = Inbox(
        bench.transport(),
        bench.transport().publish,
        queues=None,
        free=lambda: free_slots.pop(0),
        wake=wake,
        pause=1.5,
    )
    await bench.enqueue(count=2)
    await passing(0.1)
    assert await inbox.step() == 0.0
    assert (len(inbox.next(5)), bench.queue.sent, await wake.wait(0)) == (2, 2, True)
    assert await inbox.step() == 1.5  # One slot is taken: the inbox fetches nothing and has one message too many.
    first = inbox.next(5)
    await passing(0.1)
    assert (len(first), bench.queue.sent, await wake.wait(0)) == (1, 3, False)
    (other,) = bench.queue.waiting
    assert (other.job in first, other.via) == (False, ClaimSource.DELIVERY)
    await inbox.claimed(first, first)
    await passing(0.1)
    assert bench.queue.unacknowledged == {}


# republishing


@pytest.mark.virtual_time
async def test_several_supervisors_republish_each_waiting_job_once() -> None:
    bench = QueueBench(work, settings=structs.replace(RARE_POLLS, recovery_interval=1.0))
    await bench.start_worker()
    await passing(1.0)
    bench.queue.mishaps = Mishaps(loss=1.0)
    await bench.enqueue(count=3)
    bench.queue.mishaps = NONE
    for _ in range(4):
        beside(bench.republish())
    await passing(TIMING.beat - 2.0)  # With its beats a worker polls by itself.
    assert await bench.states() == {"completed": 3}
    assert Counter(bench.vias()) == {"sweep": 3}
    assert bench.queue.sent == 6
    assert all(fields["jobs"] == 3 for fields in bench.log.of("transport.republished"))


@pytest.mark.virtual_time
async def test_no_job_is_republished_that_is_new_or_not_due_nor_any_while_a_message_waits() -> None:
    bench = QueueBench(work)
    bench.queue.mishaps = Mishaps(loss=1.0)
    await bench.enqueue(delay="1h")
    await bench.enqueue()
    bench.queue.mishaps = NONE
    bench.queue.put(UUID(int=9), "default", ClaimSource.DELIVERY)
    beside(bench.republish())
    await passing(4.0)
    assert bench.queue.sent == 2
    await passing(60.0)
    assert bench.queue.sent == 2  # A message that waits to be delivered shows that no worker has a free slot.
    bench.queue.forget()
    await passing(5.0)
    assert bench.queue.sent == 3


@pytest.mark.virtual_time
async def test_one_pass_republishes_a_bounded_number_of_jobs() -> None:
    bench = QueueBench(work)
    bench.queue.mishaps = Mishaps(loss=1.0)
    await bench.enqueue(count=1500)
    bench.queue.mishaps = NONE
    bench.queue.sent = 0
    await passing(10.0)
    beside(bench.republish())
    await passing(1.0)
    assert bench.queue.sent == 1000


# recoveries


@pytest.mark.virtual_time
async def test_a_rescued_job_is_delivered_with_the_reason_and_its_claim_names_the_store_as_recovery() -> None:
    bench = QueueBench(work)
    await bench.enqueue()
    bench.queue.forget()
    await bench.memory.open_lease(DEAD)
    request = ClaimRequest(lease=DEAD.id, claim=UUID(int=3), tasks=bench.registry.policies(), limit=1)
    assert len((await bench.memory.exchange((), request)).claims) == 1
    await bench.start_worker()
    await passing(1.0)
    recovery = Recovery(
        Environment(bench.memory, bench.transport(), bench.clock, bench.chance, bench.log.events),
        Contact(TIMING, bench.clock.monotonic),
    )
    await recovery.end(DEAD.id, DEAD.worker, LeaseEnd(RescueReason.CRASHED, "SIGKILL"))
    assert [(message.job, message.rescued) for message in bench.queue.waiting] == []
    while await bench.states() != {"completed": 1}:
        await passing(0.01)
    (claimed,) = bench.log.of("job.claimed")
    assert (claimed["via"], claimed["rescued"], claimed["recovery"]) == ("delivery", "crashed", "store")
    (rescued,) = bench.log.of("job.rescued")
    assert rescued["recovery"] == "store"
    await bench.until_empty()


@pytest.mark.virtual_time
async def test_a_message_whose_receiver_died_before_acknowledging_it_recovers_the_job() -> None:
    bench = QueueBench(work, settings=structs.replace(RARE_POLLS, timing=LeaseTiming.of("5m"), poll_interval=500.0))
    await bench.start_worker()
    await passing(1.0)
    bench.queue.mishaps = Mishaps(loss=1.0)
    (job,) = await bench.enqueue(delay=f"{ACK_WAIT - 1.0} s")  # Long enough that no worker finds it by polling before.
    bench.queue.mishaps = NONE
    bench.queue.lose_receiver(job, "default")
    await passing(ACK_WAIT + 0.5)
    (claimed,) = bench.log.of("job.claimed")
    assert (claimed["via"], claimed["recovery"]) == ("redelivery", "redelivery")
    await bench.until_empty()

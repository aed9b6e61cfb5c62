"""One worker process from its hello to its end: what it does when its supervisor sends messages, is silent or is gone."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.declared import Declared
from holdfast._core.job import AttemptOutcome, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.record import JobRecord
from holdfast._engine import messages
from holdfast._engine.environment import Environment
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.registry import RunnerKind, TaskDefinition, define
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.worker import Worker
from holdfast._ports.transport import Hint
from holdfast.errors import JobLost
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance
from tests.engine.machines import MemoryChannel, MemorySupervisorLink, MemoryTransport
from tests.engine.support import (
    LEASE,
    SETTINGS,
    TIMING,
    Flaky,
    Held,
    Log,
    LoopClock,
    enqueue,
    forever,
    registry,
    stubborn,
    turns,
    until,
)
from tests.event_loops import beside

OPTIONS = WorkerOptions(concurrency=10, threads=2)
USABLE = TIMING.ttl - TIMING.margin
POLL = SETTINGS.poll_interval


class Office:
    """A worker whose supervisor is the test."""

    def __init__(self, *tasks: Callable[..., Any] | TaskDefinition, options: WorkerOptions = OPTIONS) -> None:
        self.clock, self.chance, self.log = LoopClock(), FakeChance(), Log()
        self.memory = MemoryStore(self.clock)
        self.store, self.transport = Flaky(self.memory), MemoryTransport()
        self.far, near = MemoryChannel.pair()
        self.cell = MemorySupervisorLink(near, limits=("no /proc",))
        self.registry = registry(*tasks)
        self.worker = Worker(
            self.cell,
            Environment(self.store, self.transport, self.clock, self.chance, self.log.events),
            registry=self.registry,
            settings=SETTINGS,
            options=options,
        )
        self.running = beside(self.worker.run())

    async def open(self) -> None:
        """Open the worker's lease and wait until it is ready."""
        await self.memory.open_lease(LEASE)
        self.far.say(messages.LeaseGranted(LEASE.id, LEASE.worker, self.clock.monotonic() + USABLE))
        await self.far.hear(messages.Ready)

    async def beat(self) -> None:
        sent = self.clock.monotonic()
        await self.memory.beat([LEASE.id])
        self.far.say(messages.LeaseRenewed(sent + USABLE))

    async def keep_beating(self) -> None:
        """Beat and ping as a healthy supervisor does."""
        while not self.running.done():
            await self.beat()
            self.far.say(messages.Ping())
            await passing(TIMING.beat)

    async def enqueue(self, *tasks: str) -> list[UUID]:
        policies = self.registry.policies()
        return await enqueue(self.memory, self.chance, *[(task, b"{}") for task in tasks], policies=policies)

    async def row(self, job: UUID) -> JobRecord:
        row = await self.memory.get(job)
        assert row is not None
        return row

    async def state(self, job: UUID) -> State:
        return (await self.row(job)).state

    async def end_reason(self) -> LeaseEnd | None:
        """Return why the worker's lease has ended: a second `end_lease` returns the first reason."""
        placeholder = LeaseEnd(RescueReason.EXPIRED, "not ended yet")
        reason = await self.memory.end_lease(LEASE.id, placeholder)
        return None if reason == placeholder else reason

    def received(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.far.received() if isinstance(message, kind)]


async def passing(seconds: float) -> None:
    await LoopClock().sleep(seconds)


async def quick() -> str:
    return "done"


# starting


@pytest.mark.virtual_time
async def test_a_worker_introduces_itself_first_and_touches_the_store_only_with_a_lease() -> None:
    office = Office(quick, stubborn, options=structs.replace(OPTIONS, queues=("a",)))
    hello = await office.far.hear(messages.WorkerHello)
    declared, size = Declared(named=("default",)), OPTIONS.concurrency
    assert hello == messages.WorkerHello(SETTINGS, ("quick", "stubborn"), ("a",), ("no /proc",), size, True, declared=declared)
    await passing(100)
    assert office.store.calls == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("why", ["drained", "supervisor gone"])
async def test_a_worker_ends_when_it_is_drained_or_orphaned_before_it_has_a_lease(why: str) -> None:
    office = Office(quick)
    if why == "drained":
        office.far.say(messages.Drain(10.0))
    else:
        office.far.close()
    await office.running
    assert office.store.calls == []


@pytest.mark.virtual_time
async def test_a_worker_claims_and_runs_due_jobs_at_once() -> None:
    office = Office(quick)
    (job,) = await office.enqueue("quick")
    ready = office.clock.monotonic()
    await office.open()
    await passing(0.1)
    row = await office.row(job)
    assert (row.state, row.result, row.worker) == (State.COMPLETED, b'"done"', LEASE.worker)
    assert office.cell.code_running == [True, False]
    assert office.clock.monotonic() - ready < 0.2


# how a worker learns of jobs


@pytest.mark.virtual_time
async def test_l6_without_any_hint_work_starts_within_one_poll() -> None:
    office = Office(quick)
    await office.open()
    beside(office.keep_beating())
    await passing(33.3)
    (job,) = await office.enqueue("quick")
    await passing(POLL + 0.01)
    assert await office.state(job) is State.COMPLETED


@pytest.mark.virtual_time
@pytest.mark.parametrize(("hint", "wakes"), [(Hint("a"), True), (Hint(), True), (Hint("b"), False)])
async def test_a_hint_wakes_the_worker_at_once_unless_its_queue_is_not_served(hint: Hint, wakes: bool) -> None:
    office = Office(define(quick, queue="a"), options=structs.replace(OPTIONS, queues=("a",)))
    await office.open()
    await passing(10.01 * POLL)
    office.store.calls.clear()
    await office.transport.publish([hint])
    await passing(0.001)
    assert ("exchange" in office.store.calls) is wakes


@pytest.mark.virtual_time
async def test_a_hint_that_names_a_running_job_makes_the_worker_look_for_a_cancellation_at_once() -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    await passing(10.01 * POLL)
    await office.memory.request_cancel([job])
    await office.transport.publish([Hint(ids=(job,))])
    await passing(0.01)
    assert await office.state(job) is State.CANCELLED


@pytest.mark.virtual_time
async def test_an_idle_worker_asks_the_store_little() -> None:
    office = Office(quick)
    await office.open()
    beside(office.keep_beating())
    await passing(10)
    office.store.calls.clear()
    await passing(60)
    assert office.store.calls.count("next_due") == pytest.approx(60 / POLL, abs=60 / TIMING.beat)
    assert "exchange" not in office.store.calls
    assert office.store.calls.count("held") == pytest.approx(60 / TIMING.beat, abs=1)
    assert "report" not in office.store.calls


@pytest.mark.virtual_time
async def test_a_pong_reports_whether_the_worker_is_idle_what_it_holds_and_when_the_store_last_answered() -> None:
    async def brief() -> None:
        await passing(5)

    office = Office(forever, brief)
    await office.open()
    await passing(5.5)
    office.far.say(messages.Ping())
    pong = await office.far.hear(messages.Pong)
    assert (pong.is_idle, pong.running, pong.claimed) == (True, 0, 0)
    assert office.clock.monotonic() - pong.answered <= POLL
    await office.enqueue("forever", "brief")
    await passing(2)
    office.store.is_out = True
    await passing(10)
    office.far.say(messages.Ping())
    pong = await office.far.hear(messages.Pong)
    assert (pong.is_idle, pong.running, pong.claimed) == (False, 1, 1)
    assert office.clock.monotonic() - pong.answered >= 10


# slots


async def test_s12_threads_fill_their_slots_other_handlers_the_rest_and_never_more_is_claimed() -> None:
    held, taken = Held(), list[int]()

    def blocking() -> None:
        held.wait(30)

    office = Office(blocking, forever, options=WorkerOptions(concurrency=5, threads=2))
    exchange = office.memory.exchange

    async def counted(*arguments: Any) -> Any:
        answer = await exchange(*arguments)
        taken.append(len(await office.memory.held(LEASE.id)))
        return answer

    office.memory.exchange = counted  # type: ignore[method-assign]
    await office.enqueue(*["blocking"] * 10, *["forever"] * 10)
    await office.open()
    await until(lambda: len(office.worker.executor.running) == 5)
    await turns(100)
    assert office.worker.executor.count(RunnerKind.LOOP) == 3
    assert office.worker.executor.count(RunnerKind.THREAD) == 2
    assert max(taken) == 5
    held.set()
    await until(lambda: office.worker.executor.count(RunnerKind.THREAD) == 0)


# the deadline


@pytest.mark.virtual_time
async def test_s8_without_beats_a_worker_stops_its_code_at_the_deadline_and_releases_its_jobs_free() -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    await passing(USABLE - 0.1)
    assert await office.state(job) is State.RUNNING
    await passing(0.2)
    row = await office.row(job)
    assert (row.state, row.crashes, row.failures) == (State.AVAILABLE, 0, 0)
    assert row.attempts[0].outcome is AttemptOutcome.RELEASED
    assert office.cell.code_running == [True, False]
    assert office.log.of("lease.deadline_passed") == [{"running": 1}]
    await passing(100)
    assert office.worker.executor.running == {}, "nothing is started past the deadline"


@pytest.mark.virtual_time
async def test_a_renewed_lease_resumes_work() -> None:
    office = Office(forever)
    await office.enqueue("forever")
    await office.open()
    await passing(3 * TIMING.ttl)
    assert office.worker.executor.running == {}
    await office.beat()
    await passing(POLL)
    assert len(office.worker.executor.running) == 1


@pytest.mark.virtual_time
async def test_beats_keep_a_long_job_running_indefinitely() -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    beside(office.keep_beating())
    await passing(1000)
    assert await office.state(job) is State.RUNNING
    assert (await office.row(job)).attempt == 1


@pytest.mark.virtual_time
async def test_l8_outcomes_of_an_outage_go_to_the_supervisor_at_once_and_are_settled_after_it() -> None:
    async def slow() -> str:
        await passing(5)
        return "done"

    office = Office(slow)
    (job,) = await office.enqueue("slow")
    await office.open()
    await passing(1)
    office.store.is_out = True
    backup = await office.far.hear(messages.UndeliveredOutcomes)
    assert 5 <= office.clock.monotonic() - 1000.0 < 5 + TIMING.beat / 2
    assert [(each.job, each.result) for each in backup.transitions] == [(job, b'"done"')]
    await passing(2 * TIMING.ttl)
    assert await office.state(job) is State.RUNNING
    office.store.is_out = False
    await passing(TIMING.beat)
    row = await office.row(job)
    assert (row.state, row.result) == (State.COMPLETED, b'"done"')
    await passing(TIMING.beat)
    assert office.received(messages.UndeliveredOutcomes)[-1].transitions == ()


@pytest.mark.virtual_time
async def test_l8_an_outcome_that_the_store_never_answers_goes_to_the_supervisor_while_other_calls_succeed() -> None:
    async def slow() -> None:
        await passing(1)

    office = Office(slow)
    (job,) = await office.enqueue("slow")
    await office.open()
    beside(office.keep_beating())
    await passing(0.5)
    office.store.fail("exchange", times=100)
    backup = await office.far.hear(messages.UndeliveredOutcomes)
    assert [each.job for each in backup.transitions] == [job]
    assert office.clock.monotonic() - office.worker.lease.answered < TIMING.beat + 1


@pytest.mark.virtual_time
async def test_l5_a_worker_whose_lease_is_lost_stops_at_once_keeps_late_results_and_ends() -> None:
    async def slow() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "late"
        return ""

    office = Office(slow, forever)
    late, cut = await office.enqueue("slow", "forever")
    await office.open()
    await passing(1)
    why = LeaseEnd(RescueReason.EXPIRED)
    await office.memory.end_lease(LEASE.id, why)
    await office.memory.exchange([rescue(active, why, jitter=0.0) for active in await office.memory.held(LEASE.id)])
    informed = office.clock.monotonic()
    office.far.say(messages.LeaseLost())
    await office.running
    assert office.clock.monotonic() - informed < 0.5
    assert [await office.state(job) for job in (late, cut)] == [State.AVAILABLE, State.AVAILABLE]
    assert (await office.row(late)).attempts[0].late_result == b'"late"'
    assert (await office.row(cut)).attempts[0].late_result is None
    assert office.log.of("lease.lost") == [{"running": 2}]
    assert "end_lease" not in office.store.calls
    assert office.transport.is_closed


# without a supervisor


@pytest.mark.virtual_time
async def test_an_orphan_stops_its_code_releases_its_jobs_and_ends_its_own_lease() -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    await passing(1)
    office.far.close()
    closed = office.clock.monotonic()
    await office.running
    assert office.clock.monotonic() - closed < 0.5
    row = await office.row(job)
    assert (row.state, row.crashes) == (State.AVAILABLE, 0)
    assert await office.end_reason() == LeaseEnd(RescueReason.CLOSED, is_free=True)


@pytest.mark.virtual_time
async def test_an_orphan_whose_code_does_not_stop_ends_at_its_deadline_and_lets_its_lease_expire() -> None:
    office = Office(stubborn)
    await office.enqueue("stubborn")
    await office.open()
    opened = office.clock.monotonic()
    await passing(1)
    office.far.close()
    await office.running
    assert USABLE - 1 <= office.clock.monotonic() - opened <= USABLE + 0.1
    assert await office.end_reason() is None


# drain


@pytest.mark.virtual_time
async def test_l7_a_drained_worker_claims_nothing_more_lets_its_jobs_end_and_ends_its_lease() -> None:
    async def slow() -> str:
        await passing(10)
        return "done"

    office = Office(slow, options=structs.replace(OPTIONS, concurrency=1))
    first, second = await office.enqueue("slow", "slow")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    office.far.say(messages.Drain(20.0))
    await office.running
    assert office.clock.monotonic() - 1000.0 < 10.5
    assert [await office.state(job) for job in (first, second)] == [State.COMPLETED, State.AVAILABLE]
    assert (await office.row(second)).attempt == 0
    assert await office.end_reason() == LeaseEnd(RescueReason.CLOSED, is_free=True)
    (drained,) = office.log.of("worker.drained")
    assert (drained["jobs"], drained["left"]) == (0, [])


@pytest.mark.virtual_time
async def test_l7_a_long_job_can_see_that_its_worker_drains() -> None:
    async def going_on(job: Job) -> str:
        while not job._is_draining:
            await passing(1)
        return "ended"

    office = Office(going_on)
    (job,) = await office.enqueue("going_on")
    await office.open()
    beside(office.keep_beating())
    await passing(10)
    assert await office.state(job) is State.RUNNING
    office.far.say(messages.Drain(20.0))
    asked = office.clock.monotonic()
    await office.running
    assert office.clock.monotonic() - asked < 2
    assert (await office.row(job)).result == b'"ended"'


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_cut_short", [False, True])
async def test_l7_jobs_that_outlast_the_grace_are_stopped_and_released_free(is_cut_short: bool) -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    asked = office.clock.monotonic()
    office.far.say(messages.Drain(20.0))
    if is_cut_short:
        await passing(3)
        office.far.say(messages.Drain(0.0))
    await office.running
    assert office.clock.monotonic() - asked == pytest.approx(3 if is_cut_short else 20, abs=0.5)
    row = await office.row(job)
    assert (row.state, row.crashes, row.failures) == (State.AVAILABLE, 0, 0)
    assert office.log.of("worker.drained") == [{"worker": row.attempts[0].worker, "jobs": 1, "left": [str(job)]}]


@pytest.mark.virtual_time
async def test_l7_a_drain_does_not_interrupt_the_cleanup_of_a_handler() -> None:
    cleaned = list[str]()

    async def careful() -> None:
        try:
            await forever()
        finally:
            await passing(3)
            cleaned.append("all")

    office = Office(careful)
    await office.enqueue("careful")
    await office.open()
    await passing(1)
    office.far.say(messages.Drain(0.0))
    await office.running
    assert cleaned == ["all"]


@pytest.mark.virtual_time
async def test_l9_a_drain_during_an_outage_does_not_hammer_the_store() -> None:
    async def slow() -> None:
        await passing(2)

    office = Office(slow)
    (job,) = await office.enqueue("slow")
    await office.open()
    await passing(1)
    office.store.is_out = True
    office.far.say(messages.Drain(20.0))
    await passing(5)
    office.store.calls.clear()
    await passing(30)
    assert len(office.store.calls) <= 80
    office.store.is_out = False
    await office.running
    assert await office.state(job) is State.COMPLETED


# cancelling


@pytest.mark.virtual_time
async def test_a_cancelled_job_is_stopped_and_ends_cancelled() -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    await passing(1)
    await office.memory.request_cancel([job])
    office.far.say(messages.CancelJobs((job,)))
    await passing(0.1)
    assert await office.state(job) is State.CANCELLED


@pytest.mark.virtual_time
async def test_a_cancellation_without_a_message_is_found_by_the_audit_of_the_next_beat() -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    await office.memory.request_cancel([job])
    await passing(TIMING.beat + 0.1)
    assert await office.state(job) is State.CANCELLED


@pytest.mark.virtual_time
async def test_s9_code_that_ignores_its_cancellation_is_reported_after_the_grace() -> None:
    office = Office(stubborn, forever)
    ignoring, _ = await office.enqueue("stubborn", "forever")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    await office.memory.request_cancel([ignoring])
    office.far.say(messages.CancelJobs((ignoring,)))
    await passing(SETTINGS.grace - 1)
    assert office.received(messages.CodeUnresponsive) == []
    await passing(TIMING.beat + 2)
    assert office.received(messages.CodeUnresponsive)[-1].jobs == (ignoring,)


@pytest.mark.virtual_time
async def test_code_that_does_not_stop_in_a_drain_or_past_the_deadline_is_not_reported() -> None:
    office = Office(stubborn)
    await office.enqueue("stubborn")
    await office.open()
    await passing(3 * TIMING.ttl)
    office.far.say(messages.Drain(0.0))
    await passing(3 * SETTINGS.grace)
    assert office.received(messages.CodeUnresponsive) == []


# lost


@pytest.mark.virtual_time
async def test_s3_a_report_that_is_refused_cancels_the_handler_and_its_next_call_raises_job_lost() -> None:
    raised = list[str]()

    async def saving(job: Job) -> None:
        for number in range(1000):
            try:
                await job.checkpoint(number)
                await passing(1)
            except BaseException as error:
                raised.append(type(error).__name__)
                if isinstance(error, JobLost):
                    raise

    office = Office(saving)
    (job,) = await office.enqueue("saving")
    await office.open()
    await passing(1.5)
    assert (await office.row(job)).checkpoint == b"1"
    why = LeaseEnd(RescueReason.EXPIRED)
    await office.memory.end_lease(LEASE.id, why)
    await office.memory.exchange([rescue(active, why, jitter=0.0) for active in await office.memory.held(LEASE.id)])
    await passing(1.5)
    assert raised == ["CancelledError", "JobLost"]
    assert (await office.row(job)).checkpoint == b"1"
    assert [fields["job"] for fields in office.log.of("job.lost")] == [job]


@pytest.mark.virtual_time
async def test_l2_an_outage_of_any_length_ends_no_service_of_the_worker() -> None:
    office = Office(quick)
    await office.open()
    office.store.is_out = True
    await passing(300)
    office.store.is_out = False
    (job,) = await office.enqueue("quick")
    await office.beat()
    await passing(TIMING.beat)
    assert await office.state(job) is State.COMPLETED
    assert not office.running.done()


# threads


async def test_s8_the_lease_of_a_draining_worker_is_not_ended_while_a_thread_still_runs() -> None:
    held, seen = Held(), list[bool]()

    def blocking(job: SyncJob) -> None:
        held.wait_here()
        seen.append(job.is_cancelled)

    office = Office(blocking)
    (job,) = await office.enqueue("blocking")
    await office.open()
    await until(held.come.is_set)
    office.far.say(messages.Drain(0.0))
    await until(lambda: office.worker.executor.running[job].stop is not None)
    await turns(100)
    assert not office.running.done()
    assert "end_lease" not in office.store.calls
    assert await office.state(job) is State.RUNNING
    held.set()
    await office.running
    assert seen == [True]
    assert await office.state(job) is State.AVAILABLE


@pytest.mark.virtual_time
async def test_a_worker_logs_where_coroutines_wait_when_asked_for_its_stacks(caplog: pytest.LogCaptureFixture) -> None:
    office = Office(forever)
    (job,) = await office.enqueue("forever")
    await office.open()
    await passing(1)
    office.far.say(messages.DumpStacks())
    await passing(1)
    assert f"stacks of job {job} (forever)" in caplog.text
    assert "in forever" in caplog.text


@pytest.mark.virtual_time
async def test_a_kind_with_few_slots_does_not_keep_claims_of_the_others_small() -> None:
    asked = list[int]()
    office = Office(quick, define(stubborn_thread, name="rare"), options=structs.replace(OPTIONS, concurrency=100))
    exchange = office.memory.exchange

    async def counted(transitions: Any, request: Any = None) -> Any:
        asked.append(0 if request is None else request.limit)
        return await exchange(transitions, request)

    office.memory.exchange = counted  # type: ignore[method-assign]
    await office.enqueue(*["quick"] * 300)
    await office.open()
    await passing(5)
    assert (await office.memory.counts())["", State.COMPLETED] == 300
    assert max(asked) > 90
    assert asked.count(2) < 12


@pytest.mark.virtual_time
async def test_jobs_of_the_kind_that_was_left_out_do_not_wait_for_the_next_poll() -> None:
    office = Office(forever, define(stubborn_thread, name="rare"), options=structs.replace(OPTIONS, concurrency=100))
    started = list[UUID]()
    office.worker.threads.add = hung(office, started)  # type: ignore[method-assign]
    await office.open()
    await passing(2.5 * POLL)  # Neither near its first polls nor near a beat.
    first, _, late = await office.enqueue("rare", "forever", "rare")
    await passing(POLL)
    assert started == [first, late]


def hung(office: Office, started: list[UUID]) -> Any:
    """Return what takes work for threads and never begins it."""

    def add(work: Any) -> None:
        running = office.worker.executor.running
        asyncio.get_running_loop().call_later(1e6, work.ended, (None, None))
        started.extend(job for job, each in running.items() if each.kind is RunnerKind.THREAD and job not in started)

    return add


def stubborn_thread() -> None: ...

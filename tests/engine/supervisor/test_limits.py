"""Progress and hard limits: the supervisor of the owner judges them first, other supervisors much later."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, NewJob, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import ProgressUpdate
from holdfast._engine import messages
from holdfast._engine.supervisor.limits import Limits, TimedAttempt
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast.testing.clock import FakeClock
from proof.stores.locked_rows import LockedRows
from tests.engine.supervisor.test_recovery import Site
from tests.engine.supervisor.test_worker_handle import GRACE, KILLED, WatchedWorker, watching
from tests.engine.support import LEASE, SETTINGS, TIMING, forever, stubborn
from tests.engine.worker.test_worker import Office, passing
from tests.event_loops import beside

JOB, TOKEN = UUID(int=5), Token(UUID(int=6), 7)
WITHIN = 60.0


class Clocks:
    """The limits of one worker and the clock that they read."""

    def __init__(self, progress_within: float | None = None, timeout: float | None = None) -> None:
        self.clock = FakeClock()
        self.limits = Limits(self.clock.monotonic)
        now = self.clock.monotonic()
        self.limits.begin(JOB, TimedAttempt(TOKEN, progress_within, timeout, now, now))

    def after(self, seconds: float) -> list[tuple[UUID, Token, RescueReason]]:
        self.clock.advance(seconds)
        return self.limits.exceeded(self.clock.monotonic())


# the two clocks


def test_a_long_job_that_reports_progress_never_stalls() -> None:
    clocks = Clocks(progress_within=WITHIN)
    for _ in range(1000):
        assert clocks.after(WITHIN) == []
        clocks.limits.move(JOB, clocks.clock.monotonic())


def test_a_job_that_does_not_move_in_time_has_stalled_and_is_named_once() -> None:
    clocks = Clocks(progress_within=WITHIN)
    assert clocks.after(WITHIN) == []
    assert clocks.after(0.1) == [(JOB, TOKEN, RescueReason.STALLED)]
    assert clocks.after(WITHIN) == []


def test_s8_a_job_that_waits_for_a_runner_does_not_stall_and_each_wait_is_reported() -> None:
    clocks = Clocks()
    clocks.limits.wait(JOB, TOKEN, WITHIN)
    for _ in range(3):
        assert clocks.after(10 * WITHIN) == []
        assert clocks.limits.paused() == [(JOB, TOKEN)]
        clocks.limits.acknowledge([JOB])
    now = clocks.clock.monotonic()
    clocks.limits.begin(JOB, TimedAttempt(TOKEN, WITHIN, None, now, now))
    assert clocks.limits.paused() == []
    assert clocks.after(WITHIN + 0.1) == [(JOB, TOKEN, RescueReason.STALLED)]


def test_progress_does_not_renew_the_hard_limit() -> None:
    clocks = Clocks(timeout=WITHIN)
    clocks.after(WITHIN / 2)
    clocks.limits.move(JOB, clocks.clock.monotonic())
    assert clocks.after(WITHIN / 2 + 0.1) == [(JOB, TOKEN, RescueReason.TIMED_OUT)]


def test_late_progress_counts_from_when_it_was_reported() -> None:
    clocks = Clocks(progress_within=WITHIN)
    sent_at = clocks.clock.monotonic() + 10
    clocks.after(40)
    clocks.limits.move(JOB, sent_at)
    assert clocks.after(30) == []
    assert clocks.after(0.1) == [(JOB, TOKEN, RescueReason.STALLED)]


def test_the_progress_clock_pauses_and_the_hard_limit_does_not() -> None:
    clocks = Clocks(progress_within=WITHIN)
    clocks.clock.advance(10 * WITHIN)
    clocks.limits.pause(10 * WITHIN)
    assert clocks.limits.exceeded(clocks.clock.monotonic()) == []
    assert clocks.after(WITHIN + 0.1) == [(JOB, TOKEN, RescueReason.STALLED)]
    hard = Clocks(timeout=WITHIN)
    hard.clock.advance(WITHIN + 0.1)
    hard.limits.pause(WITHIN)
    assert hard.limits.exceeded(hard.clock.monotonic()) == [(JOB, TOKEN, RescueReason.TIMED_OUT)]


def test_the_end_of_an_earlier_attempt_does_not_end_the_limits_of_this_one() -> None:
    clocks = Clocks(progress_within=WITHIN)
    clocks.limits.end(JOB, Token(UUID(int=6), 6))
    assert clocks.after(WITHIN + 1) != []
    clocks.limits.end(JOB, TOKEN)
    assert clocks.limits.unresponsive(0.0) == {}


# what the supervisor does


def limited(watched: WatchedWorker, progress_within: float | None = None, timeout: float | None = None) -> None:
    watched.handle.handle(messages.AttemptStarted(JOB, TOKEN, watched.clock.monotonic(), progress_within, timeout))


def requested(watched: WatchedWorker) -> list[messages.DeadlineExceeded]:
    return [message for message in watched.sent if isinstance(message, messages.DeadlineExceeded)]


async def test_a_worker_that_sees_a_limit_pass_need_not_wait_for_the_next_watch() -> None:
    watched = WatchedWorker()
    limited(watched, timeout=WITHIN)
    watched.clock.advance(WITHIN)
    watched.handle.handle(messages.AttemptOverdue())
    assert watched.log.of("job.deadline_exceeded") == []
    watched.clock.advance(0.001)
    watched.handle.handle(messages.AttemptOverdue())
    watched.handle.handle(messages.AttemptOverdue())
    sent = [each for each in watched.child.far.received() if isinstance(each, messages.DeadlineExceeded)]
    assert [each.job for each in sent] == [JOB]
    assert len(watched.log.of("job.deadline_exceeded")) == 1


def test_a_stalled_job_is_cancelled_first_and_its_worker_lives_on_if_it_stops() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, progress_within=WITHIN)
        watched.passes(WITHIN + 4)
        assert requested(watched) == [messages.DeadlineExceeded(JOB, TOKEN, RescueReason.STALLED)]
        watched.handle.handle(messages.AttemptStopped(JOB, TOKEN))
        watched.passes(10 * GRACE)
        assert (watched.child.kills, watched.drains) == (0, [])
        assert watched.log.of("job.deadline_exceeded") == [{"job": JOB, "worker": LEASE.worker, "reason": "stalled"}]

    watching(test)


def test_s9_progress_that_waits_in_a_blocked_worker_saves_its_job() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, progress_within=WITHIN)
        moved = watched.clock.monotonic() + WITHIN - 1
        watched.passes(WITHIN - 2)
        watched.answers_pings = False  # the event loop is blocked between two beats, and the report waits in it
        watched.passes(TIMING.beat)
        watched.handle.handle(messages.Pong(watched.answered))
        watched.answers_pings = True
        watched.look()
        watched.handle.handle(messages.AttemptProgressed(JOB, moved))
        watched.passes(TIMING.beat)
        assert requested(watched) == []
        watched.passes(WITHIN)
        assert requested(watched) == [messages.DeadlineExceeded(JOB, TOKEN, RescueReason.STALLED)]

    watching(test)


def test_s9_a_worker_whose_code_does_not_stop_is_killed_after_the_grace_and_only_that_job_pays() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, timeout=WITHIN)
        watched.passes(WITHIN + GRACE)
        assert watched.drains == []
        watched.passes(3)
        assert watched.drains == [GRACE]
        watched.passes(GRACE + TIMING.margin + 1)
        assert watched.child.kills == 1
        end = watched.handle.lease_end(KILLED)
        stacks = watched.child.dump_stacks()
        assert end == LeaseEnd(
            RescueReason.CRASHED, "SIGKILL", is_free=True, charged_jobs={JOB: RescueReason.TIMED_OUT}, stacks=stacks
        )

    watching(test)


def test_l8_an_outage_of_the_store_does_not_count_as_a_stall() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, progress_within=WITHIN)
        watched.store_answers_supervisor = False
        watched.passes(10 * WITHIN)
        watched.store_answers_supervisor = True
        watched.passes(WITHIN - 5)
        assert requested(watched) == []

    watching(test)


def test_the_job_of_a_worker_that_cannot_report_is_not_taken_for_stalled() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, progress_within=WITHIN)
        watched.answers_pings = False
        watched.passes(4 * WITHIN)
        assert requested(watched) == []

    watching(test)


def test_a_blocked_loop_does_not_stretch_the_hard_limit() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, timeout=WITHIN)
        watched.answers_pings = False
        watched.passes(WITHIN + 2 * GRACE + TIMING.margin + 5)
        assert watched.child.kills == 1
        assert watched.handle.lease_end(KILLED).charged_jobs == {JOB: RescueReason.TIMED_OUT}

    watching(test)


def test_time_in_which_the_supervisor_was_frozen_does_not_count_as_a_stall() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, progress_within=WITHIN)
        watched.passes(10)
        watched.clock.advance(10 * WITHIN)
        watched.passes(WITHIN - 15)
        assert requested(watched) == []

    watching(test)


def test_s8_code_is_killed_before_others_may_judge_it_also_when_its_supervisor_was_frozen() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, timeout=WITHIN)
        watched.answers_pings = False
        watched.clock.advance(WITHIN + TIMING.ttl)  # the supervisor was frozen when the limit passed
        watched.passes(GRACE - TIMING.margin + 1)
        assert watched.child.kills == 1
        end = watched.handle.lease_end(KILLED)
        assert (end.charged_jobs, end.is_free) == ({JOB: RescueReason.TIMED_OUT}, True)

    watching(test)


def test_s8_the_guard_ends_code_past_its_limit_in_time_when_the_supervisor_dies() -> None:
    def test(watched: WatchedWorker) -> None:
        limited(watched, timeout=WITHIN)
        started = watched.clock.monotonic()
        watched.passes(WITHIN + GRACE + 1)
        latest = started + WITHIN + TIMING.ttl + LEASE.grace - TIMING.margin
        watched.handle.lease_renewed(watched.clock.monotonic())
        assert watched.child.deadlines[-1] == latest
        watched.handle.handle(messages.AttemptStopped(JOB, TOKEN))
        watched.handle.lease_renewed(watched.clock.monotonic())
        assert watched.child.deadlines[-1] == TIMING.guard_deadline(watched.clock.monotonic())

    watching(test)


def test_s8_a_paused_progress_clock_is_reported_once() -> None:
    clocks = Clocks(progress_within=WITHIN)
    assert clocks.limits.paused() == []
    clocks.limits.pause(1.0)
    assert clocks.limits.paused() == [(JOB, TOKEN)]
    clocks.limits.acknowledge([JOB, UUID(int=99)])
    assert clocks.limits.paused() == []
    hard = Clocks(timeout=WITHIN)
    hard.limits.pause(1.0)
    assert hard.limits.paused() == []


# what the worker does


def limited_task(function: Callable[..., Any] = forever, **limits: Any) -> TaskDefinition:
    return define(function, name="limited", **limits)


@pytest.mark.virtual_time
async def test_only_the_start_and_the_end_of_limited_code_are_reported() -> None:
    office = Office(limited_task(timeout="60s"), forever)
    job, _ = await office.enqueue("limited", "forever")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    (started,) = office.received(messages.AttemptStarted)
    assert (started.job, started.progress_within, started.timeout) == (job, None, 60.0)
    office.far.say(messages.DeadlineExceeded(job, started.token, RescueReason.TIMED_OUT))
    await passing(1)
    assert [message.job for message in office.received(messages.AttemptStopped)] == [job]
    row = await office.row(job)
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 1, 0)
    (record,) = row.attempts
    assert record.outcome is AttemptOutcome.TIMED_OUT
    assert "forever" in (record.stacks or "")


@pytest.mark.virtual_time
async def test_the_last_attempt_that_stalls_ends_the_job_for_that_reason() -> None:
    office = Office(limited_task(progress_within="60s", max_attempts=1))
    (job,) = await office.enqueue("limited")
    await office.open()
    await passing(1)
    (started,) = office.received(messages.AttemptStarted)
    office.far.say(messages.DeadlineExceeded(job, started.token, RescueReason.STALLED))
    await passing(1)
    row = await office.row(job)
    assert (row.state, row.reason) == (State.FAILED, Reason.STALLED)


@pytest.mark.virtual_time
async def test_s3_a_limit_that_an_earlier_attempt_passed_does_not_stop_this_one() -> None:
    office = Office(limited_task(progress_within="60s"))
    (job,) = await office.enqueue("limited")
    await office.open()
    await passing(1)
    office.far.say(messages.DeadlineExceeded(job, Token(UUID(int=1), 0), RescueReason.STALLED))
    await passing(1)
    assert await office.state(job) is State.RUNNING


@pytest.mark.virtual_time
async def test_progress_reaches_the_supervisor_while_the_store_is_away_but_at_a_limited_rate() -> None:
    async def reports_often(job: Job) -> None:
        while True:
            for _ in range(100):
                await job.alive()
            await passing(1)

    office = Office(define(reports_often, progress_within="60s"))
    await office.enqueue("reports_often")
    await office.open()
    beside(office.keep_beating())
    await passing(0.5)
    office.store.is_out = True
    office.received(messages.AttemptProgressed)
    await passing(30)
    assert 5 <= len(office.received(messages.AttemptProgressed)) <= 16


@pytest.mark.virtual_time
async def test_a_worker_waits_for_code_that_ignores_its_limit_and_keeps_its_outcome() -> None:
    office = Office(limited_task(stubborn, timeout="60s"))
    (job,) = await office.enqueue("limited")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    (started,) = office.received(messages.AttemptStarted)
    office.far.say(messages.DeadlineExceeded(job, started.token, RescueReason.TIMED_OUT))
    await passing(SETTINGS.grace)
    assert office.received(messages.AttemptStopped) == []
    assert await office.state(job) is State.RUNNING


# what other supervisors do

LIMITED = Policy(progress_within=WITHIN, timeout=10 * WITHIN)
LATER = WITHIN + TIMING.ttl + LEASE.grace


async def renewed(site: Site, seconds: float) -> None:
    """Let time pass, in which the lease is renewed."""
    remaining = seconds
    while remaining > 0:
        await site.memory.beat([LEASE.id])
        await site.in_contact(min(TIMING.beat, remaining))
        remaining -= TIMING.beat
    await site.memory.beat([LEASE.id])


async def test_s5_others_leave_a_stalled_job_to_its_owner_until_ttl_and_grace_have_passed() -> None:
    site = Site()
    (job,) = await site.claim(1, policy=LIMITED)
    await renewed(site, LATER - 1)
    assert await site.recovery.step() == []
    await renewed(site, 2)
    assert await site.recovery.step() == []
    await renewed(site, TIMING.beat + TIMING.margin)
    (rescued,) = await site.recovery.step()
    assert (rescued.id, rescued.reason, rescued.worker) == (job, "stalled", LEASE.worker)
    row = await site.row(job)
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 1, 0)
    assert row.attempts[0].outcome is AttemptOutcome.STALLED


async def test_s5_a_supervisor_does_not_judge_limits_in_its_workers_by_the_record() -> None:
    site = Site()
    await site.claim(1, policy=LIMITED)
    site.own.add(LEASE.id)
    await renewed(site, 2 * LATER)
    assert await site.recovery.step() == []


async def test_l8_no_limit_is_judged_right_after_an_outage() -> None:
    site = Site()
    (job,) = await site.claim(1, policy=LIMITED)
    site.clock.advance(2 * LATER)
    await site.memory.beat([LEASE.id])
    site.contact.lost()
    assert await site.recovery.step() == []
    await renewed(site, TIMING.beat + TIMING.margin + 1)
    assert [each.id for each in await site.recovery.step()] == [job]


async def test_l8_a_job_whose_row_was_locked_is_left_to_its_owner_until_it_had_time_to_settle() -> None:
    site = Site()
    book = LockedRows()
    site.memory.book = book
    (job,) = await site.claim(1, policy=LIMITED)
    unlock = book.lock([job], is_exclusive=False)
    await renewed(site, LATER + 1)
    assert await site.recovery.step() == []
    await renewed(site, TIMING.beat + TIMING.margin)
    unlock()
    assert await site.recovery.step() == []
    await renewed(site, TIMING.beat)
    unlock = book.lock([job], is_exclusive=False)  # locked again, so the owner gets the whole time again
    assert await site.recovery.step() == []
    unlock()
    assert await site.recovery.step() == []
    await renewed(site, TIMING.beat + TIMING.margin - 1)
    assert await site.recovery.step() == []
    await renewed(site, 1)
    assert [each.id for each in await site.recovery.step()] == [job]


async def test_s5_progress_that_arrives_between_the_read_and_the_write_saves_the_job() -> None:
    site = Site()
    (job,) = await site.claim(1, policy=LIMITED)
    await renewed(site, LATER + 1)
    assert await site.recovery.step() == []
    await renewed(site, TIMING.beat + TIMING.margin)
    gate = site.store.hold("exchange")
    step = asyncio.ensure_future(site.recovery.step())
    await gate.entered.wait()
    row = await site.row(job)
    await site.memory.report([ProgressUpdate(job=job, token=row.token, fraction=0.5)])
    gate.opened.set()
    assert await step == []
    assert (await site.row(job)).state is State.RUNNING


async def test_a_job_that_no_worker_started_in_time_fails_and_is_reported() -> None:
    site = Site()
    soon = NewJob(id=site.chance.uuid7(), task="t", payload=b"{}", policy=Policy())
    late = structs.replace(soon, id=site.chance.uuid7(), expires_in=5.0)
    await site.memory.enqueue(site.chance.uuid4(), [late, soon])
    site.clock.advance(5.1)
    assert await site.recovery.expire() == 1
    row = await site.row(late.id)
    assert (row.state, row.reason) == (State.FAILED, Reason.EXPIRED)
    assert site.log.of("job.expired") == [{"job": late.id, "task": "t"}]

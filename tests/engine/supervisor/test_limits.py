"""Progress and hard limits: judged by the owner's supervisor first, by anybody else much later."""

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
from tests.engine.supervisor.test_worker_handle import GRACE, KILLED, Watch, watching
from tests.engine.support import LEASE, SETTINGS, TIMING, forever, stubborn
from tests.engine.worker.test_worker import Office, passing
from tests.event_loops import beside

JOB, TOKEN = UUID(int=5), Token(UUID(int=6), 7)
WITHIN = 60.0


class Clocks:
    """The limits of one worker."""

    def __init__(self, progress_within: float | None = None, timeout: float | None = None) -> None:
        self.clock = FakeClock()
        self.limits = Limits(self.clock.monotonic)
        now = self.clock.monotonic()
        self.limits.begin(JOB, TimedAttempt(TOKEN, progress_within, timeout, now, now))

    def after(self, seconds: float) -> list[tuple[UUID, Token, RescueReason]]:
        self.clock.advance(seconds)
        return self.limits.exceeded()


# the two clocks


def test_a_job_that_moves_never_stalls_however_long_it_takes() -> None:
    clocks = Clocks(progress_within=WITHIN)
    for _ in range(1000):
        assert clocks.after(WITHIN) == []
        clocks.limits.move(JOB, clocks.clock.monotonic())


def test_a_job_that_does_not_move_in_time_has_stalled_and_is_named_once() -> None:
    clocks = Clocks(progress_within=WITHIN)
    assert clocks.after(WITHIN) == []
    assert clocks.after(0.1) == [(JOB, TOKEN, RescueReason.STALLED)]
    assert clocks.after(WITHIN) == []


def test_s8_a_job_that_waits_for_a_runner_does_not_stall_and_others_are_told_so_each_time() -> None:
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


def test_a_late_word_counts_from_when_it_was_said() -> None:
    clocks = Clocks(progress_within=WITHIN)
    said = clocks.clock.monotonic() + 10
    clocks.after(40)
    clocks.limits.move(JOB, said)
    assert clocks.after(30) == []
    assert clocks.after(0.1) == [(JOB, TOKEN, RescueReason.STALLED)]


def test_the_progress_clock_stands_and_the_hard_limit_does_not() -> None:
    clocks = Clocks(progress_within=WITHIN)
    clocks.clock.advance(10 * WITHIN)
    clocks.limits.pause(10 * WITHIN)
    assert clocks.limits.exceeded() == []
    assert clocks.after(WITHIN + 0.1) == [(JOB, TOKEN, RescueReason.STALLED)]
    hard = Clocks(timeout=WITHIN)
    hard.clock.advance(WITHIN + 0.1)
    hard.limits.pause(WITHIN)
    assert hard.limits.exceeded() == [(JOB, TOKEN, RescueReason.TIMED_OUT)]


def test_the_end_of_an_earlier_attempt_does_not_end_the_watch_of_this_one() -> None:
    clocks = Clocks(progress_within=WITHIN)
    clocks.limits.end(JOB, Token(UUID(int=6), 6))
    assert clocks.after(WITHIN + 1) != []
    clocks.limits.end(JOB, TOKEN)
    assert clocks.limits.unresponsive(0.0) == {}


# what the supervisor does


def limited(watch: Watch, progress_within: float | None = None, timeout: float | None = None) -> None:
    watch.ward.handle(messages.AttemptStarted(JOB, TOKEN, watch.clock.monotonic(), progress_within, timeout))


def asked(watch: Watch) -> list[messages.DeadlineExceeded]:
    return [message for message in watch.said if isinstance(message, messages.DeadlineExceeded)]


def test_a_stalled_job_is_cancelled_first_and_its_worker_lives_on_if_it_stops() -> None:
    def test(watch: Watch) -> None:
        limited(watch, progress_within=WITHIN)
        watch.passes(WITHIN + 2)
        assert asked(watch) == [messages.DeadlineExceeded(JOB, TOKEN, RescueReason.STALLED)]
        watch.ward.handle(messages.AttemptStopped(JOB, TOKEN))
        watch.passes(10 * GRACE)
        assert (watch.child.kills, watch.drains) == (0, [])
        assert watch.log.of("job.deadline_exceeded") == [{"job": JOB, "worker": LEASE.worker, "reason": "stalled"}]

    watching(test)


def test_s9_code_that_does_not_stop_costs_its_worker_siblings_get_the_grace_and_only_it_pays() -> None:
    def test(watch: Watch) -> None:
        limited(watch, timeout=WITHIN)
        watch.passes(WITHIN + GRACE)
        assert watch.drains == []
        watch.passes(3)
        assert watch.drains == [GRACE]
        watch.passes(GRACE + TIMING.margin + 1)
        assert watch.child.kills == 1
        end = watch.ward.lease_end(KILLED)
        stacks = watch.child.dump_stacks()
        assert end == LeaseEnd(
            RescueReason.CRASHED, "SIGKILL", is_free=True, charged_jobs={JOB: RescueReason.TIMED_OUT}, stacks=stacks
        )

    watching(test)


def test_l8_an_outage_of_the_store_is_no_stall() -> None:
    def test(watch: Watch) -> None:
        limited(watch, progress_within=WITHIN)
        watch.store_answers_us = False
        watch.passes(10 * WITHIN)
        watch.store_answers_us = True
        watch.passes(WITHIN - 5)
        assert asked(watch) == []

    watching(test)


def test_a_worker_that_cannot_speak_is_not_said_to_be_stalled() -> None:
    def test(watch: Watch) -> None:
        limited(watch, progress_within=WITHIN)
        watch.answers_pings = False
        watch.passes(4 * WITHIN)
        assert asked(watch) == []

    watching(test)


def test_a_blocked_loop_does_not_stretch_the_hard_limit() -> None:
    def test(watch: Watch) -> None:
        limited(watch, timeout=WITHIN)
        watch.answers_pings = False
        watch.passes(WITHIN + 2 * GRACE + TIMING.margin + 5)
        assert watch.child.kills == 1
        assert watch.ward.lease_end(KILLED).charged_jobs == {JOB: RescueReason.TIMED_OUT}

    watching(test)


def test_a_supervisor_that_was_frozen_itself_gives_jobs_their_time_back() -> None:
    def test(watch: Watch) -> None:
        limited(watch, progress_within=WITHIN)
        watch.passes(10)
        watch.clock.advance(10 * WITHIN)
        watch.passes(WITHIN - 15)
        assert asked(watch) == []

    watching(test)


def test_s8_code_is_killed_before_others_may_judge_it_however_long_everybody_was_patient() -> None:
    def test(watch: Watch) -> None:
        limited(watch, timeout=WITHIN)
        watch.answers_pings = False
        watch.clock.advance(WITHIN + TIMING.ttl)  # the supervisor was frozen when the limit passed
        watch.passes(GRACE - TIMING.margin + 1)
        assert watch.child.kills == 1
        end = watch.ward.lease_end(KILLED)
        assert (end.charged_jobs, end.is_free) == ({JOB: RescueReason.TIMED_OUT}, True)

    watching(test)


def test_s8_the_guard_ends_code_past_its_limit_in_time_should_the_supervisor_die() -> None:
    def test(watch: Watch) -> None:
        limited(watch, timeout=WITHIN)
        started = watch.clock.monotonic()
        watch.passes(WITHIN + GRACE + 1)
        last = started + WITHIN + TIMING.ttl + LEASE.grace - TIMING.margin
        watch.ward.lease_renewed(watch.clock.monotonic())
        assert watch.child.deadlines[-1] == last
        watch.ward.handle(messages.AttemptStopped(JOB, TOKEN))
        watch.ward.lease_renewed(watch.clock.monotonic())
        assert watch.child.deadlines[-1] == TIMING.guard_deadline(watch.clock.monotonic())

    watching(test)


def test_s8_where_a_progress_clock_stood_others_are_to_be_told_once() -> None:
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
async def test_the_start_and_the_end_of_limited_code_are_told_and_nothing_of_other_jobs() -> None:
    office = Office(limited_task(timeout="60s"), forever)
    job, _ = await office.enqueue("limited", "forever")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    (begun,) = office.heard(messages.AttemptStarted)
    assert (begun.job, begun.progress_within, begun.timeout) == (job, None, 60.0)
    office.far.say(messages.DeadlineExceeded(job, begun.token, RescueReason.TIMED_OUT))
    await passing(1)
    assert [message.job for message in office.heard(messages.AttemptStopped)] == [job]
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
    (begun,) = office.heard(messages.AttemptStarted)
    office.far.say(messages.DeadlineExceeded(job, begun.token, RescueReason.STALLED))
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
async def test_every_word_is_told_while_the_store_is_away_but_not_each_of_a_flood() -> None:
    async def chatty(job: Job) -> None:
        while True:
            for _ in range(100):
                await job.alive()
            await passing(1)

    office = Office(define(chatty, progress_within="60s"))
    await office.enqueue("chatty")
    await office.open()
    beside(office.keep_beating())
    await passing(0.5)
    office.store.is_out = True
    office.heard(messages.AttemptProgressed)
    await passing(30)
    assert 5 <= len(office.heard(messages.AttemptProgressed)) <= 16


@pytest.mark.virtual_time
async def test_code_that_is_deaf_to_its_limit_is_waited_for_and_its_outcome_kept() -> None:
    office = Office(limited_task(stubborn, timeout="60s"))
    (job,) = await office.enqueue("limited")
    await office.open()
    beside(office.keep_beating())
    await passing(1)
    (begun,) = office.heard(messages.AttemptStarted)
    office.far.say(messages.DeadlineExceeded(job, begun.token, RescueReason.TIMED_OUT))
    await passing(SETTINGS.grace)
    assert office.heard(messages.AttemptStopped) == []
    assert await office.state(job) is State.RUNNING


# what others do

LIMITED = Policy(progress_within=WITHIN, timeout=10 * WITHIN)
LATER = WITHIN + TIMING.ttl + LEASE.grace


async def beaten(site: Site, seconds: float) -> None:
    """The lease is renewed all the while."""
    left = seconds
    while left > 0:
        await site.memory.beat([LEASE.id])
        await site.in_contact(min(TIMING.beat, left))
        left -= TIMING.beat
    await site.memory.beat([LEASE.id])


async def test_s5_others_leave_a_stalled_job_to_its_owner_until_ttl_and_grace_have_passed_too() -> None:
    site = Site()
    (job,) = await site.claim(1, policy=LIMITED)
    await beaten(site, LATER - 1)
    assert await site.recovery.step() == []
    await beaten(site, 2)
    assert await site.recovery.step() == []
    await beaten(site, TIMING.beat + TIMING.margin)
    (rescued,) = await site.recovery.step()
    assert (rescued.id, rescued.reason, rescued.worker) == (job, "stalled", LEASE.worker)
    row = await site.row(job)
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 1, 0)
    assert row.attempts[0].outcome is AttemptOutcome.STALLED


async def test_s5_a_supervisor_does_not_judge_the_limits_of_its_own_workers_by_the_row() -> None:
    site = Site()
    await site.claim(1, policy=LIMITED)
    site.own.add(LEASE.id)
    await beaten(site, 2 * LATER)
    assert await site.recovery.step() == []


async def test_l8_nobody_judges_a_limit_right_after_an_outage() -> None:
    site = Site()
    (job,) = await site.claim(1, policy=LIMITED)
    site.clock.advance(2 * LATER)
    await site.memory.beat([LEASE.id])
    site.contact.lost()
    assert await site.recovery.step() == []
    await beaten(site, TIMING.beat + TIMING.margin + 1)
    assert [each.id for each in await site.recovery.step()] == [job]


async def test_l8_a_job_whose_row_was_locked_is_left_to_its_owner_until_that_had_time_to_send_its_outcome() -> None:
    site = Site()
    book = LockedRows()
    site.memory.book = book
    (job,) = await site.claim(1, policy=LIMITED)
    unlock = book.lock([job], is_exclusive=False)
    await beaten(site, LATER + 1)
    assert await site.recovery.step() == []
    await beaten(site, TIMING.beat + TIMING.margin)
    unlock()
    assert await site.recovery.step() == []
    await beaten(site, TIMING.beat)
    unlock = book.lock([job], is_exclusive=False)  # again, so the owner gets the whole time again
    assert await site.recovery.step() == []
    unlock()
    assert await site.recovery.step() == []
    await beaten(site, TIMING.beat + TIMING.margin - 1)
    assert await site.recovery.step() == []
    await beaten(site, 1)
    assert [each.id for each in await site.recovery.step()] == [job]


async def test_s5_a_word_that_lands_between_the_look_and_the_write_saves_the_job() -> None:
    site = Site()
    (job,) = await site.claim(1, policy=LIMITED)
    await beaten(site, LATER + 1)
    assert await site.recovery.step() == []
    await beaten(site, TIMING.beat + TIMING.margin)
    gate = site.store.hold("exchange")
    step = asyncio.ensure_future(site.recovery.step())
    await gate.entered.wait()
    row = await site.row(job)
    await site.memory.report([ProgressUpdate(job=job, token=row.token, fraction=0.5)])
    gate.opened.set()
    assert await step == []
    assert (await site.row(job)).state is State.RUNNING


async def test_what_nobody_started_in_time_is_failed_and_said() -> None:
    site = Site()
    soon = NewJob(id=site.chance.uuid7(), task="t", payload=b"{}", policy=Policy())
    late = structs.replace(soon, id=site.chance.uuid7(), expires_in=5.0)
    await site.memory.enqueue(site.chance.uuid4(), [late, soon])
    site.clock.advance(5.1)
    assert await site.recovery.expire() == 1
    row = await site.row(late.id)
    assert (row.state, row.reason) == (State.FAILED, Reason.EXPIRED)
    assert site.log.of("job.expired") == [{"job": late.id, "task": "t"}]

"""The state machine of jobs, checked for every state and every event."""

from enum import StrEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast._core.fingerprint import error_key
from holdfast._core.job import PLACE_OF, ActiveJob, AttemptOutcome, Failure, HeldFor, Place, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import (
    LeaseEnd,
    Precondition,
    Transition,
    cancelled,
    deadline_exceeded,
    deadline_exceeded_elsewhere,
    finish,
    release,
    rescue,
    runner_crashed,
)
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze, StepsChanged, Suspend
from holdfast._core.policy import Backoff, ChangePolicy, CrashPolicy, Policy


class Event(StrEnum):
    """What can happen to a job after its enqueue."""

    BECOME_DUE = "become_due"
    CLAIM = "claim"
    PREFETCH = "prefetch"
    START = "start"
    COMPLETE = "complete"
    RETRY = "retry"
    SNOOZE = "snooze"
    FAIL = "fail"
    CANCEL = "cancel"
    RELEASE = "release"
    RESCUE = "rescue"
    HOLD = "hold"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    EXPIRE = "expire"
    RESCHEDULE = "reschedule"
    OPERATOR_CANCEL = "operator_cancel"
    OPERATOR_RETRY = "operator_retry"


S, E = State, Event
WAITING = {S.AVAILABLE, S.SCHEDULED}

# The states to which each event may lead from each state. No other move exists, and the functions must keep to this table.
ALLOWED: dict[tuple[State, Event], set[State]] = {
    (S.SCHEDULED, E.BECOME_DUE): {S.AVAILABLE},
    (S.SCHEDULED, E.EXPIRE): {S.FAILED},
    (S.SCHEDULED, E.RESCHEDULE): WAITING,
    (S.SCHEDULED, E.OPERATOR_CANCEL): {S.CANCELLED},
    (S.SCHEDULED, E.OPERATOR_RETRY): {S.AVAILABLE},
    (S.AVAILABLE, E.CLAIM): {S.RUNNING},
    (S.AVAILABLE, E.PREFETCH): {S.CLAIMED},
    (S.AVAILABLE, E.EXPIRE): {S.FAILED},
    (S.AVAILABLE, E.RESCHEDULE): WAITING,
    (S.AVAILABLE, E.OPERATOR_CANCEL): {S.CANCELLED},
    (S.HELD, E.OPERATOR_CANCEL): {S.CANCELLED},
    (S.HELD, E.OPERATOR_RETRY): {S.AVAILABLE},
    (S.CLAIMED, E.START): {S.RUNNING},
    (S.CLAIMED, E.RELEASE): WAITING,
    (S.CLAIMED, E.RESCUE): {S.AVAILABLE},
    (S.CLAIMED, E.OPERATOR_CANCEL): {S.CLAIMED},
    (S.RUNNING, E.COMPLETE): {S.COMPLETED},
    (S.RUNNING, E.RETRY): WAITING,
    (S.RUNNING, E.SNOOZE): WAITING,
    (S.RUNNING, E.FAIL): {S.FAILED},
    (S.RUNNING, E.CANCEL): {S.CANCELLED},
    (S.RUNNING, E.RELEASE): WAITING,
    (S.RUNNING, E.RESCUE): {*WAITING, S.FAILED},
    (S.RUNNING, E.HOLD): {S.HELD},
    (S.RUNNING, E.DEADLINE_EXCEEDED): {*WAITING, S.FAILED},
    (S.RUNNING, E.OPERATOR_CANCEL): {S.RUNNING},
    (S.COMPLETED, E.OPERATOR_RETRY): {S.AVAILABLE},
    (S.FAILED, E.OPERATOR_RETRY): {S.AVAILABLE},
    (S.CANCELLED, E.OPERATOR_RETRY): {S.AVAILABLE},
}

BOOM = Failure("ValueError", "boom", key="3a9f39dad8309f37")
OUTCOMES: dict[Event, tuple[Outcome, ...]] = {
    E.COMPLETE: (Done(), Done(b"1")),
    E.RETRY: (Retry(), Retry(after="5s"), Raised(BOOM)),
    E.SNOOZE: (Snooze(for_="5s"), Suspend(5.0), Suspend(5.0, "go")),
    E.FAIL: (Fail("no"), Raised(BOOM, is_final=True), Invalid(Reason.RESULT_INVALID, BOOM)),
    E.CANCEL: (Cancel("no need"),),
    E.HOLD: (StepsChanged(BOOM),),
}
LIMITS = {RescueReason.STALLED: Reason.STALLED, RescueReason.TIMED_OUT: Reason.TIMED_OUT}
CRASH = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL", stacks="…")
FREE = LeaseEnd(RescueReason.CLOSED, is_free=True)


def active_job(state: State = S.RUNNING, *, attempt: int = 1, failures: int = 0, crashes: int = 0, **policy: object) -> ActiveJob:
    return ActiveJob(
        id=UUID(int=1),
        token=Token(UUID(int=2), 3),
        lease=UUID(int=4),
        task="task",
        state=state,
        attempt=attempt,
        failures=failures,
        crashes=crashes,
        policy=Policy(**policy),  # type: ignore[arg-type]
    )


def as_read(transition: Transition) -> State:
    return S.SCHEDULED if transition.to is S.AVAILABLE and transition.delay else transition.to


@pytest.mark.parametrize(("event", "outcome"), [(event, each) for event, several in OUTCOMES.items() for each in several])
def test_an_outcome_moves_a_running_job_only_where_its_event_may(event: Event, outcome: Outcome) -> None:
    move = finish(active_job(), outcome, jitter=0.0)
    assert as_read(move) in ALLOWED[S.RUNNING, event]
    assert (move.job, move.token, move.precondition) == (UUID(int=1), Token(UUID(int=2), 3), Precondition.TOKEN)


def test_a_failure_without_frames_has_the_key_of_its_task_reason_and_type() -> None:
    last = active_job(max_attempts=1, max_crashes=1, timeout=1.0)
    other = structs.replace(last, task="other")
    failed = {
        "Retry": (Reason.HANDLER_ERROR, finish(last, Retry(reason="busy"), jitter=0.0)),
        "Fail": (Reason.PERMANENT, finish(last, Fail("no"), jitter=0.0)),
        "E": (Reason.PAYLOAD_INVALID, finish(last, Invalid(Reason.PAYLOAD_INVALID, Failure("E", "m")), jitter=0.0)),
        "TIMED_OUT": (Reason.TIMED_OUT, deadline_exceeded(last, RescueReason.TIMED_OUT, jitter=0.0)),
        "WorkerCrashed": (Reason.WORKER_CRASHED, rescue(last, CRASH, jitter=0.0)),
    }
    for kind, (reason, move) in failed.items():
        assert move.error is not None
        assert (move.reason, move.error.type) == (reason, kind)
        assert move.error.key == error_key("task", reason, kind, ())
    moves = [finish(job, Fail(why), jitter=0.0) for job, why in ((last, "no"), (last, "never"), (other, "no"))]
    first, same, different = (move.error.key for move in moves if move.error is not None)
    assert first == same != different
    assert finish(active_job(), Retry(reason="busy"), jitter=0.0).error == failed["Retry"][1].error  # an attempt before the last


def test_a_failure_that_was_raised_keeps_its_key_and_a_cancellation_has_none() -> None:
    for job in (active_job(), active_job(max_attempts=1)):
        assert finish(job, Raised(BOOM), jitter=0.0).error == BOOM
    cancelled_by_handler = finish(active_job(), Cancel("no need"), jitter=0.0)
    assert cancelled_by_handler.error == Failure("Cancel", "no need")


def test_a_suspended_job_awaits_its_signal_and_a_held_one_keeps_its_error_at_no_cost() -> None:
    job = active_job(failures=1, crashes=1)
    waits = finish(job, Suspend(5.0, "go"), jitter=0.0)
    assert (waits.delay, waits.awaits, waits.record, waits.failures) == (5.0, "go", AttemptOutcome.SNOOZED, 1)
    held = finish(job, StepsChanged(BOOM), jitter=0.0)
    assert (held.held_for, held.error, held.record, held.failures) == (HeldFor.STEPS, BOOM, AttemptOutcome.FAILED, 1)
    for move in (waits, held):
        ended = move.with_cancellation(cancel_requested=True)
        assert (ended.to, ended.awaits, ended.held_for) == (S.CANCELLED, None, None)
    crashed = rescue(active_job(on_crash=CrashPolicy.HOLD), CRASH, jitter=0.0)
    assert crashed.held_for is HeldFor.CRASH


def test_changed_steps_fail_or_restart_a_job_whose_task_declares_it() -> None:
    job = active_job(failures=1, max_attempts=3)
    failed = finish(job, StepsChanged(BOOM, ChangePolicy.FAIL), jitter=0.0)
    assert (failed.to, failed.reason, failed.error, failed.failures) == (S.FAILED, Reason.STEPS_CHANGED, BOOM, 2)
    restarted = finish(job, StepsChanged(BOOM, ChangePolicy.RESTART), jitter=0.0)
    assert (restarted.to, restarted.failures, restarted.forgets_steps) == (S.AVAILABLE, 2, True)
    assert not restarted.with_cancellation(cancel_requested=True).forgets_steps
    spent = finish(active_job(failures=2, max_attempts=3), StepsChanged(BOOM, ChangePolicy.RESTART), jitter=0.0)
    assert (spent.to, spent.reason, spent.forgets_steps) == (S.FAILED, Reason.STEPS_CHANGED, False)


def test_the_last_retry_fails() -> None:
    for outcome in OUTCOMES[E.RETRY]:
        move = finish(active_job(failures=2, max_attempts=3), outcome, jitter=0.0)
        assert (move.to, move.reason, move.failures) == (S.FAILED, Reason.HANDLER_ERROR, 3)
        assert as_read(move) in ALLOWED[S.RUNNING, E.FAIL]


@pytest.mark.parametrize("state", [S.CLAIMED, S.RUNNING])
@pytest.mark.parametrize("on_crash", CrashPolicy)
@pytest.mark.parametrize("crashes", range(4))
@pytest.mark.parametrize("end", [CRASH, FREE])
def test_a_rescue_moves_only_where_it_may(state: State, on_crash: CrashPolicy, crashes: int, end: LeaseEnd) -> None:
    job = active_job(state, crashes=crashes, on_crash=on_crash, max_crashes=3)
    move = rescue(job, end, jitter=0.0)
    assert as_read(move) in {*ALLOWED[state, E.RESCUE], *ALLOWED.get((state, E.HOLD), ())}
    assert move.precondition is Precondition.LEASE_ENDED
    assert (move.failures, move.token) == (job.failures, job.token)


def test_a_job_that_had_not_started_is_rescued_free() -> None:
    for on_crash in CrashPolicy:
        move = rescue(active_job(S.CLAIMED, crashes=1, on_crash=on_crash), CRASH, jitter=0.0)
        assert (move.to, move.delay, move.crashes, move.record) == (S.AVAILABLE, None, 1, None)


def test_l10_after_a_first_crash_a_job_keeps_its_position_and_after_later_ones_it_waits_longer() -> None:
    backoff = Backoff.fixed("10s", "20s")
    moves = [rescue(active_job(crashes=crashes, max_crashes=9, backoff=backoff), CRASH, jitter=0.0) for crashes in range(4)]
    assert [move.delay for move in moves] == [None, 10.0, 20.0, 20.0]
    assert [move.crashes for move in moves] == [1, 2, 3, 4]
    assert {(move.record, move.signal, move.stacks) for move in moves} == {(AttemptOutcome.CRASHED, "SIGKILL", "…")}


def test_a_spent_crash_budget_fails_the_job() -> None:
    move = rescue(active_job(crashes=2, max_crashes=3), CRASH, jitter=0.0)
    assert (move.to, move.reason, move.crashes) == (S.FAILED, Reason.WORKER_CRASHED, 3)
    assert move.error is not None


def test_on_crash_fail_and_hold_do_not_run_it_again() -> None:
    assert rescue(active_job(on_crash=CrashPolicy.FAIL), CRASH, jitter=0.0).to is S.FAILED
    assert rescue(active_job(on_crash=CrashPolicy.HOLD), CRASH, jitter=0.0).to is S.HELD


def test_only_a_charged_job_pays_for_a_free_end() -> None:
    culprit = LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={UUID(int=1): RescueReason.UNRESPONSIVE})
    assert rescue(active_job(), culprit, jitter=0.0).crashes == 1
    for innocent in (structs.replace(active_job(), id=UUID(int=9)), active_job(S.CLAIMED)):
        assert rescue(innocent, culprit, jitter=0.0).crashes == 0
    move = rescue(active_job(crashes=1), FREE, jitter=0.0)
    assert (move.to, move.crashes, move.record) == (S.AVAILABLE, 1, AttemptOutcome.RELEASED)


@pytest.mark.parametrize(("charge", "reason"), LIMITS.items())
def test_a_job_past_a_limit_spends_an_attempt_and_no_crash(charge: RescueReason, reason: Reason) -> None:
    backoff = Backoff.fixed("10s", "20s")
    job = active_job(failures=1, crashes=1, max_attempts=3, backoff=backoff, progress_within=60.0, timeout=90.0)
    move = deadline_exceeded(job, charge, jitter=0.0)
    assert (move.to, move.delay, move.failures, move.crashes, move.reason) == (S.AVAILABLE, 20.0, 2, 1, None)
    assert (move.precondition, move.record, move.token) == (Precondition.TOKEN, AttemptOutcome(charge.value), job.token)
    assert as_read(move) in ALLOWED[S.RUNNING, E.DEADLINE_EXCEEDED]
    assert move.error is not None
    assert move.error.type == reason
    assert {RescueReason.STALLED: "60", RescueReason.TIMED_OUT: "90"}[charge] in move.error.message
    final = deadline_exceeded(structs.replace(job, failures=2), charge, jitter=0.0)
    assert (final.to, final.reason, final.failures, final.record) == (S.FAILED, reason, 3, AttemptOutcome(charge.value))
    assert as_read(final) in ALLOWED[S.RUNNING, E.DEADLINE_EXCEEDED]


@pytest.mark.parametrize("charge", LIMITS)
@pytest.mark.parametrize("on_crash", CrashPolicy)
def test_a_limit_does_not_apply_the_crash_policy(charge: RescueReason, on_crash: CrashPolicy) -> None:
    assert deadline_exceeded(active_job(on_crash=on_crash), charge, jitter=0.0).to is S.AVAILABLE


@pytest.mark.parametrize("charge", LIMITS)
def test_other_supervisors_decide_the_same_under_another_precondition(charge: RescueReason) -> None:
    job = active_job(progress_within=60.0, timeout=60.0)
    others = deadline_exceeded_elsewhere(job, charge, jitter=0.5)
    assert (others.precondition, others.rescued) == (Precondition.OVERDUE, charge)
    assert structs.replace(others, precondition=Precondition.TOKEN) == deadline_exceeded(job, charge, jitter=0.5)


@pytest.mark.parametrize("charge", LIMITS)
def test_a_worker_killed_for_a_limit_charges_that_job_an_attempt_and_no_other_job(charge: RescueReason) -> None:
    end = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL", is_free=True, charged_jobs={UUID(int=1): charge}, stacks="…")
    job = active_job(crashes=1, failures=1, on_crash=CrashPolicy.HOLD)
    move = rescue(job, end, jitter=0.0)
    expected = structs.replace(
        deadline_exceeded(job, charge, jitter=0.0), precondition=Precondition.LEASE_ENDED, signal="SIGKILL", stacks="…"
    )
    assert move == expected
    innocent = rescue(structs.replace(active_job(crashes=1, failures=1), id=UUID(int=9)), end, jitter=0.0)
    assert (innocent.to, innocent.crashes, innocent.failures) == (S.AVAILABLE, 1, 1)
    assert rescue(structs.replace(job, state=S.CLAIMED), end, jitter=0.0).record is None


def test_an_unresponsive_job_pays_a_crash() -> None:
    end = LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={UUID(int=1): RescueReason.UNRESPONSIVE})
    move = rescue(active_job(crashes=2, max_crashes=3), end, jitter=0.0)
    assert (move.to, move.reason, move.crashes, move.failures) == (S.FAILED, Reason.WORKER_CRASHED, 3, 0)


@pytest.mark.parametrize("on_crash", CrashPolicy)
def test_a_release_is_free_and_code_that_it_interrupts_obeys_on_crash(on_crash: CrashPolicy) -> None:
    job = active_job(crashes=1, failures=1, on_crash=on_crash)
    unrun, ran = release(job, code_ran=False), release(job, code_ran=True)
    assert (unrun.to, unrun.record, unrun.delay) == (S.AVAILABLE, None, None)
    assert ran.to is {CrashPolicy.RETRY: S.AVAILABLE, CrashPolicy.HOLD: S.HELD, CrashPolicy.FAIL: S.FAILED}[on_crash]
    assert ran.record is AttemptOutcome.RELEASED
    assert {(move.crashes, move.failures) for move in (unrun, ran)} == {(1, 1)}


def test_only_a_success_at_the_first_attempt_leaves_no_record() -> None:
    assert finish(active_job(), Done(), jitter=0.0).record is None
    assert finish(active_job(attempt=2), Done(), jitter=0.0).record is AttemptOutcome.COMPLETED
    for outcomes in OUTCOMES.values():
        for outcome in outcomes:
            if not isinstance(outcome, Done):
                assert finish(active_job(), outcome, jitter=0.0).record is not None


def test_a_snooze_costs_nothing() -> None:
    move = finish(active_job(failures=2, crashes=1), Snooze(for_="5m"), jitter=0.0)
    assert (move.failures, move.crashes, move.delay, move.record) == (2, 1, 300.0, AttemptOutcome.SNOOZED)


@pytest.mark.parametrize("to", [state for state in State if PLACE_OF[state] is not Place.ACTIVE])
def test_a_job_with_a_cancellation_request_ends_cancelled_unless_it_completes(to: State) -> None:
    move = structs.replace(finish(active_job(), Raised(BOOM), jitter=0.0), to=to, delay=5.0)
    assert move.with_cancellation(cancel_requested=False) is move
    moved = move.with_cancellation(cancel_requested=True)
    if to in (S.COMPLETED, S.CANCELLED):
        assert moved is move
    else:
        assert (moved.to, moved.reason, moved.delay) == (S.CANCELLED, Reason.BY_OPERATOR, None)
        assert (moved.error, moved.failures, moved.token) == (move.error, move.failures, move.token)


def test_cancelled_is_by_operator() -> None:
    move = cancelled(active_job())
    assert (move.to, move.reason, move.record) == (S.CANCELLED, Reason.BY_OPERATOR, AttemptOutcome.CANCELLED)


@given(
    failures=st.integers(0, 10),
    crashes=st.integers(0, 10),
    jitter=st.floats(-1, 1),
    kind=st.sampled_from([outcome for outcomes in OUTCOMES.values() for outcome in outcomes]),
    end=st.sampled_from([CRASH, FREE]),
    on_crash=st.sampled_from(CrashPolicy),
)
def test_an_outcome_spends_at_most_one_attempt_and_a_rescue_at_most_one_crash(
    failures: int, crashes: int, jitter: float, kind: Outcome, end: LeaseEnd, on_crash: CrashPolicy
) -> None:
    job = active_job(failures=failures, crashes=crashes, max_attempts=11, max_crashes=11, on_crash=on_crash)
    settled, rescued = finish(job, kind, jitter=jitter), rescue(job, end, jitter=jitter)
    assert settled.failures - failures in (0, 1)
    assert settled.crashes == crashes
    assert rescued.crashes - crashes == (not end.is_free)
    assert rescued.failures == failures
    assert min(settled.delay or 0.0, rescued.delay or 0.0) >= 0.0


def culprit(charge: RescueReason) -> LeaseEnd:
    return LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={UUID(int=1): charge})


@pytest.mark.parametrize("has_hook", [False, True])
@pytest.mark.parametrize("on_crash", CrashPolicy)
def test_every_interruption_of_code_is_recorded_and_makes_the_hook_due_if_there_is_one(
    on_crash: CrashPolicy, has_hook: bool
) -> None:
    job = active_job(on_crash=on_crash, has_rescue_hook=has_hook, progress_within=1.0, timeout=1.0)
    moves = {
        rescue(job, CRASH, jitter=0.0): RescueReason.CRASHED,
        rescue(job, LeaseEnd(RescueReason.EXPIRED), jitter=0.0): RescueReason.EXPIRED,
        rescue(job, FREE, jitter=0.0): RescueReason.CLOSED,
        **{rescue(job, culprit(charge), jitter=0.0): charge for charge in (RescueReason.UNRESPONSIVE, *LIMITS)},
        **{deadline_exceeded(job, charge, jitter=0.0): charge for charge in LIMITS},
        **{deadline_exceeded_elsewhere(job, charge, jitter=0.0): charge for charge in LIMITS},
        runner_crashed(job, "SIGSEGV", jitter=0.0): RescueReason.CRASHED,
        release(job, code_ran=True): RescueReason.RELEASED,
        cancelled(job, was_killed=True): RescueReason.UNRESPONSIVE,
    }
    assert [(move.rescued, move.owes_hook) for move in moves] == [(reason, has_hook) for reason in moves.values()]


def test_no_hook_is_due_after_an_outcome_of_the_handler_or_if_its_code_never_ran() -> None:
    job, claimed = active_job(has_rescue_hook=True), active_job(S.CLAIMED, has_rescue_hook=True)
    moves = [finish(job, outcome, jitter=0.0) for outcomes in OUTCOMES.values() for outcome in outcomes]
    moves += [release(job, code_ran=False), cancelled(job)]
    moves += [
        rescue(claimed, end, jitter=0.0)
        for end in (CRASH, FREE, culprit(RescueReason.UNRESPONSIVE), culprit(RescueReason.STALLED))
    ]
    assert {(move.rescued, move.owes_hook) for move in moves} == {(None, False)}

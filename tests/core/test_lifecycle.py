"""The one state machine, asked about every state and every event."""

from enum import StrEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast._core.job import PLACE_OF, ActiveJob, AttemptOutcome, Failure, Place, Reason, RescueReason, State, Token
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
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.policy import Backoff, CrashPolicy, Policy


class Event(StrEnum):
    """What can happen to a job after it was enqueued."""

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
    OVERRUN = "overrun"
    EXPIRE = "expire"
    RESCHEDULE = "reschedule"
    OPERATOR_CANCEL = "operator_cancel"
    OPERATOR_RETRY = "operator_retry"


S, E = State, Event
WAITING = {S.AVAILABLE, S.SCHEDULED}

# What each event makes of each state; no other move exists. The functions below must keep to it.
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
    (S.RUNNING, E.OVERRUN): {*WAITING, S.FAILED},
    (S.RUNNING, E.OPERATOR_CANCEL): {S.RUNNING},
    (S.COMPLETED, E.OPERATOR_RETRY): {S.AVAILABLE},
    (S.FAILED, E.OPERATOR_RETRY): {S.AVAILABLE},
    (S.CANCELLED, E.OPERATOR_RETRY): {S.AVAILABLE},
}

BOOM = Failure("ValueError", "boom")
OUTCOMES: dict[Event, tuple[Outcome, ...]] = {
    E.COMPLETE: (Done(), Done(b"1")),
    E.RETRY: (Retry(), Retry(after="5s"), Raised(BOOM)),
    E.SNOOZE: (Snooze(for_="5s"),),
    E.FAIL: (Fail("no"), Raised(BOOM, is_final=True), Invalid(Reason.RESULT_INVALID, BOOM)),
    E.CANCEL: (Cancel("no need"),),
}
OVERRUNS = {RescueReason.STALLED: Reason.STALLED, RescueReason.TIMED_OUT: Reason.TIMED_OUT}
CRASH = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL", stacks="…")
FREE = LeaseEnd(RescueReason.CLOSED, is_free=True)


def hold(state: State = S.RUNNING, *, attempt: int = 1, failures: int = 0, crashes: int = 0, **policy: object) -> ActiveJob:
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
    move = finish(hold(), outcome, jitter=0.0)
    assert as_read(move) in ALLOWED[S.RUNNING, event]
    assert (move.job, move.token, move.precondition) == (UUID(int=1), Token(UUID(int=2), 3), Precondition.TOKEN)


def test_the_last_retry_fails() -> None:
    for outcome in OUTCOMES[E.RETRY]:
        move = finish(hold(failures=2, max_attempts=3), outcome, jitter=0.0)
        assert (move.to, move.reason, move.failures) == (S.FAILED, Reason.HANDLER_ERROR, 3)
        assert as_read(move) in ALLOWED[S.RUNNING, E.FAIL]


@pytest.mark.parametrize("state", [S.CLAIMED, S.RUNNING])
@pytest.mark.parametrize("on_crash", CrashPolicy)
@pytest.mark.parametrize("crashes", range(4))
@pytest.mark.parametrize("why", [CRASH, FREE])
def test_a_rescue_moves_only_where_it_may(state: State, on_crash: CrashPolicy, crashes: int, why: LeaseEnd) -> None:
    held = hold(state, crashes=crashes, on_crash=on_crash, max_crashes=3)
    move = rescue(held, why, jitter=0.0)
    assert as_read(move) in {*ALLOWED[state, E.RESCUE], *ALLOWED.get((state, E.HOLD), ())}
    assert move.precondition is Precondition.LEASE_ENDED
    assert (move.failures, move.token) == (held.failures, held.token)


def test_a_job_that_had_not_started_is_rescued_free() -> None:
    for on_crash in CrashPolicy:
        move = rescue(hold(S.CLAIMED, crashes=1, on_crash=on_crash), CRASH, jitter=0.0)
        assert (move.to, move.delay, move.crashes, move.record) == (S.AVAILABLE, None, 1, None)


def test_l10_after_a_first_crash_a_job_keeps_its_place_and_later_ones_wait_longer() -> None:
    backoff = Backoff.fixed("10s", "20s")
    moves = [rescue(hold(crashes=crashes, max_crashes=9, backoff=backoff), CRASH, jitter=0.0) for crashes in range(4)]
    assert [move.delay for move in moves] == [None, 10.0, 20.0, 20.0]
    assert [move.crashes for move in moves] == [1, 2, 3, 4]
    assert {(move.record, move.signal, move.stacks) for move in moves} == {(AttemptOutcome.CRASHED, "SIGKILL", "…")}


def test_a_spent_crash_budget_fails_the_job() -> None:
    move = rescue(hold(crashes=2, max_crashes=3), CRASH, jitter=0.0)
    assert (move.to, move.reason, move.crashes) == (S.FAILED, Reason.WORKER_CRASHED, 3)
    assert move.error is not None


def test_on_crash_fail_and_hold_do_not_run_it_again() -> None:
    assert rescue(hold(on_crash=CrashPolicy.FAIL), CRASH, jitter=0.0).to is S.FAILED
    assert rescue(hold(on_crash=CrashPolicy.HOLD), CRASH, jitter=0.0).to is S.HELD


def test_only_the_culprit_pays_for_an_end_that_explains_itself() -> None:
    culprit = LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={UUID(int=1): RescueReason.UNRESPONSIVE})
    assert rescue(hold(), culprit, jitter=0.0).crashes == 1
    for innocent in (structs.replace(hold(), id=UUID(int=9)), hold(S.CLAIMED)):
        assert rescue(innocent, culprit, jitter=0.0).crashes == 0
    move = rescue(hold(crashes=1), FREE, jitter=0.0)
    assert (move.to, move.crashes, move.record) == (S.AVAILABLE, 1, AttemptOutcome.RELEASED)


@pytest.mark.parametrize(("charge", "reason"), OVERRUNS.items())
def test_one_past_a_limit_spends_an_attempt_and_no_crash(charge: RescueReason, reason: Reason) -> None:
    backoff = Backoff.fixed("10s", "20s")
    held = hold(failures=1, crashes=1, max_attempts=3, backoff=backoff, progress_within=60.0, timeout=90.0)
    move = deadline_exceeded(held, charge, jitter=0.0)
    assert (move.to, move.delay, move.failures, move.crashes, move.reason) == (S.AVAILABLE, 20.0, 2, 1, None)
    assert (move.precondition, move.record, move.token) == (Precondition.TOKEN, AttemptOutcome(charge.value), held.token)
    assert as_read(move) in ALLOWED[S.RUNNING, E.OVERRUN]
    assert move.error is not None
    assert move.error.type == reason
    assert {RescueReason.STALLED: "60", RescueReason.TIMED_OUT: "90"}[charge] in move.error.message
    last = deadline_exceeded(structs.replace(held, failures=2), charge, jitter=0.0)
    assert (last.to, last.reason, last.failures, last.record) == (S.FAILED, reason, 3, AttemptOutcome(charge.value))
    assert as_read(last) in ALLOWED[S.RUNNING, E.OVERRUN]


@pytest.mark.parametrize("charge", OVERRUNS)
@pytest.mark.parametrize("on_crash", CrashPolicy)
def test_a_limit_asks_nothing_of_the_crash_policy(charge: RescueReason, on_crash: CrashPolicy) -> None:
    assert deadline_exceeded(hold(on_crash=on_crash), charge, jitter=0.0).to is S.AVAILABLE


@pytest.mark.parametrize("charge", OVERRUNS)
def test_others_say_the_same_but_are_judged_again(charge: RescueReason) -> None:
    held = hold(progress_within=60.0, timeout=60.0)
    others = deadline_exceeded_elsewhere(held, charge, jitter=0.5)
    assert (others.precondition, others.rescued) == (Precondition.OVERDUE, charge)
    assert structs.replace(others, precondition=Precondition.TOKEN) == deadline_exceeded(held, charge, jitter=0.5)


@pytest.mark.parametrize("charge", OVERRUNS)
def test_a_worker_killed_for_a_limit_charges_its_culprit_an_attempt_and_nobody_else(charge: RescueReason) -> None:
    why = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL", is_free=True, charged_jobs={UUID(int=1): charge}, stacks="…")
    held = hold(crashes=1, failures=1, on_crash=CrashPolicy.HOLD)
    move = rescue(held, why, jitter=0.0)
    expected = structs.replace(
        deadline_exceeded(held, charge, jitter=0.0), precondition=Precondition.LEASE_ENDED, signal="SIGKILL", stacks="…"
    )
    assert move == expected
    innocent = rescue(structs.replace(hold(crashes=1, failures=1), id=UUID(int=9)), why, jitter=0.0)
    assert (innocent.to, innocent.crashes, innocent.failures) == (S.AVAILABLE, 1, 1)
    assert rescue(structs.replace(held, state=S.CLAIMED), why, jitter=0.0).record is None


def test_a_deaf_job_pays_as_for_a_crash() -> None:
    why = LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={UUID(int=1): RescueReason.UNRESPONSIVE})
    move = rescue(hold(crashes=2, max_crashes=3), why, jitter=0.0)
    assert (move.to, move.reason, move.crashes, move.failures) == (S.FAILED, Reason.WORKER_CRASHED, 3, 0)


@pytest.mark.parametrize("on_crash", CrashPolicy)
def test_a_release_is_free_and_code_cut_short_is_not_run_again_against_its_tasks_will(on_crash: CrashPolicy) -> None:
    held = hold(crashes=1, failures=1, on_crash=on_crash)
    unrun, ran = release(held, code_ran=False), release(held, code_ran=True)
    assert (unrun.to, unrun.record, unrun.delay) == (S.AVAILABLE, None, None)
    assert ran.to is {CrashPolicy.RETRY: S.AVAILABLE, CrashPolicy.HOLD: S.HELD, CrashPolicy.FAIL: S.FAILED}[on_crash]
    assert ran.record is AttemptOutcome.RELEASED
    assert {(move.crashes, move.failures) for move in (unrun, ran)} == {(1, 1)}


def test_only_a_first_try_success_leaves_no_record() -> None:
    assert finish(hold(), Done(), jitter=0.0).record is None
    assert finish(hold(attempt=2), Done(), jitter=0.0).record is AttemptOutcome.COMPLETED
    for outcomes in OUTCOMES.values():
        for outcome in outcomes:
            if not isinstance(outcome, Done):
                assert finish(hold(), outcome, jitter=0.0).record is not None


def test_a_snooze_costs_nothing() -> None:
    move = finish(hold(failures=2, crashes=1), Snooze(for_="5m"), jitter=0.0)
    assert (move.failures, move.crashes, move.delay, move.record) == (2, 1, 300.0, AttemptOutcome.SNOOZED)


@pytest.mark.parametrize("to", [state for state in State if PLACE_OF[state] is not Place.ACTIVE])
def test_a_marked_job_ends_cancelled_unless_it_completes(to: State) -> None:
    move = structs.replace(finish(hold(), Raised(BOOM), jitter=0.0), to=to, delay=5.0)
    assert move.with_cancellation(cancel_requested=False) is move
    moved = move.with_cancellation(cancel_requested=True)
    if to in (S.COMPLETED, S.CANCELLED):
        assert moved is move
    else:
        assert (moved.to, moved.reason, moved.delay) == (S.CANCELLED, Reason.BY_OPERATOR, None)
        assert (moved.error, moved.failures, moved.token) == (move.error, move.failures, move.token)


def test_cancelled_is_by_operator() -> None:
    move = cancelled(hold())
    assert (move.to, move.reason, move.record) == (S.CANCELLED, Reason.BY_OPERATOR, AttemptOutcome.CANCELLED)


@given(
    failures=st.integers(0, 10),
    crashes=st.integers(0, 10),
    jitter=st.floats(-1, 1),
    kind=st.sampled_from([outcome for outcomes in OUTCOMES.values() for outcome in outcomes]),
    ends=st.sampled_from([CRASH, FREE]),
    on_crash=st.sampled_from(CrashPolicy),
)
def test_budgets_only_grow_by_one_and_never_apart(
    failures: int, crashes: int, jitter: float, kind: Outcome, ends: LeaseEnd, on_crash: CrashPolicy
) -> None:
    held = hold(failures=failures, crashes=crashes, max_attempts=11, max_crashes=11, on_crash=on_crash)
    settled, rescued = finish(held, kind, jitter=jitter), rescue(held, ends, jitter=jitter)
    assert settled.failures - failures in (0, 1)
    assert settled.crashes == crashes
    assert rescued.crashes - crashes == (not ends.is_free)
    assert rescued.failures == failures
    assert min(settled.delay or 0.0, rescued.delay or 0.0) >= 0.0


def culprit(charge: RescueReason) -> LeaseEnd:
    return LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={UUID(int=1): charge})


@pytest.mark.parametrize("heals", [False, True])
@pytest.mark.parametrize("on_crash", CrashPolicy)
def test_whatever_cuts_code_short_says_so_and_owes_a_hook_if_there_is_one(on_crash: CrashPolicy, heals: bool) -> None:
    held = hold(on_crash=on_crash, has_rescue_hook=heals, progress_within=1.0, timeout=1.0)
    moves = {
        rescue(held, CRASH, jitter=0.0): RescueReason.CRASHED,
        rescue(held, LeaseEnd(RescueReason.EXPIRED), jitter=0.0): RescueReason.EXPIRED,
        rescue(held, FREE, jitter=0.0): RescueReason.CLOSED,
        **{rescue(held, culprit(charge), jitter=0.0): charge for charge in (RescueReason.UNRESPONSIVE, *OVERRUNS)},
        **{deadline_exceeded(held, charge, jitter=0.0): charge for charge in OVERRUNS},
        **{deadline_exceeded_elsewhere(held, charge, jitter=0.0): charge for charge in OVERRUNS},
        runner_crashed(held, "SIGSEGV", jitter=0.0): RescueReason.CRASHED,
        release(held, code_ran=True): RescueReason.RELEASED,
        cancelled(held, was_killed=True): RescueReason.UNRESPONSIVE,
    }
    assert [(move.rescued, move.owes_hook) for move in moves] == [(why, heals) for why in moves.values()]


def test_an_answer_of_the_handler_and_code_that_never_ran_owe_nothing() -> None:
    held, claimed = hold(has_rescue_hook=True), hold(S.CLAIMED, has_rescue_hook=True)
    moves = [finish(held, outcome, jitter=0.0) for outcomes in OUTCOMES.values() for outcome in outcomes]
    moves += [release(held, code_ran=False), cancelled(held)]
    moves += [
        rescue(claimed, end, jitter=0.0)
        for end in (CRASH, FREE, culprit(RescueReason.UNRESPONSIVE), culprit(RescueReason.STALLED))
    ]
    assert {(move.rescued, move.owes_hook) for move in moves} == {(None, False)}

"""An outcome that is sent again gets the same answer; a different outcome does not."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from holdfast._core.idempotency import is_duplicate_settle
from holdfast._core.job import PLACE_OF, ActiveJob, AttemptOutcome, Claim, Failure, NewJob, Place, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, Precondition, Transition, cancelled, deadline_exceeded, finish, release, rescue
from holdfast._core.outcome import Cancel, Done, Fail, Raised, Retry, Snooze
from holdfast._core.policy import Policy
from holdfast._core.record import (
    JobRecord,
    SettledAttempt,
    active_job,
    as_read,
    attempt_to_keep,
    is_expired,
    needs_isolation,
    new_record,
    record_of_finished,
    reopened,
    requeued,
    settled,
    stub,
)

NOW = datetime(2024, 1, 1, tzinfo=UTC)
ROW = structs.replace(
    new_record(NewJob(id=UUID(int=1), task="task", payload=b"{}", policy=Policy()), NOW),
    token=Token(UUID(int=2), 3),
    state=State.RUNNING,
    lease=UUID(int=4),
    worker="worker",
    attempt=1,
)
ACTIVE = active_job(ROW)
MOVES = {
    "done": finish(ACTIVE, Done(b"1"), jitter=0.0),
    "done otherwise": finish(ACTIVE, Done(b"2"), jitter=0.0),
    "raised": finish(ACTIVE, Raised(Failure("E", "a")), jitter=0.0),
    "raised otherwise": finish(ACTIVE, Raised(Failure("E", "b")), jitter=0.0),
    "raised for good": finish(ACTIVE, Raised(Failure("E", "a"), is_final=True), jitter=0.0),
    "retry": finish(ACTIVE, Retry(after="1s"), jitter=0.0),
    "snooze": finish(ACTIVE, Snooze(for_="1s"), jitter=0.0),
    "cancel": finish(ACTIVE, Cancel("x"), jitter=0.0),
    "fail": finish(ACTIVE, Fail("x"), jitter=0.0),
    "cancelled": cancelled(ACTIVE),
    "released": release(ACTIVE, code_ran=True),
    "released free": release(ACTIVE, code_ran=False),
    "crashed": rescue(ACTIVE, LeaseEnd(RescueReason.CRASHED), jitter=0.0),
    "stalled": deadline_exceeded(ACTIVE, RescueReason.STALLED, jitter=0.0),
    "timed out": deadline_exceeded(ACTIVE, RescueReason.TIMED_OUT, jitter=0.0),
}
# After a reopening, the record keeps how the attempt ended, and not the result of a success.
ALIKE_LATER = {frozenset(("done", "done otherwise"))}


def after(move: Transition, *, cancel_requested: bool = False) -> tuple[JobRecord, SettledAttempt | None]:
    row = structs.replace(ROW, cancel_requested=cancel_requested)
    return settled(row, move.with_cancellation(cancel_requested=cancel_requested), NOW), attempt_to_keep(row, move, NOW)


@pytest.mark.parametrize("first", MOVES)
@pytest.mark.parametrize("second", MOVES)
def test_only_the_same_outcome_is_recognised(first: str, second: str) -> None:
    row, ended = after(MOVES[first])
    assert is_duplicate_settle(MOVES[second], row, ended) is (first == second)


@pytest.mark.parametrize("first", MOVES)
@pytest.mark.parametrize("second", MOVES)
def test_only_the_same_outcome_is_recognised_after_a_reopening(first: str, second: str) -> None:
    row, ended = after(MOVES[first])
    if row.token.claim is not None:
        ended = ended or record_of_finished(row)
    row = reopened(row, NOW)
    assert is_duplicate_settle(MOVES[second], row, ended) is (first == second or frozenset((first, second)) in ALIKE_LATER)


@pytest.mark.parametrize("first", MOVES)
def test_a_settle_that_a_cancellation_turned_is_recognised(first: str) -> None:
    row, ended = after(MOVES[first], cancel_requested=True)
    assert row.state is (State.COMPLETED if first.startswith("done") else State.CANCELLED)
    assert is_duplicate_settle(MOVES[first], row, ended)


@pytest.mark.parametrize("rescued", ["crashed", "stalled", "timed out"])
def test_s10_a_rescue_that_a_cancellation_turned_is_not_the_cancellation_of_the_worker(rescued: str) -> None:
    row, ended = after(MOVES[rescued], cancel_requested=True)
    assert row.state is State.CANCELLED
    assert not is_duplicate_settle(MOVES["cancelled"], row, ended)


def test_no_outcome_is_recognised_without_a_record_of_its_attempt() -> None:
    for move in MOVES.values():
        assert not is_duplicate_settle(move, None, None)
        assert not is_duplicate_settle(move, ROW, None)
        assert not is_duplicate_settle(move, requeued(ROW, State.AVAILABLE, NOW), None)
        other = structs.replace(ROW, token=Token(UUID(int=9), 3))
        assert not is_duplicate_settle(move, settled(other, move, NOW), None)


def test_a_late_error_on_the_record_changes_no_answer() -> None:
    crashed = MOVES["crashed"]
    row, ended = after(crashed)
    assert ended is not None
    assert ended.record is not None
    noted = structs.replace(ended, record=structs.replace(ended.record, error=Failure("E", "late")))
    assert is_duplicate_settle(crashed, row, noted)


def test_a_scheduled_job_reads_as_available_once_it_is_due() -> None:
    row, _ = after(MOVES["retry"])
    assert as_read(row, NOW).state is State.SCHEDULED
    assert as_read(row, row.available_at).state is State.AVAILABLE
    assert as_read(ROW, NOW) is ROW


def test_an_attempt_is_kept_unless_its_finished_record_has_all_of_it() -> None:
    assert after(MOVES["done"])[1] is None
    free = after(MOVES["released free"])[1]
    assert free is not None
    assert free.record is None
    crashed = after(MOVES["crashed"])[1]
    assert crashed is not None
    assert crashed.record is not None
    assert (crashed.record.outcome, crashed.record.worker) == (AttemptOutcome.CRASHED, "worker")
    assert isinstance(Claim(job=ACTIVE, payload=b""), Claim)
    assert isinstance(ACTIVE, ActiveJob)


@pytest.mark.parametrize("first", [name for name, move in MOVES.items() if PLACE_OF[move.to] is Place.FINISHED])
@pytest.mark.parametrize("second", MOVES)
def test_a_stub_recognises_the_outcome_that_ended_its_job(first: str, second: str) -> None:
    row, ended = after(MOVES[first])
    move, original = MOVES[second], MOVES[first]
    is_same = (move.to, move.reason) == (original.to, original.reason)
    assert is_duplicate_settle(move, stub(row), ended) is is_same


@pytest.mark.parametrize("precondition", Precondition)
def test_a_precondition_does_not_make_a_different_outcome(precondition: Precondition) -> None:
    move = MOVES["stalled"]
    row, ended = after(move)
    assert is_duplicate_settle(structs.replace(move, precondition=precondition), row, ended)


def test_a_stub_keeps_identity_token_and_outcome_and_no_data() -> None:
    record = structs.replace(ROW, payload=b'"secret"', message="secret", checkpoint=b'"secret"', unique_key="k", tags=("t",))
    move = structs.replace(MOVES["done"], result=b'"secret"', error=Failure("E", "secret"))
    row = settled(record, move, NOW)
    remaining = stub(row)
    assert remaining.is_stub
    assert (remaining.id, remaining.token, remaining.state, remaining.reason, remaining.finished_at) == (
        row.id,
        row.token,
        row.state,
        row.reason,
        NOW,
    )
    assert b"secret" not in msgspec.json.encode(remaining)
    assert (remaining.task, remaining.queue, remaining.policy, remaining.attempt) == (
        row.task,
        row.queue,
        row.policy,
        row.attempt,
    )


def test_only_a_waiting_job_that_never_started_expires() -> None:
    new = new_record(NewJob(id=UUID(int=1), task="task", payload=b"{}", policy=Policy(), expires_in=1.5), NOW)
    at = NOW + timedelta(seconds=1.5)
    assert new.expires_at == at
    assert not is_expired(new, at - timedelta(microseconds=1))
    assert is_expired(new, at)
    others = {"attempt": 1}, {"expires_at": None}, *({"state": state} for state in State if state is not State.AVAILABLE)
    for changed in others:
        assert not is_expired(structs.replace(new, **changed), at)
    assert reopened(structs.replace(new, state=State.FAILED), at).expires_at is None


def test_isolation_is_decided_by_the_policy_of_the_record() -> None:
    row = structs.replace(ROW, crashes=1)
    assert not needs_isolation(row)
    assert needs_isolation(structs.replace(row, policy=Policy(max_crashes=2)))
    assert not needs_isolation(structs.replace(row, crashes=0, policy=Policy(max_crashes=1)))


def test_a_new_record_has_its_key() -> None:
    new = new_record(NewJob(id=UUID(int=1), task="task", payload=b"{}", policy=Policy(), unique_key="k"), NOW)
    assert (new.unique_key, new.expires_at, new.is_stub) == ("k", None, False)
    assert reopened(structs.replace(new, state=State.FAILED), NOW).unique_key == "k"

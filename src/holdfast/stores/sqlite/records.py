"""Conversion of rows to values. One bad row never fails the others: a row that cannot be read is left out."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from msgspec import convert

from holdfast._core.answers import BeatView, DueJob, OverdueJob
from holdfast._core.encoding import (
    failure_of,
    headers_in,
    inputs_of,
    instant,
    member_of,
    names_of,
    rescue_of,
    timing_of,
    uniqueness_in,
)
from holdfast._core.job import ActiveJob, AttemptOutcome, Claim, HeldFor, Json, Reason, RescueReason, State, Token
from holdfast._core.policy import policy_of
from holdfast._core.record import AttemptRecord, JobRecord, SettledAttempt
from holdfast._core.recorded_outcome import RecordedOutcome
from holdfast._core.requests import ClaimRequest
from holdfast.databases.readable import readable

Row = tuple[Json, ...]

_STATES = {state.value: state for state in State}


def claims_of(found: Iterable[Row], request: ClaimRequest) -> tuple[Claim, ...]:
    """Return the claims of all rows of ``exchange_claims.sql``."""
    return readable(lambda row: _claim_of(row, request), found)


def _claim_of(row: Row, request: ClaimRequest) -> Claim:  # size: one line for each column
    (
        job,
        number,
        task,
        state,
        attempt,
        failures,
        crashes,
        checkpoint,
        rescue,
        hook_due_at,
        queue,
        key,
        priority,
        extra,
        flow,
        inputs,
        waited,
        payload,
    ) = row
    hold = ActiveJob(
        id=convert(job, UUID),  # UUID(bytes=…) takes four times as long, the longest part of a claim
        token=Token(request.claim, number),
        lease=request.lease,
        task=task,
        state=_STATES[state],
        attempt=attempt,
        failures=failures,
        crashes=crashes,
        policy=request.tasks[task],
        queue=queue,
        flow=_uuid(flow),
    )
    return Claim(
        job=hold,
        payload=_blob(payload) or b"",
        checkpoint=_blob(checkpoint),
        rescue=rescue_of(rescue),
        hook_due_at=_instant(hook_due_at),
        key=key,
        priority=priority,
        headers=headers_in(extra),
        inputs=inputs_of(inputs),
        waited=waited / 1e6,
    )


def active_job_of(row: Row) -> ActiveJob:
    """Return the active job of a row of ``held.sql``."""
    job, claim, number, lease, task, state, attempt, failures, crashes, policy, cancel_requested, queue, flow, fraction = row
    return ActiveJob(
        id=UUID(bytes=job),
        token=Token(UUID(bytes=claim), number),
        lease=UUID(bytes=lease),
        task=task,
        state=_STATES[state],
        attempt=attempt,
        failures=failures,
        crashes=crashes,
        policy=policy_of(policy),
        cancel_requested=bool(cancel_requested),
        queue=queue,
        flow=_uuid(flow),
        fraction=fraction,
    )


def overdue_of(row: Row) -> OverdueJob:
    """Return the overdue job of a row of ``overdue.sql``."""
    *hold, worker, charge, timing = row
    return OverdueJob(active_job_of(tuple(hold)), worker, RescueReason(charge), timing_of(timing))


def beat_of(row: Row) -> BeatView:
    """Return the note on a worker of a row of ``worker_history.sql``."""
    worker, at, running, claimed, slots, memory, loop_lag, answered_at = row
    return BeatView(
        worker=worker,
        at=instant(at),
        running=running,
        claimed=claimed,
        slots=slots,
        memory=memory,
        loop_lag=None if loop_lag is None else loop_lag / 1e6,
        answered_at=_instant(answered_at),
    )


def due_of(row: Row) -> DueJob:
    """Return the due job of a row of ``due.sql``."""
    job, queue, number = row
    return DueJob(UUID(bytes=job), queue, number)


def record_of(state: str, row: Row) -> JobRecord:  # size: one line for each column
    """Return the job of a row of the view in ``record.sql``, in the state to show."""
    job, claim, number, task, queue, key, priority, _, payload, policy, attempt, failures, crashes, *rest = row
    (created, available, claimed, started, finished, reason, error, result, lease, worker, *rest) = rest
    stage, fraction, message, progress, checkpoint, cancelled, tags, extra, expires, unique_key, is_stub, rescue, *rest = rest
    hook_due, awaits, held_for, flow, member, points = rest
    return JobRecord(
        id=UUID(bytes=job),
        token=Token(_uuid(claim), number),
        task=task,
        queue=queue,
        key=key,
        priority=priority,
        state=_STATES[state],
        payload=_blob(payload) or b"",
        policy=policy_of(policy),
        attempt=attempt,
        failures=failures,
        crashes=crashes,
        created_at=instant(created),
        available_at=instant(available),
        claimed_at=_instant(claimed),
        started_at=_instant(started),
        finished_at=_instant(finished),
        reason=None if reason is None else Reason(reason),
        error=failure_of(error),
        result=_blob(result),
        lease=_uuid(lease),
        worker=worker,
        stage=stage,
        fraction=fraction,
        message=message,
        last_progress_at=_instant(progress),
        checkpoint=_blob(checkpoint),
        cancel_requested=bool(cancelled),
        expires_at=_instant(expires),
        unique_key=unique_key,
        is_stub=bool(is_stub),
        rescue=rescue_of(rescue),
        hook_due_at=_instant(hook_due),
        awaits=awaits,
        held_for=None if held_for is None else HeldFor(held_for),
        tags=names_of(tags),
        headers=headers_in(extra),
        member=None if flow is None else member_of(UUID(bytes=flow), member),
        points=points,
        uniqueness=uniqueness_in(extra),
    )


def outcome_of(
    state: str, reason: str | None, error: str | None, result: Json, is_stub: int, inputs: str | None
) -> RecordedOutcome:
    """Return the outcome of a job from its columns in ``outcomes.sql``."""
    return RecordedOutcome(
        state=_STATES[state],
        reason=None if reason is None else Reason(reason),
        error=failure_of(error),
        result=_blob(result),
        is_stub=bool(is_stub),
        inputs=inputs_of(inputs),
    )


def attempt_of(job: bytes, row: Row) -> AttemptRecord:
    """Return an attempt from its columns in ``get.sql``."""
    claim, number, attempt, worker, outcome, error, started, ended, signal, stacks, late_result, *rest = row
    points, rescued_by, late_at = rest
    return AttemptRecord(
        job=UUID(bytes=job),
        token=Token(UUID(bytes=claim), number),
        attempt=attempt,
        worker=worker,
        outcome=AttemptOutcome(outcome),
        error=failure_of(error),
        started_at=_instant(started),
        ended_at=_instant(ended),
        signal=signal,
        stacks=stacks,
        late_result=_blob(late_result),
        points=points,
        rescued_by=rescued_by,
        late_at=_instant(late_at),
    )


def settled_attempt_of(job: UUID, token: Token, row: Row) -> SettledAttempt | None:
    """Return the outcome of an attempt, from its columns in ``exchange_answers.sql``: only what ``is_duplicate_settle`` compares."""
    requested_state, outcome, error = row
    if requested_state is None:
        return None
    if outcome is None:
        return SettledAttempt(State(requested_state), None)
    outcome, failure = AttemptOutcome(outcome), failure_of(error)
    return SettledAttempt(
        State(requested_state), AttemptRecord(job=job, token=token, attempt=0, worker="", outcome=outcome, error=failure)
    )


def _blob(value: Json) -> bytes | None:
    """Return JSON as bytes; encode any other value, written by hand, so that its reader refuses it."""
    return value if value is None or isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def _uuid(value: bytes | None) -> UUID | None:
    return None if value is None else convert(value, UUID)


def _instant(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else instant(microseconds)

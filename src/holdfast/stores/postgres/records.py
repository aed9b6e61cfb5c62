"""Conversion of rows to values, by the names of their columns. One bad row never fails the others: an unreadable one is left out."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast._core.answers import LeaseView, OverdueJob
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, AttemptOutcome, Failure, Reason, Rescue, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import policy_of
from holdfast._core.record import AttemptRecord, JobRecord
from holdfast._core.timing import LeaseTiming

Row = Any
"""``asyncpg.Record``, or any other mapping from the names of columns to values."""

Value = TypeVar("Value")

logger = logging.getLogger("holdfast")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATES = {state.value: state for state in State}
_UNKNOWN = ProcessIdentity("", 0)
_UNREADABLE = (TypeError, ValueError, KeyError, OverflowError)


class _Rescue(Struct):
    """A rescue as stored on a row: ``at`` in microseconds since the epoch."""

    reason: RescueReason
    worker: str
    attempt: int
    at: int


def readable(read: Callable[[Row], Value], found: Iterable[Row]) -> tuple[Value, ...]:
    """Return the values of all readable rows; skip and log those that were damaged by hand."""
    values = []
    for row in found:
        try:
            values.append(read(row))
        except _UNREADABLE:
            logger.warning("a row of the jobs' database cannot be read and is left alone: %.200r", tuple(row)[:3])
    return tuple(values)


def record_of(row: Row, attempts: tuple[AttemptRecord, ...] = ()) -> JobRecord:
    """Return the job of a row of the view ``jobs``; ``is_early``: it is not due yet."""
    return JobRecord(
        id=row["id"],
        token=Token(row["claim_id"], row["claim_number"]),
        task=row["task"],
        queue=row["queue"],
        priority=row["priority"],
        state=state_of(row),
        payload=row["payload"] or b"",
        policy=policy_of(row["policy"]),
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        created_at=row["created_at"],
        available_at=row["available_at"],
        claimed_at=row["claimed_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        reason=None if row["reason"] is None else Reason(row["reason"]),
        error=failure_of(row["error"]),
        result=row["result"],
        lease=row["lease"],
        worker=row["worker"],
        stage=row["stage"],
        fraction=row["fraction"],
        message=row["message"],
        last_progress_at=row["progress_at"],
        checkpoint=row["checkpoint"],
        cancel_requested=row["cancel_requested"],
        expires_at=row["expires_at"],
        unique_key=row["unique_key"],
        is_stub=row["is_stub"],
        rescue=rescue_of(row["rescue"]),
        hook_due_at=row["hook_due_at"],
        tags=_read(row["tags"], tuple[str, ...]) or (),
        attempts=attempts,
    )


def state_of(row: Row) -> State:
    """Return the state of a row; a waiting job that ``is_early`` is scheduled."""
    return State.SCHEDULED if row["is_early"] else _STATES[row["state"]]


def active_job_of(row: Row) -> ActiveJob:
    """Return the active job of a row."""
    return ActiveJob(
        id=row["id"],
        token=Token(row["claim_id"], row["claim_number"]),
        lease=row["lease"],
        task=row["task"],
        state=_STATES[row["state"]],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        policy=policy_of(row["policy"]),
        cancel_requested=row["cancel_requested"],
        queue=row["queue"],
    )


def overdue_of(row: Row) -> OverdueJob:
    """Return the active job of a row, and the limit that it has exceeded."""
    return OverdueJob(active_job_of(row), row["worker"], RescueReason(row["charge"]), timing_of(row["timing"]))


def attempt_of(row: Row) -> AttemptRecord:
    """Return the attempt of a row of ``attempts``."""
    return AttemptRecord(
        job=row["job"],
        token=Token(row["claim_id"], row["claim_number"]),
        attempt=row["attempt"],
        worker=row["worker"],
        outcome=AttemptOutcome(row["outcome"]),
        error=failure_of(row["error"]),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        signal=row["signal"],
        stacks=row["stacks"],
        late_result=row["late_result"],
    )


def lease_of(row: Row) -> LeaseView:
    """Return the lease of a row of ``expired.sql`` or ``workers.sql``; one without a row that still has jobs counts as ended."""
    return LeaseView(
        id=row["id"],
        worker=row["worker"] or "",
        process=_read(row["process"], ProcessIdentity) or _UNKNOWN,
        timing=timing_of(row["timing"]),
        overdue=row["overdue"] / 1e6,
        seen=row["seen"] or "",
        age=row["age"] / 1e6,
        holds=row["holds"],
        is_draining=bool(row["is_draining"]),
        end=end_of(row) if row["is_ended"] else None,
        queues=_read(row["queues"], tuple[str, ...]) or (),
        tasks=_read(row["tasks"], tuple[str, ...]) or (),
        grace=row["grace"] or 0.0,
        slots=row["slots"] or 0,
        is_isolated=bool(row["is_isolated"]),
    )


def timing_of(text: str | None) -> LeaseTiming:
    """Read a lease's timing; zeros if it is unreadable."""
    return _read(text, LeaseTiming) or LeaseTiming(0.0, 0.0, 0.0)


def failure_of(text: str | None) -> Failure | None:
    """Return an exception from the JSON on a row; None if missing or unreadable."""
    return _read(text, Failure)


def rescue_of(text: str | None) -> Rescue | None:
    """Return the last rescue of a job from the JSON on its row; None if missing or unreadable."""
    rescue = _read(text, _Rescue)
    if rescue is None:
        return None
    at = _EPOCH + timedelta(microseconds=rescue.at)
    return Rescue(reason=rescue.reason, worker=rescue.worker, attempt=rescue.attempt, at=at)


def end_of(row: Row) -> LeaseEnd:
    """Return why a lease ended; expiry if the reason is unreadable."""
    return (_read(row["end_reason"], LeaseEnd) or LeaseEnd(RescueReason.EXPIRED)).with_drain(is_draining=bool(row["is_draining"]))


def _read(text: str | None, kind: type[Value]) -> Value | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

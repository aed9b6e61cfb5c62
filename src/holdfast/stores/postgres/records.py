"""Conversion of rows to values, by the names of their columns. One bad row never fails the others: an unreadable one is left out."""

from typing import Any

from msgspec import json

from holdfast._core.answers import BeatView, LeaseView, OverdueJob, QueueView
from holdfast._core.encoding import (
    end_of,
    failure_of,
    headers_in,
    member_of,
    names_of,
    process_of,
    rescue_of,
    timing_of,
    uniqueness_in,
)
from holdfast._core.error_groups import ErrorGroup, group_of
from holdfast._core.job import ActiveJob, AttemptOutcome, HeldFor, Reason, RescueReason, State, Token
from holdfast._core.origin import Origin
from holdfast._core.policy import policy_of
from holdfast._core.record import AttemptRecord, JobRecord
from holdfast._core.requests import QueueSettings

Row = Any
"""``asyncpg.Record``, or any other mapping from the names of columns to values."""

_STATES = {state.value: state for state in State}


def record_of(row: Row, attempts: tuple[AttemptRecord, ...] = ()) -> JobRecord:  # size: one line for each column
    """Return the job of a row of the view ``jobs``; ``early_as``: the state in which to show it while it is not due yet."""
    return JobRecord(
        id=row["id"],
        token=Token(row["claim_id"], row["claim_number"]),
        task=row["task"],
        queue=row["queue"],
        key=row["key"],
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
        awaits=row["awaits"],
        held_for=None if row["held_for"] is None else HeldFor(row["held_for"]),
        tags=names_of(row["tags"]),
        headers=headers_in(row["extra"]),
        uniqueness=uniqueness_in(row["extra"]),
        member=None if row["flow"] is None else member_of(row["flow"], row["member"]),
        points=row["points"],
        attempts=attempts,
    )


def state_of(row: Row) -> State:
    """Return the state in which to show a row."""
    return _STATES[row["early_as"] or row["state"]]


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
        flow=row["flow"],
        fraction=row["fraction"],
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
        points=row["points"],
        rescued_by=row["rescued_by"],
        late_at=row["late_at"],
    )


def error_group_of(row: Row) -> ErrorGroup:
    """Return the group of failed jobs of a row of ``errors.sql``."""
    return group_of(
        row["id"],
        row["task"],
        None if row["reason"] is None else Reason(row["reason"]),
        failure_of(row["error"]),
        count=row["number"],
        first_at=row["first_at"],
        last_at=row["last_at"],
    )


def beat_of(row: Row) -> BeatView:
    """Return the note on a worker of a row of ``worker_history.sql``."""
    return BeatView(**row)


def queue_of(row: Row) -> QueueView:
    """Return the queue of a row of ``queues.sql``, without counts."""
    if row["key_weights"] is None:
        return QueueView(name=row["name"], paused_at=row["paused_at"], counts={})
    weights = json.decode(row["key_weights"], type=dict[str, int])
    origin = json.decode(row["origin"], type=Origin)
    settings = QueueSettings(priority=row["priority"], weight=row["weight"], key_weights=weights, origin=origin)
    return QueueView(name=row["name"], paused_at=row["paused_at"], counts={}, settings=settings)


def lease_of(row: Row) -> LeaseView:
    """Return the lease of a row of ``expired.sql`` or ``workers.sql``; one without a row that still has jobs counts as ended."""
    return LeaseView(
        id=row["id"],
        worker=row["worker"] or "",
        process=process_of(row["process"]),
        timing=timing_of(row["timing"]),
        overdue=row["overdue"] / 1e6,
        seen=row["seen"] or "",
        age=row["age"] / 1e6,
        holds=row["holds"],
        is_draining=bool(row["is_draining"]),
        end=end_of(row["end_reason"], is_draining=bool(row["is_draining"])) if row["is_ended"] else None,
        queues=names_of(row["queues"]),
        tasks=names_of(row["tasks"]),
        grace=row["grace"] or 0.0,
        slots=row["slots"] or 0,
        is_isolated=bool(row["is_isolated"]),
        declares=names_of(row["declares"]),
        claimed=row["claimed"],
    )

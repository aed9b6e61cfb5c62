"""The rows of a book as the checker reads them."""

from datetime import datetime

from holdfast._core.apart import is_apart
from holdfast._core.book.rows import Lease
from holdfast._core.payload import decode_json
from holdfast._core.record import JobRecord
from holdfast._core.unique_keys import key_kept_until
from proof.checker.history import JobRow, LeaseRow, label, token_in


def job_row(row: JobRecord, now: datetime, *, is_known: bool = True, hooks_committed: int = 0) -> JobRow:
    """Return the row of a job, in a write of that time."""
    return JobRow(
        state=row.state,
        token=row.token,
        lease=row.lease,
        attempt=row.attempt,
        failures=row.failures,
        crashes=row.crashes,
        policy=row.policy,
        is_cancel_requested=row.cancel_requested,
        witness=row.message or "",
        result=token_in(None if row.result is None or is_apart(row.result) else decode_json(row.result)),  # a token is short
        reason=row.reason,
        queue=row.queue,
        key="" if row.unique_key is None else f"{row.task}/{row.unique_key}",
        key_terms=row.uniqueness,
        key_kept=None if (until := key_kept_until(row)) is None else (until - now).total_seconds(),
        is_known=is_known,
        due_in=(row.available_at - now).total_seconds(),
        expires_in=None if row.expires_at is None else (row.expires_at - now).total_seconds(),
        is_owed=row.hook_due_at is not None,
        hooks_committed=hooks_committed,
        task=row.task,
        priority=row.priority,
        available_at=row.available_at.timestamp(),
        lane=row.key,
        member=row.member,
        awaits=row.awaits or "",
    )


def lease_row(lease: Lease, overdue: float) -> LeaseRow:
    """Return the row of a lease that ran out that many seconds ago."""
    spec, end = lease.spec, lease.end
    return LeaseRow(
        process=label(spec.process),
        worker=spec.worker,
        ttl=spec.timing.ttl,
        margin=spec.timing.margin,
        overdue=overdue,
        is_ended=end is not None,
        is_free=end is not None and end.is_free,
        culprits=end.charged_jobs if end is not None else {},
        is_draining=lease.is_draining,
        is_isolated=spec.is_isolated,
        grace=spec.grace,
        slots=spec.slots,
        tasks=spec.tasks,
        beat=spec.timing.beat,
    )

"""A job's record, and what each move makes of it. Stores in SQL state the same moves in their own statements."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import PLACE_OF, ActiveJob, AttemptOutcome, Failure, NewJob, Place, Reason, Rescue, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import HOOK_RETENTION, LONGEST_HOOK_DELAY, Policy

OUTCOME_OF = {
    State.COMPLETED: AttemptOutcome.COMPLETED,
    State.FAILED: AttemptOutcome.FAILED,
    State.CANCELLED: AttemptOutcome.CANCELLED,
}


class AttemptRecord(Struct, frozen=True, kw_only=True):
    """What is remembered of one attempt, keyed by job and token; a first-try success leaves none."""

    job: UUID
    token: Token
    attempt: int
    worker: str
    outcome: AttemptOutcome
    error: Failure | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    signal: str | None = None
    stacks: str | None = None
    late_result: bytes | None = None


class JobRecord(Struct, frozen=True, kw_only=True):
    """A job in full, read in one snapshot, its attempts included.

    ``is_stub``: its retention has passed, and only what repeated requests must be answered with is left of it.
    ``rescue``: the last one. ``hook_due_at``: its task's ``on_rescue`` is owed, and from when on.
    """

    id: UUID
    token: Token
    task: str
    queue: str
    priority: int
    state: State
    payload: bytes
    policy: Policy
    attempt: int
    failures: int
    crashes: int
    created_at: datetime
    available_at: datetime
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    error: Failure | None = None
    result: bytes | None = None
    lease: UUID | None = None
    worker: str | None = None
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    last_progress_at: datetime | None = None
    checkpoint: bytes | None = None
    cancel_requested: bool = False
    expires_at: datetime | None = None
    unique_key: str | None = None
    is_stub: bool = False
    rescue: Rescue | None = None
    hook_due_at: datetime | None = None
    tags: tuple[str, ...] = ()
    attempts: tuple[AttemptRecord, ...] = ()


class SettledAttempt(Struct, frozen=True):
    """What is remembered of one attempt, by its token; ``requested_state``: where its transition asked to go, before any
    cancellation mark; no ``record``: its code never ran, and it is remembered only to answer the same release sent again.
    ``prunable_from``: when an attempt may be pruned whose job has not finished; None: with its job."""

    requested_state: State
    record: AttemptRecord | None
    prunable_from: datetime | None = None


def new_record(job: NewJob, now: datetime) -> JobRecord:
    """A job just enqueued."""
    return JobRecord(
        id=job.id,
        token=Token(None, 0),
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        state=State.AVAILABLE,
        payload=job.payload,
        policy=job.policy,
        attempt=0,
        failures=0,
        crashes=0,
        created_at=now,
        available_at=job.run_at.astimezone(UTC) if job.run_at else _later(now, job.delay),
        expires_at=None if job.expires_in is None else _later(now, job.expires_in),
        unique_key=job.unique_key,
        tags=job.tags,
    )


def as_read(row: JobRecord, now: datetime) -> JobRecord:
    """The row as read: a waiting job that is not due yet is scheduled, by time alone."""
    is_early = row.state is State.AVAILABLE and row.available_at > now
    return structs.replace(row, state=State.SCHEDULED) if is_early else row


def is_expired(row: JobRecord, now: datetime) -> bool:
    """Whether its first attempt would come too late; one that was ever started never expires, nor does a held one."""
    return row.state is State.AVAILABLE and row.attempt == 0 and row.expires_at is not None and row.expires_at <= now


def needs_isolation(row: JobRecord) -> bool:
    """Return whether its next attempt has to run in isolation."""
    return row.policy.needs_isolation(row.crashes)


def retention_of(row: JobRecord) -> float:
    """Seconds for which the row is kept once its job has finished, so that a hook that is owed still finds all of it."""
    return row.policy.retention if row.hook_due_at is None else max(row.policy.retention, HOOK_RETENTION)


def with_hook_delayed(row: JobRecord, now: datetime, pause: float) -> JobRecord:
    """The row of a job that ended and whose hook is tried now, and again, if need be, the later the older it is."""
    age = (now - (row.finished_at or row.available_at)).total_seconds()
    return structs.replace(row, hook_due_at=_later(now, min(max(pause, age), LONGEST_HOOK_DELAY)))


def stub(row: JobRecord) -> JobRecord:
    """What is kept of a finished job between the end of its retention and the floor: id, token and outcome."""
    return structs.replace(row, payload=b"null", result=None, error=None, checkpoint=None, message=None, is_stub=True)


def active_job(row: JobRecord) -> ActiveJob:
    """An active row as its owner and its rescuers see it."""
    assert row.lease is not None
    return ActiveJob(
        id=row.id,
        token=row.token,
        lease=row.lease,
        task=row.task,
        state=row.state,
        attempt=row.attempt,
        failures=row.failures,
        crashes=row.crashes,
        policy=row.policy,
        cancel_requested=row.cancel_requested,
        queue=row.queue,
    )


def requeued(row: JobRecord, state: State, available_at: datetime) -> JobRecord:
    """Return the record to pending, without an owner; claim number, checkpoint and progress stay."""
    return structs.replace(
        row,
        token=Token(None, row.token.number),
        state=state,
        available_at=available_at,
        lease=None,
        worker=None,
        claimed_at=None,
        started_at=None,
    )


def settled(row: JobRecord, moved: Transition, now: datetime) -> JobRecord:
    """The active row after its transition, a requested cancellation already applied by ``with_cancellation``.

    A finished row keeps its token, so that the same settle is recognised when it comes again. A waiting one keeps its
    last error until it ends. A claim whose code never ran gives its attempt back.
    """
    attempt = row.attempt - (moved.never_ran and row.state is State.RUNNING)
    spent = structs.replace(row, attempt=attempt, failures=moved.failures, crashes=moved.crashes, reason=moved.reason)
    if moved.rescued is not None:
        rescue = Rescue(reason=moved.rescued, worker=row.worker or "", attempt=row.attempt, at=now)
        spent = structs.replace(spent, rescue=rescue, hook_due_at=now if moved.owes_hook else row.hook_due_at)
    elif moved.to is State.COMPLETED:
        spent = structs.replace(spent, hook_due_at=None)
    if PLACE_OF[moved.to] is Place.FINISHED:
        ended = structs.replace(spent, state=moved.to, error=moved.error, result=moved.result)
        return structs.replace(ended, lease=None, finished_at=now)
    waiting = requeued(spent, moved.to, row.available_at if moved.delay is None else _later(now, moved.delay))
    return structs.replace(waiting, error=moved.error or row.error)


def reopened(row: JobRecord, now: datetime) -> JobRecord:
    """The row as an operator's retry leaves it: due at once with fresh budgets; attempts and claim numbers go on.

    It does not expire any more: the operator wants it, late as it is.
    """
    fresh = structs.replace(row, failures=0, crashes=0, reason=None, error=None, result=None, finished_at=None, expires_at=None)
    return requeued(structs.replace(fresh, cancel_requested=False), State.AVAILABLE, now)


def attempt_to_keep(row: JobRecord, transition: Transition, now: datetime) -> SettledAttempt | None:
    """What to keep of the attempt that this transition ends; ``None`` when the finished row has all of it."""
    if transition.record is None:
        return None if PLACE_OF[transition.to] is Place.FINISHED else SettledAttempt(transition.to, None, now)
    record = AttemptRecord(
        job=row.id,
        token=row.token,
        attempt=row.attempt,
        worker=row.worker or "",
        outcome=transition.record,
        error=transition.error,
        started_at=row.started_at,
        ended_at=now,
        signal=transition.signal,
        stacks=transition.stacks,
    )
    is_brief = transition.to is State.AVAILABLE and transition.record in (AttemptOutcome.SNOOZED, AttemptOutcome.RELEASED)
    return SettledAttempt(transition.to, record, now if is_brief else None)


def record_of_finished(row: JobRecord) -> SettledAttempt:
    """The record of a finished job's last attempt, made when it is reopened: its row is about to forget the token."""
    record = AttemptRecord(
        job=row.id,
        token=row.token,
        attempt=row.attempt,
        worker=row.worker or "",
        outcome=OUTCOME_OF[row.state],
        error=row.error,
        started_at=row.started_at,
        ended_at=row.finished_at,
    )
    return SettledAttempt(row.state, record)


def _later(now: datetime, seconds: float) -> datetime:
    return now + timedelta(microseconds=round(seconds * 1e6))

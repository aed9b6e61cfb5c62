"""A job's record, and the changes that each move makes to it. SQL stores express the same moves in their statements."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.headers import Headers
from holdfast._core.job import (
    FINISHED,
    ActiveJob,
    AttemptOutcome,
    Claim,
    Failure,
    HeldFor,
    NewJob,
    Reason,
    Rescue,
    State,
    Token,
)
from holdfast._core.lifecycle import Transition
from holdfast._core.member import Member
from holdfast._core.policy import HOOK_RETENTION, LONGEST_HOOK_DELAY, Policy
from holdfast._core.requests import Choice, JobFilter
from holdfast._core.schedule import tag_of
from holdfast._core.text import in_lower_case, json_part
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness

OUTCOME_OF = {
    State.COMPLETED: AttemptOutcome.COMPLETED,
    State.FAILED: AttemptOutcome.FAILED,
    State.CANCELLED: AttemptOutcome.CANCELLED,
}


class AttemptRecord(Struct, frozen=True, kw_only=True, gc=False):
    """The record of one attempt, keyed by job and token; a first-try success leaves none.

    ``rescued_by``: the supervisor that took the job from its worker. ``late_at``: when a result or an error came after that.
    """

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
    points: str | None = None
    rescued_by: str | None = None
    late_at: datetime | None = None


class JobRecord(Struct, frozen=True, kw_only=True, gc=False):
    """A job in full, read in one snapshot, its attempts included.

    ``points``: the progress of the attempt that runs, or of the last one if that ended the job, as ``points_text`` writes it.
    ``is_stub``: its retention has passed, and only what the answer to repeated requests needs is left of it.
    ``rescue``: the last one. ``hook_due_at``: when its task's ``on_rescue`` is due, if one is owed. ``awaits``: the signal for which it
    waits; ``held_for``: why it is held. ``member``: what it is in its workflow.
    """

    id: UUID
    token: Token
    task: str
    queue: str
    key: str = ""
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
    awaits: str | None = None
    held_for: HeldFor | None = None
    tags: tuple[str, ...] = ()
    headers: Headers = ()
    member: Member | None = None
    points: str | None = None
    uniqueness: Uniqueness = UNTIL_FINISHED
    attempts: tuple[AttemptRecord, ...] = ()


class SettledAttempt(Struct, frozen=True, gc=False):
    """The record of one attempt, by its token. ``requested_state``: the target of its transition, before a requested cancellation
    applies. No ``record``: its code never ran, and it is kept only to answer the same release sent again. ``prunable_from``: when the
    attempt of an unfinished job may be pruned; None: with its job."""

    requested_state: State
    record: AttemptRecord | None
    prunable_from: datetime | None = None


def new_record(job: NewJob, now: datetime) -> JobRecord:
    """Return the record of a job that is enqueued now."""
    return JobRecord(
        id=job.id,
        token=Token(None, 0),
        task=job.task,
        queue=job.queue,
        key=job.key,
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
        headers=job.headers,
        uniqueness=job.uniqueness,
    )


def as_read(row: JobRecord, now: datetime) -> JobRecord:
    """Return the record as users read it: a job that is not due yet is shown as scheduled, or as blocked if it awaits a signal."""
    is_early = row.state is State.AVAILABLE and row.available_at > now
    return structs.replace(row, state=State.SCHEDULED if row.awaits is None else State.BLOCKED) if is_early else row


def is_expired(row: JobRecord, now: datetime) -> bool:
    """Return whether a first attempt would come too late. A job that was ever started does not expire, nor does a held one."""
    return row.state is State.AVAILABLE and row.attempt == 0 and row.expires_at is not None and row.expires_at <= now


def needs_isolation(row: JobRecord) -> bool:
    """Return whether the job's next attempt must run isolated."""
    return row.policy.needs_isolation(row.crashes)


def retention_of(row: JobRecord) -> float:
    """Return the seconds for which a finished job's row is kept; longer while a rescue hook is owed, which needs all of it."""
    kept = row.policy.retention_of(is_failed=row.state is State.FAILED)
    if row.state is State.COMPLETED and row.unique_key is not None and row.uniqueness.seconds is not None:
        kept = max(kept, row.uniqueness.seconds)  # it finished after its enqueue
    return kept if row.hook_due_at is None else max(kept, HOOK_RETENTION)


def with_hook_delayed(row: JobRecord, now: datetime, pause: float) -> JobRecord:
    """Return the record of an ended job whose rescue hook is tried now; a next try is due after a pause that grows with its age."""
    age = (now - (row.finished_at or row.available_at)).total_seconds()
    return structs.replace(row, hook_due_at=_later(now, min(max(pause, age), LONGEST_HOOK_DELAY)))


def stub(row: JobRecord) -> JobRecord:
    """Return what is kept of a finished job between the end of its retention and the floor: id, token and outcome."""
    return structs.replace(
        row, payload=b"null", result=None, error=None, checkpoint=None, message=None, points=None, is_stub=True
    )


def reported_fraction(row: JobRecord) -> float | None:
    """Return how far the attempt that runs has reported to be; the row's own fraction may be of an earlier one."""
    return None if row.points is None else row.fraction


def active_job(row: JobRecord) -> ActiveJob:
    """Return an active record as its owner and its rescuers see it."""
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
        flow=None if row.member is None else row.member.flow,
        fraction=reported_fraction(row),
    )


def claim_of(row: JobRecord) -> Claim:
    """Return an active record as its worker receives it."""
    return Claim(
        job=active_job(row),
        payload=row.payload,
        checkpoint=row.checkpoint,
        rescue=row.rescue,
        hook_due_at=row.hook_due_at,
        key=row.key,
        priority=row.priority,
        headers=row.headers,
        inputs=() if row.member is None else row.member.inputs,
        waited=0.0 if row.claimed_at is None else max(0.0, (row.claimed_at - row.available_at).total_seconds()),
    )


def requeued(row: JobRecord, state: State, available_at: datetime) -> JobRecord:
    """Return the record to pending, without an owner; claim number, checkpoint and progress stay, but not the points of the attempt."""
    return structs.replace(
        row,
        token=Token(None, row.token.number),
        state=state,
        available_at=available_at,
        lease=None,
        worker=None,
        claimed_at=None,
        started_at=None,
        awaits=None,
        held_for=None,
        points=None,
    )


def begun(row: JobRecord) -> JobRecord:
    """Return a claimed job as one whose code runs since it was claimed: its start was written on the lease."""
    return structs.replace(row, state=State.RUNNING, attempt=row.attempt + 1, started_at=row.claimed_at)


def settled(row: JobRecord, moved: Transition, now: datetime) -> JobRecord:
    """Return the active record after its transition, to which ``with_cancellation`` has been applied.

    A finished record keeps its token, so that a repeated settle is recognised. A waiting one keeps its last error until it ends. A claim
    whose code never ran does not count as an attempt.
    """
    attempt = row.attempt - (moved.never_ran and row.state is State.RUNNING)
    spent = structs.replace(row, attempt=attempt, failures=moved.failures, crashes=moved.crashes, reason=moved.reason)
    if moved.rescued is not None:
        rescue = Rescue(
            reason=moved.rescued, worker=row.worker or "", attempt=row.attempt, at=now, fraction=reported_fraction(row)
        )
        spent = structs.replace(spent, rescue=rescue, hook_due_at=now if moved.owes_hook else row.hook_due_at)
    elif moved.to is State.COMPLETED and row.hook_due_at is not None:
        spent = structs.replace(spent, hook_due_at=None)
    if moved.to in FINISHED:
        return structs.replace(spent, state=moved.to, error=moved.error, result=moved.result, lease=None, finished_at=now)
    waiting = requeued(spent, moved.to, row.available_at if moved.delay is None else _later(now, moved.delay))
    checkpoint = None if moved.forgets_steps else row.checkpoint
    return structs.replace(
        waiting, error=moved.error or row.error, awaits=moved.awaits, held_for=moved.held_for, checkpoint=checkpoint
    )


def reopened(row: JobRecord, now: datetime, *, is_fresh: bool = False) -> JobRecord:
    """Return the record after an operator's retry: due at once with fresh budgets; attempts and claim numbers continue.

    It does not expire any more, because the operator asked for it in spite of its age. ``is_fresh``: without its checkpoint.
    """
    fresh = structs.replace(row, failures=0, crashes=0, reason=None, error=None, result=None, finished_at=None, expires_at=None)
    fresh = structs.replace(fresh, cancel_requested=False, checkpoint=None if is_fresh else row.checkpoint)
    if row.state in FINISHED and row.unique_key is not None:
        is_freed = row.uniqueness.until_started and row.token.number > 0
        fresh = structs.replace(fresh, uniqueness=structs.replace(row.uniqueness, is_freed=is_freed))
    return requeued(fresh, State.AVAILABLE, now)


def attempt_to_keep(row: JobRecord, transition: Transition, now: datetime) -> SettledAttempt | None:
    """Return what to keep of the attempt that this transition ends; ``None`` if the finished record has all of it."""
    if transition.record is None:
        return None if transition.to in FINISHED else SettledAttempt(transition.to, None, now)
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
        points=row.points,
        rescued_by=transition.rescued_by,
    )
    is_brief = transition.to is State.AVAILABLE and transition.record in (AttemptOutcome.SNOOZED, AttemptOutcome.RELEASED)
    return SettledAttempt(transition.to, record, now if is_brief else None)


def record_of_finished(row: JobRecord) -> SettledAttempt:
    """Return the record of a finished job's last attempt, needed when it is reopened: its row is about to lose the token."""
    record = AttemptRecord(
        job=row.id,
        token=row.token,
        attempt=row.attempt,
        worker=row.worker or "",
        outcome=OUTCOME_OF[row.state],
        error=row.error,
        started_at=row.started_at,
        ended_at=row.finished_at,
        points=row.points,
    )
    return SettledAttempt(row.state, record)


def matches(view: JobRecord, which: JobFilter, now: datetime) -> bool:
    """Return whether a job, as it is read now, is one of those to list."""
    age = (now - (view.finished_at or view.created_at)).total_seconds()
    return (
        is_of(which.state, view.state)
        and is_of(which.reason, view.reason)
        and is_of(which.task, view.task)
        and is_of(which.queue, view.queue)
        and is_of(which.worker, view.worker)
        and which.key in (None, view.key)
        and (which.older_than is None or age >= which.older_than)
        and (which.attempts_at_least is None or view.attempt >= which.attempts_at_least)
        and (which.tag is None or any(is_of(which.tag, tag) for tag in view.tags))
        and (which.schedule is None or tag_of(which.schedule) in view.tags)
        and (which.workflow is None or (view.member is not None and view.member.flow == which.workflow))
        and which.is_rescued in (None, view.rescue is not None)
        and (which.text is None or _has_text(view, which.text))
        and (which.up_to is None or max(view.created_at, view.finished_at or view.created_at) <= which.up_to)
        and (which.error_key is None or (view.error is not None and view.error.key == which.error_key))
        and _is_within(view.created_at, which.created_after, which.created_before)
        and _is_within(view.available_at, which.available_after, which.available_before)
        and _is_within(view.finished_at, which.finished_after, which.finished_before)
        and (which.before is None or view.id < which.before)
        and (which.down_to is None or view.id >= which.down_to)
        and (not which.only_workflows or is_root(view))
    )


def is_of(choice: Choice, value: str | None) -> bool:
    """Return whether a value is one of those of a condition."""
    return choice is None or (value in choice if isinstance(choice, tuple) else value == choice)


def _has_text(view: JobRecord, text: str) -> bool:
    """Return whether the task's name or the error has this text. Errors are compared as they are written: in JSON."""
    wanted, error = in_lower_case(json_part(text)), view.error
    named = "" if error is None else f"{json_part(error.type)}: {json_part(error.message)}"
    return wanted in in_lower_case(json_part(view.task)) or wanted in in_lower_case(named)


def _is_within(at: datetime | None, after: datetime | None, before: datetime | None) -> bool:
    if at is None:
        return after is None and before is None
    return (after is None or at >= after) and (before is None or at < before)


def is_root(row: JobRecord) -> bool:
    """Return whether a job is the root of a workflow."""
    return row.member is not None and row.member.flow == row.id


def _later(now: datetime, seconds: float) -> datetime:
    return now + timedelta(microseconds=round(seconds * 1e6))

"""The values that users read: a job and its attempts, with JSON decoded. The command line and the dashboard print the same."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import AttemptOutcome, Claim, Failure, HeldFor, Json, Reason, Rescue, RescueReason, State
from holdfast._core.payload import decode_json
from holdfast._core.plain_view import PlainView
from holdfast._core.points import Point, track_of
from holdfast._core.record import AttemptRecord, JobRecord
from holdfast._core.uniqueness import UniqueUntil
from holdfast.errors import PayloadInvalid


class AttemptView(PlainView, frozen=True, kw_only=True):
    """One start of the handler. ``late_result``: what it returned after the job had been taken from its worker; ``late_at``: when that
    came, or an error. ``rescued_by``: the supervisor that took the job, if one did.

    ``points``: its progress, at most 32 reports of it; ``stage``, ``fraction`` and ``message``: the last ones.
    """

    attempt: int
    worker: str
    outcome: AttemptOutcome
    error: Failure | None
    started_at: datetime | None
    ended_at: datetime | None
    signal: str | None
    stacks: str | None
    late_result: Json
    error_key: str = ""
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    points: tuple[Point, ...] = ()
    rescued_by: str | None = None
    late_at: datetime | None = None

    @classmethod
    def of(cls, record: AttemptRecord) -> "AttemptView":
        """Return the view of an attempt's record."""
        known = {name: getattr(record, name) for name in _RECORDED}
        track = track_of(record.points)
        return cls(
            **known,
            late_result=_readable(record.late_result),
            error_key=_key(record.error),
            stage=track.last.stage,
            fraction=track.last.fraction,
            message=track.message,
            points=track.points,
        )


class JobView(PlainView, frozen=True, kw_only=True):
    """A job as read in one snapshot. ``attempt`` counts starts; ``attempts`` is filled by ``get``, not by ``list``.

    ``rescued``: why it was last taken from a worker while its code ran; ``rescued_at``: when; ``rescued_from``: which worker;
    ``rescued_fraction``: how far that attempt had reported to be.
    ``awaits``: the signal for which it waits. ``held_for``: why it is
    held. ``error_key``: failures of one cause share it; empty if there is none. ``points``: the progress of the attempt that runs, or of
    the last one if that ended the job.
    ``unique_for``: the seconds since its enqueue in which no other job of the task may have its ``unique_key``; ``unique_until``: whether
    it frees the key when it has finished or when it is first claimed.
    """

    id: UUID
    task: str
    queue: str
    priority: int
    state: State
    reason: Reason | None
    error: Failure | None
    payload: Json
    result: Json
    attempt: int
    failures: int
    crashes: int
    rescued: RescueReason | None
    max_attempts: int
    max_crashes: int
    created_at: datetime
    available_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    stage: str | None
    fraction: float | None
    message: str | None
    last_progress_at: datetime | None
    checkpoint: Json
    attempts: tuple[AttemptView, ...]
    tags: tuple[str, ...]
    expires_at: datetime | None
    unique_key: str | None
    key: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012 - a struct copies it
    workflow: UUID | None = None
    awaits: str | None = None
    held_for: HeldFor | None = None
    error_key: str = ""
    rescued_at: datetime | None = None
    rescued_from: str | None = None
    rescued_fraction: float | None = None
    points: tuple[Point, ...] = ()
    unique_for: float | None = None
    unique_until: UniqueUntil = "finished"

    @classmethod
    def of(cls, record: JobRecord) -> "JobView":
        """Return the view of a job's record; stored bytes that are not JSON are shown as text, because reading must not fail."""
        same = {name: getattr(record, name) for name in _SAME}
        return cls(
            **same,
            payload=_readable(record.payload),
            result=_readable(record.result),
            checkpoint=_readable(record.checkpoint),
            headers=dict(record.headers),
            rescued=None if record.rescue is None else record.rescue.reason,
            rescued_at=None if record.rescue is None else record.rescue.at,
            rescued_from=None if record.rescue is None else record.rescue.worker,
            rescued_fraction=None if record.rescue is None else record.rescue.fraction,
            max_attempts=record.policy.max_attempts,
            max_crashes=record.policy.max_crashes,
            workflow=None if record.member is None else record.member.flow,
            held_for=HeldFor.PAUSE if record.member is not None and record.member.is_paused else record.held_for,
            attempts=tuple(AttemptView.of(attempt) for attempt in record.attempts),
            error_key=_key(record.error),
            points=track_of(record.points).points,
            unique_for=record.uniqueness.seconds,
            unique_until=record.uniqueness.until,
        )


class RescuedJob(Struct, frozen=True, kw_only=True):
    """The rescue that ``on_rescue`` receives: which attempt was interrupted, why and when, and what happens to the job.

    ``state`` is ``running`` if the next attempt starts as soon as the hook's transaction has committed. Otherwise no attempt follows
    unless an operator acts: the job is ``held`` or has ended.

    >>> def heal(connection, job: RescuedJob) -> None:
    ...     status = "analyzing" if job.state == "running" else "broken"
    ...     connection.execute("UPDATE repos SET status = ? WHERE url = ?", [status, job.payload["url"]])
    """

    id: UUID
    task: str
    payload: Json
    checkpoint: Json
    reason: RescueReason
    worker: str
    attempt: int
    rescued_at: datetime
    state: State

    @classmethod
    def of_claim(cls, claim: Claim, rescue: Rescue) -> "RescuedJob":
        """Return the rescued job for a claim whose attempt is about to start."""
        hold = claim.job
        return cls._of(rescue, hold.id, hold.task, hold.state, claim.payload, claim.checkpoint)

    @classmethod
    def of_record(cls, record: JobRecord, rescue: Rescue) -> "RescuedJob":
        """Return the rescued job for a job that is held or has ended."""
        return cls._of(rescue, record.id, record.task, record.state, record.payload, record.checkpoint)

    @classmethod
    def _of(cls, rescue: Rescue, job: UUID, task: str, state: State, payload: bytes, checkpoint: bytes | None) -> "RescuedJob":
        return cls(
            id=job,
            task=task,
            payload=_readable(payload),
            checkpoint=_readable(checkpoint),
            reason=rescue.reason,
            worker=rescue.worker,
            attempt=rescue.attempt,
            rescued_at=rescue.at,
            state=state,
        )


_DECODED = {"held_for", "payload", "result", "checkpoint", "headers", "attempts", "points"}
_SAME = {field.name for field in structs.fields(JobRecord)} & {field.name for field in structs.fields(JobView)} - _DECODED


_RECORDED = {field.name for field in structs.fields(AttemptRecord)} & {field.name for field in structs.fields(AttemptView)} - {
    *("late_result", "points")
}


def _key(error: Failure | None) -> str:
    return "" if error is None else error.key


def _readable(data: bytes | None) -> Json:
    if data is None:
        return None
    try:
        return decode_json(data)
    except PayloadInvalid:
        return data.decode("utf-8", "replace")


class Rescued(Struct, frozen=True):
    """One job taken from a worker: why its lease ended, which attempt it was, and the job's new state."""

    id: UUID
    task: str
    reason: str
    worker: str
    attempt: int
    to: State

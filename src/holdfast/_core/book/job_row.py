"""The record of a job as JSON: short names, no defaults, and numbers for what many records of one object share."""

from base64 import b64decode, b64encode
from datetime import datetime
from typing import Self
from uuid import UUID

from msgspec import Struct

from holdfast._core.headers import Headers
from holdfast._core.job import Failure, HeldFor, Reason, Rescue, State, Token
from holdfast._core.member import Member
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness

_BINARY = "\0"
"""What the string of a body begins with that is not UTF-8, or that begins with this itself."""


class SharedWritten(Struct):
    """What several rows of one object name by its position: strings and policies."""

    strings: dict[str, int] = {}
    policies: dict[Policy, int] = {}

    def string(self, string: str) -> int:
        """Return the position of a string."""
        return self.strings.setdefault(string, len(self.strings))

    def policy(self, policy: Policy) -> int:
        """Return the position of a policy."""
        return self.policies.setdefault(policy, len(self.policies))


class SharedRead(Struct):
    """The same as read: by position."""

    strings: list[str]
    policies: list[Policy]
    ids: dict[int, UUID] = {}

    def id(self, position: int) -> UUID:
        """Return the id whose string is at a position; all rows get the same object."""
        if position not in self.ids:
            self.ids[position] = UUID(self.strings[position])
        return self.ids[position]


_SHORT = {
    "attempt": "a",
    "available_at": "av",
    "cancel_requested": "cancel",
    "checkpoint": "cp",
    "claim": "c",
    "claimed_at": "cl",
    "crashes": "cr",
    "created_at": "at",
    "error": "err",
    "expires_at": "exp",
    "failures": "f",
    "finished_at": "fin",
    "fraction": "frac",
    "held_for": "held",
    "hook_due_at": "hook",
    "is_stub": "stub",
    "key": "k",
    "last_progress_at": "prog",
    "lease": "l",
    "message": "msg",
    "number": "n",
    "payload": "p",
    "points": "pts",
    "policy": "pol",
    "priority": "pr",
    "queue": "q",
    "reason": "why",
    "result": "r",
    "started_at": "st",
    "state": "s",
    "task": "t",
    "unique_key": "u",
    "uniqueness": "uu",
    "worker": "w",
}


class JobRow(Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_SHORT):
    """A record of a job. ``available_at``: ``None``: at the time at which it was created."""

    id: UUID
    created_at: datetime
    payload: str
    task: int
    queue: int
    policy: int
    state: State = State.AVAILABLE
    claim: int | None = None
    number: int = 0
    key: str = ""
    priority: int = 0
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    available_at: datetime | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    error: Failure | None = None
    result: str | None = None
    lease: int | None = None
    worker: int | None = None
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    last_progress_at: datetime | None = None
    checkpoint: str | None = None
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

    @classmethod
    def of(cls, job: JobRecord, shared: SharedWritten) -> Self:  # size: one line for each field
        return cls(
            id=job.id,
            created_at=job.created_at,
            payload=body_text(job.payload),
            task=shared.string(job.task),
            queue=shared.string(job.queue),
            policy=shared.policy(job.policy),
            state=job.state,
            claim=None if job.token.claim is None else shared.string(str(job.token.claim)),
            number=job.token.number,
            key=job.key,
            priority=job.priority,
            attempt=job.attempt,
            failures=job.failures,
            crashes=job.crashes,
            available_at=None if job.available_at == job.created_at else job.available_at,
            claimed_at=job.claimed_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            reason=job.reason,
            error=job.error,
            result=None if job.result is None else body_text(job.result),
            lease=None if job.lease is None else shared.string(str(job.lease)),
            worker=None if job.worker is None else shared.string(job.worker),
            stage=job.stage,
            fraction=job.fraction,
            message=job.message,
            last_progress_at=job.last_progress_at,
            checkpoint=None if job.checkpoint is None else body_text(job.checkpoint),
            cancel_requested=job.cancel_requested,
            expires_at=job.expires_at,
            unique_key=job.unique_key,
            is_stub=job.is_stub,
            rescue=job.rescue,
            hook_due_at=job.hook_due_at,
            awaits=job.awaits,
            held_for=job.held_for,
            tags=job.tags,
            headers=job.headers,
            member=job.member,
            points=job.points,
            uniqueness=job.uniqueness,
        )

    def record(self, shared: SharedRead) -> JobRecord:  # size: one line for each field
        """Return the record of the job."""
        return JobRecord(
            id=self.id,
            token=Token(None if self.claim is None else shared.id(self.claim), self.number),
            task=shared.strings[self.task],
            queue=shared.strings[self.queue],
            key=self.key,
            priority=self.priority,
            state=self.state,
            payload=body_of(self.payload),
            policy=shared.policies[self.policy],
            attempt=self.attempt,
            failures=self.failures,
            crashes=self.crashes,
            created_at=self.created_at,
            available_at=self.created_at if self.available_at is None else self.available_at,
            claimed_at=self.claimed_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            reason=self.reason,
            error=self.error,
            result=None if self.result is None else body_of(self.result),
            lease=None if self.lease is None else shared.id(self.lease),
            worker=None if self.worker is None else shared.strings[self.worker],
            stage=self.stage,
            fraction=self.fraction,
            message=self.message,
            last_progress_at=self.last_progress_at,
            checkpoint=None if self.checkpoint is None else body_of(self.checkpoint),
            cancel_requested=self.cancel_requested,
            expires_at=self.expires_at,
            unique_key=self.unique_key,
            is_stub=self.is_stub,
            rescue=self.rescue,
            hook_due_at=self.hook_due_at,
            awaits=self.awaits,
            held_for=self.held_for,
            tags=self.tags,
            headers=self.headers,
            member=self.member,
            points=self.points,
            uniqueness=self.uniqueness,
        )


def body_text(body: bytes) -> str:
    """Return a payload, result or checkpoint as a string: it is JSON in almost all cases, and stays readable."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = _BINARY
    return _BINARY + b64encode(body).decode() if text.startswith(_BINARY) else text


def body_of(text: str) -> bytes:
    """Return the body of such a string."""
    return b64decode(text[1:]) if text.startswith(_BINARY) else text.encode()

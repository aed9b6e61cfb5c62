"""The nouns: a job, who holds it, and what is remembered of it.

Every value is frozen. Durations are float seconds; instants are aware UTC datetimes and appear
only in what is *read*, because whoever decides about time must ask the store's clock.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import Struct

from holdfast._core.policy import Policy


class State(StrEnum):
    """What a job is doing, as users see it."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    BLOCKED = "blocked"
    HELD = "held"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Place(StrEnum):
    """Where a job is kept; it is in exactly one place, and a move is atomic."""

    PENDING = "pending"
    ACTIVE = "active"
    FINISHED = "finished"


PLACE_OF = {
    State.SCHEDULED: Place.PENDING,
    State.AVAILABLE: Place.PENDING,
    State.BLOCKED: Place.PENDING,
    State.HELD: Place.PENDING,
    State.CLAIMED: Place.ACTIVE,
    State.RUNNING: Place.ACTIVE,
    State.COMPLETED: Place.FINISHED,
    State.FAILED: Place.FINISHED,
    State.CANCELLED: Place.FINISHED,
}


class Reason(StrEnum):
    """Why a job failed or was cancelled: a closed list."""

    HANDLER_ERROR = "HANDLER_ERROR"
    PERMANENT = "PERMANENT"
    WORKER_CRASHED = "WORKER_CRASHED"
    STALLED = "STALLED"
    TIMED_OUT = "TIMED_OUT"
    PAYLOAD_INVALID = "PAYLOAD_INVALID"
    RESULT_INVALID = "RESULT_INVALID"
    EXPIRED = "EXPIRED"
    BY_OPERATOR = "BY_OPERATOR"
    BY_HANDLER = "BY_HANDLER"


class RescueReason(StrEnum):
    """Why a job was taken from an owner whose code had not answered, or given back by it: a closed list.

    DEAF, STALLED and TIMED_OUT name what this very job did; for CRASHED, EXPIRED and CLOSED see how its worker's lease ended.
    RELEASED: its code was cut short by a drain or a self-stop.
    """

    CRASHED = "crashed"
    EXPIRED = "expired"
    CLOSED = "closed"
    RELEASED = "released"
    DEAF = "deaf"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"


class AttemptOutcome(StrEnum):
    """How one start of a handler ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CRASHED = "crashed"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    RELEASED = "released"
    SNOOZED = "snoozed"


class Token(Struct, frozen=True):
    """The right to change one job: the claim's 128 random bits and the claim's growing number.

    A pending job is owned by nobody: its token is ``Token(None, number)``. The random part is
    needed because a store that lost its newest writes can hand out the same number again.
    """

    claim: UUID | None
    number: int

    def __str__(self) -> str:
        return f"{self.number}:{self.claim.hex if self.claim else '-'}"


class Failure(Struct, frozen=True):
    """An exception as data: type and message, and a traceback without local variables."""

    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class NewJob(Struct, frozen=True, kw_only=True):
    """A job to be: everything enqueue writes. ``payload`` is JSON; ``delay`` is used unless ``run_at`` is given.

    ``expires_in``: seconds after which a first attempt is not worth starting. ``unique_key``: one unfinished job of the
    task may have it.
    """

    id: UUID
    task: str
    payload: bytes
    policy: Policy
    queue: str = "default"
    priority: int = 0
    delay: float = 0.0
    run_at: datetime | None = None
    expires_in: float | None = None
    unique_key: str | None = None
    tags: tuple[str, ...] = ()


class ActiveJob(Struct, frozen=True, kw_only=True):
    """An active job as its owner, an auditor or a rescuer sees it: all that a decision needs."""

    id: UUID
    token: Token
    lease: UUID
    task: str
    state: State
    attempt: int
    failures: int
    crashes: int
    policy: Policy
    cancel_requested: bool = False
    queue: str = "default"


class Rescue(Struct, frozen=True, kw_only=True):
    """How a job was taken from its owner while its code ran: why, from which worker and attempt, and when."""

    reason: RescueReason
    worker: str
    attempt: int
    at: datetime


class Claim(Struct, frozen=True, kw_only=True):
    """What a claim hands to its worker: the hold, and what the handler needs to run.

    ``rescue``: the job's last one. ``hook_due_at``: the mark of a hook that is owed before the handler runs.
    """

    job: ActiveJob
    payload: bytes
    checkpoint: bytes | None = None
    rescue: Rescue | None = None
    hook_due_at: datetime | None = None


Json = Any  # JSON data after decoding; the one place where shape is the user's own business

"""The values of a job: its states, its owner's token, its claims and its outcomes.

Every value is frozen. Durations are float seconds. Instants are aware UTC datetimes and appear only in what is *read*, because a
decision about time must ask the store's clock.
"""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any
from uuid import UUID

from msgspec import Struct

from holdfast._core.headers import Headers
from holdfast._core.member import Input
from holdfast._core.policy import Policy
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness


class State(StrEnum):
    """The state of a job, as users see it."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    BLOCKED = "blocked"
    HELD = "held"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # that of Enum is slow Python code, and much is looked up by state


class Place(StrEnum):
    """The three groups of states: a job is in exactly one of them, and a move between them is atomic."""

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
ACTIVE = frozenset(state for state, place in PLACE_OF.items() if place is Place.ACTIVE)
FINISHED = frozenset(state for state, place in PLACE_OF.items() if place is Place.FINISHED)


class Reason(StrEnum):
    """The reason why a job failed or was cancelled: a closed list."""

    HANDLER_ERROR = "HANDLER_ERROR"
    PERMANENT = "PERMANENT"
    WORKER_CRASHED = "WORKER_CRASHED"
    STALLED = "STALLED"
    TIMED_OUT = "TIMED_OUT"
    PAYLOAD_INVALID = "PAYLOAD_INVALID"
    RESULT_INVALID = "RESULT_INVALID"
    STEPS_CHANGED = "STEPS_CHANGED"
    EXPIRED = "EXPIRED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    BY_OPERATOR = "BY_OPERATOR"
    BY_HANDLER = "BY_HANDLER"
    BY_WORKFLOW = "BY_WORKFLOW"


class NoResult(StrEnum):
    """Why a dependent gets a ``Failed`` from a parent that names no reason: it failed without one, was cancelled, or its result is gone."""

    WORKER_CRASHED = "WORKER_CRASHED"
    TASK_CANCELLED = "TASK_CANCELLED"
    RESULT_NOT_AVAILABLE = "RESULT_NOT_AVAILABLE"


class RescueReason(StrEnum):
    """The reason why a job was taken from an owner whose code had not finished, or was released by it: a closed list.

    UNRESPONSIVE, STALLED and TIMED_OUT name what this job did. CRASHED, EXPIRED and CLOSED name how its worker's lease
    ended. RELEASED: a drain or a self-stop interrupted its code.
    """

    CRASHED = "crashed"
    EXPIRED = "expired"
    CLOSED = "closed"
    RELEASED = "released"
    UNRESPONSIVE = "unresponsive"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"


class HeldFor(StrEnum):
    """The reason why a job is held: its worker ended while it ran, its workflow is paused, or its code was changed under its steps."""

    CRASH = "crash"
    PAUSE = "pause"
    STEPS = "steps"


class AttemptOutcome(StrEnum):
    """The outcome of one start of a handler."""

    COMPLETED = "completed"
    FAILED = "failed"
    CRASHED = "crashed"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    RELEASED = "released"
    SNOOZED = "snoozed"


class Token(Struct, frozen=True, gc=False):
    """The right to change one job: the claim's 128 random bits and the claim's growing number.

    A pending job has no owner: its token is ``Token(None, number)``. The random part is needed because a store that lost its newest
    writes can issue the same number again.
    """

    claim: UUID | None
    number: int

    def __str__(self) -> str:
        return f"{self.number}:{self.claim.hex if self.claim else '-'}"


RUNNER_UNAVAILABLE = "RUNNER_UNAVAILABLE"
"""The type of the failure on a waiting job for which a worker could not start a process."""


class Failure(Struct, frozen=True):
    """An exception as data: type and message, a traceback without local variables, and the fingerprint of its cause.

    ``path``: the exception's class with its module, such as ``builtins.KeyError``; empty if no exception was raised.
    ``key``: failures of one cause share it; empty if the job never ran, or failed under a release without fingerprints.
    """

    type: str
    message: str
    traceback: str = ""
    path: str = ""
    key: str = ""  # stays last, where PostgreSQL reads it in the JSON

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class Failed(Struct, frozen=True):
    """The outcome of a parent that did not complete, as its dependent gets it in place of a result.

    ``reason``: that of its failure, or a ``NoResult``.
    """

    reason: str
    error: Failure | None = None


class NewJob(Struct, frozen=True, kw_only=True, gc=False):  # in no cycle, and thousands are made at once
    """A new job: all that enqueue writes. ``payload`` is JSON; ``delay`` is used unless ``run_at`` is given.

    ``expires_in``: seconds after which a first attempt must not start any more. ``key``: usually the
    tenant; jobs are listed and steered by it. ``unique_key``: only one job of the task may hold it; ``uniqueness``: for how long.
    """

    id: UUID
    payload: bytes
    task: str
    policy: Policy
    queue: str = "default"
    key: str = ""
    priority: int = 0
    delay: float = 0.0
    run_at: datetime | None = None
    expires_in: float | None = None
    unique_key: str | None = None
    tags: tuple[str, ...] = ()
    headers: Headers = ()
    uniqueness: Uniqueness = UNTIL_FINISHED


ALL_BUT_PAYLOAD: Callable[[NewJob], tuple[object, ...]] = attrgetter(*NewJob.__struct_fields__[2:])
"""Returns all values of a new job but its id and its payload: jobs of one call often share them."""


class ActiveJob(Struct, frozen=True, kw_only=True):
    """An active job as its owner, an auditor or a rescuer sees it: all that a decision needs. ``flow``: the workflow it belongs to.

    ``fraction``: how far the attempt has reported to be, where that was read.
    """

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
    flow: UUID | None = None
    fraction: float | None = None


class Rescue(Struct, frozen=True, kw_only=True):
    """The last time a job was taken from its owner while its code ran: why, from which worker and attempt, and when.

    ``fraction``: how far the attempt had reported to be.
    """

    reason: RescueReason
    worker: str
    attempt: int
    at: datetime
    fraction: float | None = None


class Claim(Struct, frozen=True, kw_only=True):
    """A claimed job as its worker receives it: the active job, and what the handler needs to run.

    ``rescue``: the job's last one. ``hook_due_at``: set if the rescue hook must run before the handler; it also identifies this hook.
    ``inputs``: the parameters that the payload lacks, because they are outcomes of other jobs. ``results``: those that the store
    had at hand, by the positions of the inputs; all others are read when the job begins. ``waited``: for how many seconds it had been
    due when it was claimed, on the clock of the store. ``failed``: those of the parameters, once the
    payload has all others, that have no result; ``failed_items``: the items of lists that have none.
    """

    job: ActiveJob
    payload: bytes
    checkpoint: bytes | None = None
    rescue: Rescue | None = None
    hook_due_at: datetime | None = None
    key: str = ""
    priority: int = 0
    headers: Headers = ()
    inputs: tuple[Input, ...] = ()
    results: tuple[bytes | None, ...] = ()
    waited: float = 0.0
    failed: tuple[tuple[str, Failed], ...] = ()
    failed_items: tuple[tuple[str, int, Failed], ...] = ()


Json = Any  # JSON data after decoding: the user decides its shape

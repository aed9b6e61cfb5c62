"""What a store answers, as values. Losing a race is one of them, never an exception."""

from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, Claim, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.timing import LeaseTiming

MOST_ATTEMPTS = 100
"""Of one job, that are read at once."""


class Answer(StrEnum):
    """What became of one fenced write.

    APPLIED: it is so now (also when an earlier copy of the same write did it). LOST: another claim owns or
    owned the job; nothing changed. MISSING: no trace of the job in any place, read in one snapshot. BUSY: nothing changed, and
    nothing is known, because another session has a row of the job locked: it must be asked again.
    """

    APPLIED = "applied"
    LOST = "lost"
    MISSING = "missing"
    BUSY = "busy"


class Capabilities(Struct, frozen=True):
    """What differs between stores and the engine must know.

    ``lease_clock``: whose time leases are judged by. ``kernel``: the monotonic clock that all processes of the
    machine share; ``server``: the store's own; ``none``: readers time the lease's changes themselves.
    ``warnings``: what to log when work starts, each with its remedy. ``caller_transaction``: jobs can be enqueued
    inside the caller's own transaction, and a handler's rows committed together with the check of its token.
    """

    name: str
    lease_clock: Literal["kernel", "server", "none"]
    warnings: tuple[str, ...] = ()
    caller_transaction: bool = False


class Duplicate(Struct, frozen=True):
    """An unfinished job of the task has the key already. ``is_same``: with the same payload."""

    job: UUID
    is_same: bool


class EnqueueAnswer(Struct, frozen=True):
    """``duplicates``: by the id of the job that was not inserted, the one that has its key. ``is_lost``: nothing was
    inserted, because the job under whose token it was to happen has another owner."""

    duplicates: dict[UUID, Duplicate] = {}
    is_lost: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether nothing was inserted because a key is taken by a job with another payload."""
        return any(not duplicate.is_same for duplicate in self.duplicates.values())


class ReopenAnswer(Struct, frozen=True):
    """``states``: what each known job is in now. ``taken``: those left finished, and who has their unique key now."""

    states: dict[UUID, State]
    taken: dict[UUID, UUID] = {}


class LeaseView(Struct, frozen=True, kw_only=True):
    """A lease as read. ``overdue``: seconds since its expiry on the store's clock, negative while it is alive.

    ``seen`` is an opaque mark of this state of the lease: it changes with every beat. ``end`` is set once it has ended.
    """

    id: UUID
    worker: str
    process: ProcessIdentity
    timing: LeaseTiming
    overdue: float
    seen: str
    age: float
    holds: int = 0
    is_draining: bool = False
    end: LeaseEnd | None = None
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    grace: float = 20.0
    slots: int = 0
    is_isolated: bool = False


class BeatAnswer(Struct, frozen=True):
    """``alive``: leases that were renewed. ``gone``: leases that ended or never were. ``cancelled``: active jobs, by
    lease, that an operator marked. ``elapsed``: seconds on the store's clock since the oldest previous beat of these
    leases, ``None`` when none was renewed. A lease that is neither alive nor gone has no answer, because another session has it
    locked."""

    alive: frozenset[UUID]
    gone: frozenset[UUID]
    cancelled: dict[UUID, tuple[UUID, ...]]
    elapsed: float | None = None


class ExchangeAnswer(Struct, frozen=True):
    """One answer per transition, in order, and the jobs claimed."""

    answers: tuple[Answer, ...] = ()
    claims: tuple[Claim, ...] = ()


class OverdueJob(Struct, frozen=True):
    """An active job far past a limit of its task, whose owner's supervisor should have acted long ago. ``timing``: its lease's."""

    job: ActiveJob
    worker: str
    charge: RescueReason
    timing: LeaseTiming


class ExpiredJob(Struct, frozen=True):
    """A job that no worker started in time, and which has failed for it."""

    job: UUID
    task: str


class DueJob(Struct, frozen=True):
    """A job that a claim would take now. ``claim_number``: of its last claim, so that it names this wait and no other."""

    job: UUID
    queue: str
    claim_number: int


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue that has jobs or is paused."""

    name: str
    paused_at: datetime | None = None
    counts: dict[State, int] = {}


class Pruned(Struct, frozen=True):
    """How much one pass of pruning took away. ``stubs``: finished jobs reduced to their outcome. ``attempts``: of jobs that
    are kept, records of those that only snoozed or were released."""

    jobs: int = 0
    stubs: int = 0
    receipts: int = 0
    leases: int = 0
    attempts: int = 0

    @property
    def total(self) -> int:
        """The number of records that were removed or reduced."""
        return self.jobs + self.stubs + self.receipts + self.leases + self.attempts


class Purged(Struct, frozen=True):
    """How many jobs one batch of a purge deleted; ``until``, by the store's clock: later jobs were left alone."""

    jobs: int
    until: datetime


class Check(Struct, frozen=True):
    """One finding about the store's health; ``remedy``: what to do."""

    level: Literal["ok", "warning", "error"]
    name: str
    message: str
    remedy: str = ""

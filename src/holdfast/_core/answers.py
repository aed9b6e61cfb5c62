"""The answers of a store, as values. A lost race is one of them, never an exception."""

from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, Claim, RescueReason, State
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.plain_view import PlainView
from holdfast._core.requests import QueueSettings
from holdfast._core.timing import LeaseTiming

MOST_ATTEMPTS = 100
"""The most attempts of one job that are read at once."""
UNREAD = 1.0
"""The most seconds that ``next_due`` returns when it left lanes out, because a job in one of them may be due."""


class Answer(StrEnum):
    """The result of one fenced write.

    APPLIED: the write is in effect (also if an earlier copy of it did it). LOST: another claim owns or owned the job; nothing changed.
    MISSING: the store has no record of the job, read in one snapshot. BUSY: nothing changed, and nothing is known, because another
    session has a row of the job locked: the caller must send it again.
    """

    APPLIED = "applied"
    LOST = "lost"
    MISSING = "missing"
    BUSY = "busy"


class Capabilities(Struct, frozen=True):
    """The differences between stores that the engine must know.

    ``lease_clock``: the clock by which leases are judged. ``kernel``: the monotonic clock that all processes of the machine share;
    ``server``: the store's own; ``none``: readers time the lease's changes themselves. ``warnings``: what to log when a worker
    starts, each with its remedy; ``notices``: the same at the level info.
    ``caller_transaction``: jobs can be enqueued inside the caller's own transaction, and a handler's rows
    committed together with the check of its token. ``prefetch``: workers gain by claiming jobs ahead, to start many in one write.
    """

    name: str
    lease_clock: Literal["kernel", "server", "none"]
    warnings: tuple[str, ...] = ()
    caller_transaction: bool = False
    prefetch: bool = False
    notices: tuple[str, ...] = ()


class Duplicate(Struct, frozen=True):
    """The unfinished job of the task that has the key already. ``is_same``: it has the same payload."""

    job: UUID
    is_same: bool


class EnqueueAnswer(Struct, frozen=True):
    """The answer of an enqueue call. ``duplicates``: by the id of a job that was not inserted, the job that has its key. ``is_lost``:
    nothing was inserted, because the job whose token the call depends on has another owner."""

    duplicates: dict[UUID, Duplicate] = {}
    is_lost: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether nothing was inserted because a job with another payload has a key."""
        return any(not duplicate.is_same for duplicate in self.duplicates.values())


class ReopenAnswer(Struct, frozen=True):
    """The answer of a reopen call. ``states``: the state of each known job now. ``taken``: the jobs left finished, each with the job
    that has its unique key now."""

    states: dict[UUID, State]
    taken: dict[UUID, UUID] = {}


class LeaseView(Struct, frozen=True, kw_only=True):
    """A lease as read. ``overdue``: seconds since its expiry on the store's clock, negative before.

    ``seen`` is an opaque string for this state of the lease: it changes with every beat. ``end`` is set once the lease has ended.
    ``holds``: the jobs it has; ``claimed``: those of them whose code has not started.
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
    declares: tuple[str, ...] = ()
    claimed: int = 0


class BeatView(Struct, frozen=True, kw_only=True):
    """The state of a worker at one of its beats, as its supervisor saw it; ``None``: it did not know.

    ``running``: jobs whose code ran; ``claimed``: jobs it held beside those; both as of ``answered_at``, when it last answered a ping.
    ``memory``: bytes that its process occupied. ``loop_lag``: the longest that its event loop took to answer a ping since the beat before.
    """

    worker: str
    at: datetime
    running: int | None
    claimed: int | None
    slots: int
    memory: int | None
    loop_lag: float | None
    answered_at: datetime | None


class BeatAnswer(Struct, frozen=True):
    """The answer of a beat. ``alive``: leases that were renewed. ``gone``: leases that ended or never existed. ``cancelled``: by lease, the
    active jobs with a requested cancellation. ``elapsed``: seconds on the store's clock since the oldest previous beat of these leases,
    ``None`` if none was renewed. A lease that is neither alive nor gone has no answer, because another session has it locked. ``draining``:
    those of the living ones whose workers are to take no more jobs, because their supervisor ends or an operator wants it."""

    alive: frozenset[UUID]
    gone: frozenset[UUID]
    cancelled: dict[UUID, tuple[UUID, ...]]
    elapsed: float | None = None
    draining: frozenset[UUID] = frozenset()


class ExchangeAnswer(Struct, frozen=True):
    """The answer of an exchange: one for each transition, in order, and the jobs claimed.

    ``cursor``: that of the next claim. ``is_whole``: the claim looked at all lanes, or is full. Else lanes are left in which jobs may be
    due: the caller asks again at once. ``has_limited``: there are limits, so a claim of the other kind may find jobs.
    """

    answers: tuple[Answer, ...] = ()
    claims: tuple[Claim, ...] = ()
    cursor: Cursor = ()
    is_whole: bool = True
    has_limited: bool = False


class OverdueJob(Struct, frozen=True):
    """An active job so far past a limit of its task that other supervisors may rescue it: its own supervisor should have acted before.

    ``charge``: the limit that it passed. ``timing``: the timing of the lease that holds it.
    """

    job: ActiveJob
    worker: str
    charge: RescueReason
    timing: LeaseTiming


class ExpiredJob(Struct, frozen=True):
    """A job that failed because no worker started it before it expired."""

    job: UUID
    task: str


class DueJob(Struct, frozen=True):
    """A job that a claim would take now. ``claim_number``: that of its last claim, which identifies this period of waiting."""

    job: UUID
    queue: str
    claim_number: int


class QueueView(PlainView, frozen=True, kw_only=True):
    """A queue that has jobs, is paused, or has settings. ``capped``: states of which not all jobs were counted; it may have more."""

    name: str
    paused_at: datetime | None = None
    counts: dict[State, int] = {}  # noqa: RUF012 - a struct copies it
    settings: QueueSettings = QueueSettings()
    capped: tuple[State, ...] = ()


class Pruned(Struct, frozen=True):
    """The numbers of records that one pass of pruning removed. ``stubs``: finished jobs reduced to their outcome. ``attempts``: attempts
    of kept jobs that only snoozed or were released. ``beats``: of the history of workers."""

    jobs: int = 0
    stubs: int = 0
    receipts: int = 0
    leases: int = 0
    attempts: int = 0
    beats: int = 0

    @property
    def total(self) -> int:
        """The number of records that were removed or reduced."""
        return self.jobs + self.stubs + self.receipts + self.leases + self.attempts + self.beats


class Vitals(Struct, frozen=True):
    """How a store is kept. ``schema_version``: of its tables or objects. ``prune_lag``: for how many seconds the finished job that is
    pruned next has waited for that, or its day, where whole days are pruned."""

    schema_version: int
    prune_lag: float


class SteerAnswer(Struct, frozen=True):
    """The state of each job now, absent if unknown, and which jobs were left alone: they had moved, or another session has them locked."""

    states: dict[UUID, State]
    left: frozenset[UUID] = frozenset()


class Purged(Struct, frozen=True):
    """The number of jobs that one batch of a purge deleted. ``until``: on the store's clock; jobs enqueued later were kept."""

    jobs: int
    until: datetime


class Check(Struct, frozen=True):
    """One finding about the store's health; ``remedy``: what to do."""

    level: Literal["ok", "warning", "error"]
    name: str
    message: str
    remedy: str = ""


def due_in(wait: int | None, *, is_cut: bool) -> float | None:
    """Return the seconds until a job is due, from the microseconds of the lanes that were read; ``is_cut``: others were left out.

    >>> due_in(2_500_000, is_cut=False), due_in(None, is_cut=True)
    (2.5, 1.0)
    """
    seconds = None if wait is None else max(0.0, wait / 1e6)
    return seconds if not is_cut else UNREAD if seconds is None else min(seconds, UNREAD)

# size: the contract between the engine and every store is read in one piece
"""The store port: the only owner. Each verb with its promise.

Every verb is atomic. Durations cross this port, never instants, except those a user gave (``run_at``);
what *now* is, the store decides. Losing a race is a value, never an exception. Any exception out of a
verb means *unknown*: it may or may not have happened. Every verb may therefore be sent again. One exception is an answer:
``StoreBusy`` says that a lock of another session was not free in time, and that nothing happened.
"""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, Claim, Failure, JobRecord, NewJob, State, Token
from holdfast._core.lifecycle import Charge, LeaseEnd, Transition
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming

MOST_ATTEMPTS = 100
"""Of one job, that are read at once."""


class Answer(StrEnum):
    """What became of one fenced write.

    APPLIED: it is so now (also when an earlier copy of the same write did it). LOST: somebody else owns or
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
    ``warnings``: what should be said when work starts, each with its remedy. ``caller_transaction``: jobs can be enqueued
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
    inserted, because the job under whose token it was to happen is somebody else's."""

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


class NewLease(Struct, frozen=True):
    """A worker incarnation's right to hold claims: a client-made id, who it is, and its timing.

    ``grace``: seconds its code gets to stop. ``slots``: how many jobs it runs at once. ``is_alone``: it takes last tries
    only, asks for one at a time, and gets none while it holds one.
    """

    id: UUID
    worker: str
    process: ProcessIdentity
    timing: LeaseTiming
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    grace: float = 20.0
    slots: int = 0
    is_alone: bool = False


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
    is_alone: bool = False


class BeatAnswer(Struct, frozen=True):
    """``alive``: leases that were renewed. ``gone``: leases that ended or never were. ``cancelled``: active jobs, by
    lease, that an operator marked. ``elapsed``: seconds on the store's clock since the oldest previous beat of these
    leases, ``None`` when none was renewed. A lease that is neither alive nor gone has no answer, because another session has it
    locked."""

    alive: frozenset[UUID]
    gone: frozenset[UUID]
    cancelled: dict[UUID, tuple[UUID, ...]]
    elapsed: float | None = None


class IsolatedJobs(StrEnum):
    """What a claim does with jobs whose next crash would be their last: those run alone."""

    EXCLUDE = "leave"
    ONLY = "only"
    INCLUDE = "also"


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """Claim at most ``limit`` jobs, born running, and ``prefetch`` more, born claimed.

    ``tasks`` maps each task the worker knows to its policy, which is written on the row. ``queues=None``: all.
    ``ids``: of these jobs only, which a transport delivered; what else makes a job claimable holds for them too.
    """

    lease: UUID
    claim: UUID
    tasks: Mapping[str, Policy]
    limit: int
    prefetch: int = 0
    queues: tuple[str, ...] | None = None
    last_tries: IsolatedJobs = IsolatedJobs.EXCLUDE
    ids: tuple[UUID, ...] | None = None


class ExchangeAnswer(Struct, frozen=True):
    """One answer per transition, in order, and the jobs claimed."""

    answers: tuple[Answer, ...] = ()
    claims: tuple[Claim, ...] = ()


class ProgressUpdate(Struct, frozen=True, kw_only=True):
    """What a handler said about its job. ``None`` leaves a field as it is; the latest progress wins.

    ``order`` grows with each update of a worker: one that arrives after a later one changes nothing. ``None``: whatever came before.
    """

    job: UUID
    token: Token
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None
    order: int | None = None


class AttemptNote(Struct, frozen=True, kw_only=True):
    """Something learnt too late to move the job: kept on that attempt's own record."""

    job: UUID
    token: Token
    late_result: bytes | None = None
    error: Failure | None = None
    stacks: str | None = None


class OverdueJob(Struct, frozen=True):
    """An active job far past a limit of its task, whose owner's supervisor should have acted long ago. ``timing``: its lease's."""

    job: ActiveJob
    worker: str
    charge: Charge
    timing: LeaseTiming


class ExpiredJob(Struct, frozen=True):
    """A job that nobody started in time, and which has failed for it."""

    job: UUID
    task: str


class DueJob(Struct, frozen=True):
    """A job that a claim would take now. ``number``: of its last claim, so that it names this wait and no other."""

    job: UUID
    queue: str
    number: int


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
        """All of it."""
        return self.jobs + self.stubs + self.receipts + self.leases + self.attempts


class Purged(Struct, frozen=True):
    """How many jobs one batch of a purge deleted; ``until``, by the store's clock: later jobs were left alone."""

    jobs: int
    until: datetime


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs to list, newest first; ``before`` is the last id of the previous page."""

    state: State | None = None
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    limit: int = 100
    before: UUID | None = None


class Check(Struct, frozen=True):
    """One finding about the store's health; ``remedy`` says what to do."""

    level: Literal["ok", "warning", "error"]
    name: str
    message: str
    remedy: str = ""


class Store(Protocol):
    """Where jobs live. All verbs may be called concurrently."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do; constant."""
        ...

    # moving

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        """All jobs durably, or none; one whose key an unfinished job of its task has is not inserted but answered.

        Nothing is inserted if a key is taken by another payload, or if ``under``, a job and its token, is no longer
        active so. A call whose receipt exists inserts nothing and answers the same.
        """
        ...

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        """The same inside the transaction of the caller's connection, in his thread, or in his loop where what is said to the
        connection is awaited: the jobs exist if and only if that commits. Errors of the connection are its library's own.
        ``Unsupported`` if the store cannot, or if the connection is none of its own kind."""
        ...

    def transaction(
        self, job: UUID, token: Token, *, idle: float, heal_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """A connection in a transaction that commits only if the job is still active under its token: ``JobLost`` at entry
        and at the end otherwise. Open for longer than ``idle`` seconds, it is rolled back with an error that says so.

        With ``heal_at``, the mark of a hook as a claim or ``owed_hooks`` returned it: the job, wherever it is, must have this
        token and this mark, and the mark is taken away in the same commit.
        """
        ...

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, heal_at: datetime | None = None
    ) -> AbstractContextManager[Any]:
        """The same for code in a thread or process of its own."""
        ...

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        """Settle each transition under its token, then claim what the request asks.

        A transition lands only if its job is active under that token and, for ``Judge.LEASE_ENDED``, only if the
        lease that holds it has ended (or has no row), for ``Judge.STALLED`` and ``Judge.TIMED_OUT`` only if it is ``ttl +
        grace`` of that lease past that limit, judged in the same write. Its attempt record commits with it, and one that
        ends the job frees its unique key. One that cut code short leaves on the row what ``rescued`` and the row itself say of
        it, and, with ``owes_hook``, the mark of a hook that is owed. Both stay, wherever the job goes: the rescue until a later
        one, the mark until the hook or completion. While it is there a finished row is kept for ``HOOK_PATIENCE`` at least.
        What another session has locked is answered ``BUSY`` and delays no other transition, and no claim.
        The claim takes due jobs of known tasks by (priority, available_at, id), never more than asked, each for the
        one live lease of the request: none if that lease has ended or run out; none of paused queues, none that expired
        before a first attempt.
        """
        ...

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """``claimed`` to ``running`` for each (job, token); the jobs that were lost. Starting a started one is no loss."""
        ...

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        """Progress and checkpoints under their tokens; the jobs that were lost. ``StoreBusy`` names the jobs that another session
        has locked; all others are written then."""
        ...

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        """Keep a late result or stacks on the attempt record of exactly that token; nothing if there is none. ``StoreBusy`` as
        for ``report``."""
        ...

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """End waiting jobs as cancelled, mark active ones, leave finished ones; the state each is in now, absent if unknown."""
        ...

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        """Finished, held and scheduled jobs become available at once with fresh budgets; claim numbers go on. One whose
        unique key was given to another job meanwhile stays finished, and so does a stub, which has no payload left."""
        ...

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        """Available and scheduled jobs become due then; the state each is in now, absent if unknown."""
        ...

    async def delete(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """Jobs that nobody owns are gone without a trace; the states of those that are left, because somebody owns them."""
        ...

    async def purge(self, queue: str, limit: int, until: datetime | None = None) -> Purged:
        """Delete at most ``limit`` jobs of the queue that wait and were enqueued by ``until``, without it by now."""
        ...

    async def expire(self, limit: int) -> "tuple[ExpiredJob, ...]":
        """At most ``limit`` waiting jobs that nobody started before they expired are failed, oldest expiry first."""
        ...

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        """At most ``limit`` finished and held jobs of these tasks whose hook is owed and due, without attempts, those first
        that have waited longest. In the same write each becomes due again only after ``pause`` seconds, or its age if that is
        more, at most ``HOOK_PAUSE``: the mark that it is answered with."""
        ...

    # owning

    async def open_lease(self, lease: NewLease) -> bool:
        """A new incarnation, alive from now for its ttl; repeatable. ``False`` if a lease of this id has already ended."""
        ...

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        """Renew, durably and in one write, those that have not ended; an expired lease nobody ended lives on."""
        ...

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        """No beat, claim or start of it ever lands again; its holds stay until moved. Repeatable: the first reason stays.

        With ``seen``: only if it is still in that state *and* still past its expiry. Answers the reason that stands, by
        which its holds must be moved, or ``None`` if the lease lives on, or if another session has it locked. A lease
        that drains ends free, whatever the caller knew.
        """
        ...

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        """What the store thinks this lease owns, longest held first."""
        ...

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        """Leases past their expiry or ended that still hold jobs, and leases past their expiry; longest overdue first.

        An active row whose lease has no row counts: it is answered as a lease already ended.
        """
        ...

    async def overdue(self, limit: int) -> "tuple[OverdueJob, ...]":
        """Running jobs of living leases that are ``ttl + grace`` of that lease past a limit of their task, longest first."""
        ...

    # reading: each sees one snapshot of all places

    async def get(self, job: UUID) -> JobRecord | None:
        """The job with its newest attempts, at most ``MOST_ATTEMPTS``, or ``None``."""
        ...

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        """Matching jobs, newest first, without attempts."""
        ...

    async def counts(self, by: Literal["queue", "task"] | None = None) -> dict[tuple[str, State], int]:
        """Jobs by (group, state); the group is ``""`` without ``by``. Zeros are left out."""
        ...

    async def workers(self) -> tuple[LeaseView, ...]:
        """Leases that have not ended, oldest first."""
        ...

    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, last_tries: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        """Seconds until the next job of these tasks that a claim would take is due (0 if one is), ``None`` if there is none."""
        ...

    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        last_tries: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        """The first ``limit`` jobs of these tasks that a claim would take now, in its order: those that have been due for at
        least ``age`` seconds."""
        ...

    async def queues(self) -> "tuple[QueueView, ...]":
        """Queues that have jobs or are paused, by name."""
        ...

    async def waiting_tasks(self) -> "tuple[str, ...]":
        """Tasks of which a job waits, by name."""
        ...

    # keeping

    async def pause(self, queues: Sequence[str], *, is_paused: bool) -> None:
        """Claims leave these queues alone from now on, or take from them again."""
        ...

    async def prune(self, limit: int) -> Pruned:
        """Forget finished jobs whose retention, but at least the floor, has passed, and all that is remembered of them;
        receipts older than the floor; leases that ended before the floor and hold nothing; and attempts that snoozed or
        were released before the floor, because a job may do so for ever. At most ``limit`` of each.

        A store that forgets whole days at once may keep until the end of its UTC day what lives for a day or longer, and
        forget more than ``limit`` with it."""
        ...

    async def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date; versions before and after. Refuses a newer one with ``SchemaTooNew``."""
        ...

    async def check(self) -> tuple[Check, ...]:
        """What is right and wrong with this store, all findings at once."""
        ...

    async def close(self) -> None:
        """Let go of every connection. Calling a verb later opens it again."""
        ...


@runtime_checkable
class HasRoles(Protocol):
    """A store whose database knows users, each of whom may do so much."""

    async def create_roles(self) -> tuple[str, ...]:
        """Roles for enqueuing, working, reading and owning, with what each needs and no more; their names. Repeatable."""
        ...

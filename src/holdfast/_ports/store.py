# size: the contract between the engine and every store is read in one piece
"""The store port: the only owner. Each verb with its promise.

Every verb is atomic. Durations cross this port, never instants, except those a user gave (``run_at``);
what *now* is, the store decides. Losing a race is a value, never an exception. Any exception out of a
verb means *unknown*: it may or may not have happened. Every verb may therefore be sent again. One exception is an answer:
``StoreBusy`` says that a lock of another session was not free in time, and that nothing happened.
"""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from holdfast._core.answers import (
    BeatAnswer,
    Capabilities,
    Check,
    DueJob,
    EnqueueAnswer,
    ExchangeAnswer,
    ExpiredJob,
    LeaseView,
    OverdueJob,
    Pruned,
    Purged,
    QueueView,
    ReopenAnswer,
)
from holdfast._core.job import ActiveJob, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ClaimRequest, IsolatedJobs, JobFilter, NewLease, ProgressUpdate


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
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """A connection in a transaction that commits only if the job is still active under its token: ``JobLost`` at entry
        and at the end otherwise. Open for longer than ``idle`` seconds, it is rolled back with an error that says so.

        With ``hook_due_at``, the mark of a hook as a claim or ``owed_hooks`` returned it: the job, wherever it is, must have this
        token and this mark, and the mark is taken away in the same commit.
        """
        ...

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
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
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        """Seconds until the next job of these tasks that a claim would take is due (0 if one is), ``None`` if there is none."""
        ...

    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
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

"""The store port: where jobs live, and the only owner of them. Each verb with its promise.

Every verb is atomic. Durations cross this port, never instants, except those a user gave (``run_at``);
what *now* is, the store decides. Losing a race is a value, never an exception. Any exception out of a
verb means *unknown*: it may or may not have happened. Every verb may therefore be sent again. One exception is an answer:
``StoreBusy`` reports that a lock of another session was not free in time, and that nothing happened.

A store has the four required protocols, whose sum is ``Store``. Which of the optional ones it has, `_engine/store_defaults` finds
out by their verbs, and stands in for the others.
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


class Ownership(Protocol):
    """Moves of jobs and leases: all that tokens and leases protect."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        """Insert all jobs durably, or none; answer for each whose key an unfinished job of its task has, instead of inserting it.

        Nothing is inserted if a key is taken by another payload, or if ``under``, a job and its token, is no longer
        active so. A call whose receipt exists inserts nothing and answers the same.
        """
        ...

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        """Settle each transition under its token, then claim what the request asks.

        A transition lands only if its job is active under that token and, for ``LEASE_ENDED``, only if the
        lease that holds it has ended (or has no row), for ``STALLED`` and ``TIMED_OUT`` only if it is ``ttl + grace`` of that
        lease past that limit, judged in the same write. Its attempt record commits with it, and one that
        ends the job frees its unique key. One that cut code short leaves on the row what ``rescued`` and the row itself have of
        it, and, with ``owes_hook``, the time at which the hook is due. Both stay, wherever the job goes: the rescue until a later
        one, the time until the hook or completion. While it is there a finished row is kept for ``HOOK_RETENTION`` at least.
        What another session has locked is answered ``BUSY`` and delays no other transition, and no claim.
        The claim takes due jobs of known tasks by (priority, available_at, id), never more than asked, each for the
        one live lease of the request: none if that lease has ended or run out; none of paused queues, none that expired
        before a first attempt.
        """
        ...

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """Move each (job, token) from ``claimed`` to ``running``; answer the jobs that were lost. Starting a started one is no loss."""
        ...

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        """Write progress and checkpoints under their tokens; answer the jobs that were lost.

        ``StoreBusy`` names the jobs that another session has locked; all others are written then.
        """
        ...

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        """Keep a late result or stacks on the attempt record of exactly that token; do nothing if there is none.

        ``StoreBusy`` as for ``report``.
        """
        ...

    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        """Fail at most ``limit`` waiting jobs that no worker started before they expired, oldest expiry first."""
        ...

    async def open_lease(self, lease: NewLease) -> bool:
        """Open the lease of a new incarnation, alive from now for its ttl; repeatable.

        ``False`` if a lease of this id has already ended.
        """
        ...

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        """Renew, durably and in one write, those that have not ended; an expired lease that no judge has ended lives on."""
        ...

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        """End a lease: no beat, claim or start of it ever lands again. Its jobs stay until moved.

        Repeatable: the first reason stays. With ``seen``: only if it is still in that state *and* still past its expiry. Answers
        the reason that stands, by which its jobs must be moved, or ``None`` if the lease lives on, or if another session has it
        locked. A lease that drains ends free, for any reason that the caller knew.
        """
        ...

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        """Return the jobs that the store records for this lease, longest held first."""
        ...

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        """Return leases past their expiry or ended that still hold jobs, and leases past their expiry; longest overdue first.

        An active row whose lease has no row counts: it is answered as a lease already ended.
        """
        ...

    async def overdue(self, limit: int) -> tuple[OverdueJob, ...]:
        """Return running jobs of living leases that are ``ttl + grace`` of that lease past a limit of their task, longest first."""
        ...

    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        """Return the seconds until the next job of these tasks that a claim would take is due: 0 if one is, ``None`` without one."""
        ...


class Reading(Protocol):
    """Looks at jobs, queues and workers; each sees one snapshot of all places."""

    async def get(self, job: UUID) -> JobRecord | None:
        """Return the job with its newest attempts, at most ``MOST_ATTEMPTS``, or ``None``."""
        ...

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        """Return matching jobs, newest first, without attempts."""
        ...

    async def counts(self, by: Literal["queue", "task"] | None = None) -> dict[tuple[str, State], int]:
        """Count jobs by (group, state); the group is ``""`` without ``by``. Zeros are left out."""
        ...

    async def workers(self) -> tuple[LeaseView, ...]:
        """Return leases that have not ended, oldest first."""
        ...

    async def queues(self) -> tuple[QueueView, ...]:
        """Return queues that have jobs or are paused, by name."""
        ...


class Operating(Protocol):
    """What operators do to jobs and queues, and the pruning of what is over."""

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """End waiting jobs as cancelled, mark active ones, leave finished ones; answer the state each is in now, absent if unknown."""
        ...

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        """Make finished, held and scheduled jobs available at once with fresh budgets; claim numbers go on.

        One whose unique key was given to another job in the meantime stays finished, and so does a stub, which has no payload left.
        """
        ...

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        """Make available and scheduled jobs due then; answer the state each is in now, absent if unknown."""
        ...

    async def delete(self, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        """Remove every trace of jobs that no worker owns; answer the states of those that are left.

        ``only_waiting``: held and finished jobs are left too, judged in the same write.
        """
        ...

    async def pause(self, queues: Sequence[str], *, is_paused: bool) -> None:
        """Let claims leave these queues alone from now on, or take from them again."""
        ...

    async def prune(self, limit: int) -> Pruned:
        """Forget finished jobs whose retention, but at least the floor, has passed, and all that is remembered of them;
        receipts older than the floor; leases that ended before the floor and hold nothing; and attempts that snoozed or
        were released before the floor, because a job may do so indefinitely. At most ``limit`` of each.

        A store that forgets whole days at once may keep until the end of its UTC day what lives for a day or longer, and
        forget more than ``limit`` with it."""
        ...


class Administration(Protocol):
    """The store itself: what it can do, its schema, its health, its connections."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do; constant."""
        ...

    async def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date; answer the versions before and after. Refuse a newer one with ``SchemaTooNew``."""
        ...

    async def check(self) -> tuple[Check, ...]:
        """Return what is right and wrong with this store, all findings at once."""
        ...

    async def close(self) -> None:
        """Close every connection. Calling a verb later opens it again."""
        ...


class Store(Ownership, Reading, Operating, Administration, Protocol):
    """What every store has. All verbs may be called concurrently."""


class QueueVerbs(Protocol):
    """Verbs for whole queues and tasks, for stores that are quicker at them than by the required verbs."""

    async def purge(self, queue: str, limit: int, until: datetime | None = None) -> Purged:
        """Delete at most ``limit`` jobs of the queue that wait and were enqueued by ``until``, without it by now."""
        ...

    async def waiting_tasks(self) -> tuple[str, ...]:
        """Return the tasks of which a job waits, by name."""
        ...


class Republishing(Protocol):
    """What a transport that delivers jobs needs to publish again what its queue has lost."""

    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        """Return the first ``limit`` jobs of these tasks that a claim would take now, in its order: those that have been due for at
        least ``age`` seconds."""
        ...


class CallerTransactions(Protocol):
    """Transactions that jobs share with their users' rows; such a store has the capability ``caller_transaction``."""

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        """Enqueue inside the transaction of the caller's connection, in the caller's thread, or in its loop where statements on the
        connection are awaited: the jobs exist if and only if that commits.

        Errors of the connection are its library's own. ``Unsupported`` if the connection is of another kind.
        """
        ...

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open a transaction, and enter its connection. It commits only if the job is still active under its token: ``JobLost`` at
        entry and at the end otherwise. Open for longer than ``idle`` seconds, it is rolled back with an error that names the limit.

        With ``hook_due_at``, the time at which a hook is due as a claim or ``owed_hooks`` returned it: the job, in any place, must have
        this token and this time, and the time is removed in the same commit.
        """
        ...

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractContextManager[Any]:
        """Open the same for code in its own thread or process."""
        ...


class RescueHooks(Protocol):
    """What ``on_rescue`` needs beside ``CallerTransactions``."""

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        """Return at most ``limit`` finished and held jobs of these tasks whose hook is due, without attempts, those first
        that have waited longest.

        In the same write each becomes due again only after ``pause`` seconds, or its age if that is more, at most
        ``LONGEST_HOOK_DELAY``: the time that it is answered with.
        """
        ...


@runtime_checkable
class HasRoles(Protocol):
    """A store whose database has users with limited rights."""

    async def create_roles(self) -> tuple[str, ...]:
        """Create roles for enqueuing, working, reading and owning, each with the rights it needs; answer their names. Repeatable."""
        ...

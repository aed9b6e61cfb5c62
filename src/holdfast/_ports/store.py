"""The store port: a store keeps jobs, and is the only owner of them. The docstring of each verb is its promise.

Every verb is atomic. Durations cross this port, never instants, except those a user gave (``run_at``): the store decides
what *now* is. Losing a race is a value, never an exception. Any exception from a verb means *unknown*: the write may or may not
have happened. Every verb may therefore be sent again. One exception is an answer: ``StoreBusy`` reports that another session
did not release a lock in time, and that nothing happened.

A store has the four required protocols, which together are ``Store``. `_engine/store_defaults` detects the optional ones by
their verbs, and provides the verbs of the missing ones.
"""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from holdfast._core.answers import (
    BeatAnswer,
    BeatView,
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
    SteerAnswer,
)
from holdfast._core.audit import AuditNote
from holdfast._core.job import ActiveJob, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.record import JobRecord
from holdfast._core.requests import (
    AttemptNote,
    BeatNote,
    ClaimRequest,
    IsolatedJobs,
    JobFilter,
    NewLease,
    ProgressUpdate,
    Steer,
)
from holdfast._core.schedule import Advance, Schedule, ScheduleList, TickAnswer


class Ownership(Protocol):
    """Moves of jobs and leases: all that tokens and leases protect."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        """Insert all jobs durably, or none.

        If an unfinished job of the same task already has the unique key of a new job, the new job is not inserted: the answer
        names the other one. The whole call inserts nothing if that other job has a different payload. It also inserts nothing
        if ``under`` names a job and a token, and the job is no longer active under that token. A call whose receipt exists
        inserts nothing and returns the answer of the first copy.
        """
        ...

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        """Settle each transition under its token, then claim what the request asks for.

        A transition lands only if its job is active under that token, judged in the same write. For ``LEASE_ENDED``, the lease
        that has the job must also have ended (or have no row). For ``STALLED`` and ``TIMED_OUT``, the job must be past that
        limit by ``ttl + grace`` of its lease. ``VOIDED`` belongs to ``Prefetching``. The attempt record commits with the
        transition, and a transition that ends the job frees its unique key. A claimed job whose code ran counts an attempt, which
        started with the claim.

        A transition with ``rescued``, which interrupted code, records the rescue on the row, with what the row itself knows of
        the attempt. With ``owes_hook`` it also sets the time at which the hook is due. Both stay in every state of the job: the
        rescue until a later rescue, the due time until the hook has run or the job completes. A finished row with a due time is
        kept for at least ``HOOK_RETENTION``.

        A transition whose row another session has locked is answered ``BUSY``, and delays no other transition and no claim.

        The claim takes due jobs of known tasks, never more than asked for. All go to the one live lease of the request: there are
        none if that lease has ended or run out. It takes no jobs of paused queues, and none that expired before a first attempt.
        Jobs of the smallest priority go first. Within a priority, lanes take turns by the rule of ``_core/lanes``, from the cursor
        of the request on. Within a lane jobs go by (available_at, id), across tasks. A claim of delivered jobs, and the answer,
        go by (priority, available_at, id). A store may look at a bounded number of lanes: the answer's ``is_whole`` is false then.
        """
        ...

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """Move each (job, token) from ``claimed`` to ``running``; answer the jobs that were lost. A started one is not lost."""
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

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        """Renew, durably and in one write, the leases that have not ended; one that expired, but was not ended, lives on.

        The same write adds each of the ``notes`` whose lease it renews to the history of that worker. A copy of the call may add it
        once more. Only a store with ``WorkerHistory`` gets notes.
        """
        ...

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        """End a lease: no beat, claim or start of it ever lands again. Its jobs stay until moved.

        Repeatable: the first reason stays. With ``seen``: only if it is still in that state *and* still past its expiry. Return
        the reason that stands, by which its jobs must be moved, or ``None`` if the lease lives on, or if another session has it
        locked. A lease that drains ends free, with any reason that the caller gives.
        """
        ...

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        """Return the jobs that the store records for this lease, longest held first."""
        ...

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        """Return leases past their expiry, and ended leases that still have jobs; longest overdue first.

        An active row whose lease has no row counts too: it is answered as a lease that has already ended.
        """
        ...

    async def overdue(self, limit: int) -> tuple[OverdueJob, ...]:
        """Return running jobs of live leases that are past a limit of their task by ``ttl + grace`` of the lease, longest first.

        A job that another session has locked is left out: its owner may be waiting for the lock with an outcome.
        """
        ...

    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        """Return the seconds until a claim would find a job of these tasks: 0 if one is due, ``None`` if there is none.

        A store that reads only some of the lanes returns at most ``UNREAD`` when it left others out.
        """
        ...


class Reading(Protocol):
    """Reads of jobs, queues and workers; each sees one snapshot of the whole store."""

    async def get(self, job: UUID) -> JobRecord | None:
        """Return the job with its newest attempts, at most ``MOST_ATTEMPTS``, or ``None``."""
        ...

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        """Return matching jobs, newest first, without attempts."""
        ...

    async def counts(self, by: Literal["queue", "task"] | None = None, most: int | None = None) -> dict[tuple[str, State], int]:
        """Count jobs by (group, state); the group is ``""`` without ``by``. Zeros are left out.

        ``most``: a store that would read each of them may stop at one more finished job of a state than this; the number of jobs that
        wait or are active is exact.
        """
        ...

    async def workers(self) -> tuple[LeaseView, ...]:
        """Return leases that have not ended, oldest first."""
        ...

    async def queues(self, most: int | None = None) -> tuple[QueueView, ...]:
        """Return queues that have jobs or are paused, by name. ``most``: as in ``counts``, for all queues together."""
        ...


class Operating(Protocol):
    """What operators do to jobs and queues, and the pruning of old records."""

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        """Cancel waiting jobs, request it of active ones, leave finished ones; answer each job's state now, absent if unknown."""
        ...

    async def reopen(self, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        """Make finished, held and scheduled jobs available at once with fresh budgets; claim numbers go on.

        A job whose unique key another job has taken in the meantime stays finished. So does a stub, which has no payload left.
        ``is_fresh``: the reopened jobs lose their checkpoint and, if the store keeps steps, their steps.
        """
        ...

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        """Set when available and scheduled jobs are due; answer the state each is in now, absent if unknown."""
        ...

    async def delete(self, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        """Remove every trace of jobs that no worker owns; answer the states of those that are left.

        ``only_waiting``: held and finished jobs are left too, judged in the same write.
        """
        ...

    async def pause(self, queues: Sequence[str], *, is_paused: bool, by: AuditNote | None = None) -> None:
        """Stop claims from these queues from now on, or allow them again."""
        ...

    async def prune(self, limit: int) -> Pruned:
        """Delete at most ``limit`` of each kind of record that is old enough.

        Finished jobs go after their retention, and not before the floor, with all that is kept about them. Receipts go after
        the floor. So do leases that ended before the floor and have no jobs. Attempts that snoozed or were released before the
        floor go too, because a job may collect them indefinitely. What is in the history of workers goes after the time that its note gave.

        A store that deletes whole days at once may keep records of a day or longer until the end of their UTC day. It may then
        delete more than ``limit``.
        """
        ...


class Administration(Protocol):
    """The store itself: its capabilities, its schema, its health, its connections."""

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
    """The verbs that every store has. All may be called concurrently."""


class Selectors(Protocol):
    """The verb for jobs that a filter chose, for stores that can judge the filter in the write itself."""

    async def steer(self, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None) -> SteerAnswer:
        """Apply the verb to those of the jobs that match the filter when they are written; its ``before`` and ``limit`` do not count.

        Jobs that no longer match, or that another session has locked, are left alone.
        """
        ...


class QueueVerbs(Protocol):
    """Verbs for whole queues and tasks, for stores that have a faster way than the required verbs."""

    async def purge(self, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
        """Delete at most ``limit`` waiting jobs of the queue that were enqueued by ``until``; without it, by now."""
        ...

    async def waiting_tasks(self) -> tuple[str, ...]:
        """Return the tasks that have a waiting job, sorted by name."""
        ...


class Republishing(Protocol):
    """The verb by which jobs are found whose message a delivering transport has lost, to publish them again."""

    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        """Return the first ``limit`` jobs of these tasks that a claim would take now, in the claim's order.

        Only jobs that have been due for at least ``age`` seconds count.
        """
        ...


class CallerTransactions(Protocol):
    """Transactions that include jobs and the users' rows; such a store has the capability ``caller_transaction``."""

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        """Enqueue inside the transaction of the caller's connection: the jobs exist if and only if that transaction commits.

        It runs in the caller's thread, or in the caller's loop where statements on the connection are awaited. Errors of the
        connection are those of its library. Raises ``Unsupported`` if the connection is of another kind.
        """
        ...

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open a transaction; entering it returns its connection. It commits only if the job is still active under its token.

        Otherwise it raises ``JobLost``, at entry and at the end. If it is open for longer than ``idle`` seconds, it is rolled
        back with an error that names the limit.

        ``hook_due_at`` is the time at which a hook is due, as a claim or ``owed_hooks`` returned it. With it the job, in any
        state, must have this token and this time, and the time is removed in the same commit.
        """
        ...

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractContextManager[Any]:
        """Open the same transaction as ``transaction``, for code that blocks a thread or runs in another process."""
        ...


class RescueHooks(Protocol):
    """The verb that ``on_rescue`` needs beside ``CallerTransactions``."""

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        """Return at most ``limit`` finished and held jobs of these tasks whose hook is due, longest waiting first.

        They come without attempts. The same write makes each hook due again after ``pause`` seconds, or after as long as the
        job has already waited if that is more, at most ``LONGEST_HOOK_DELAY``. The job is returned with that new time.
        """
        ...


class Scheduling(Protocol):
    """The verbs of schedules. The store keeps them and judges what is due; the callers compute the ticks."""

    async def schedules(self) -> ScheduleList:
        """Return all schedules, by name."""
        ...

    async def ticks(self, limit: int) -> ScheduleList:
        """Return at most ``limit`` schedules whose tick is due now, longest due first. A paused one is never due."""
        ...

    async def advance(self, move: Advance) -> TickAnswer:
        """Move a schedule on from the tick that is due, and store the job of a tick in the same write.

        It lands only if the schedule still has the version of the move, is not paused, and its tick is due on the store's clock; else
        the answer is LOST. If the schedule's last job has not finished, ``overlap`` decides in the same write: that job stays and no
        job is stored (SKIPPED), the new job is stored beside it, or that job is also cancelled as by ``request_cancel``. A copy
        of the move that landed last gets the answer of the first copy.
        """
        ...

    async def set_schedule(self, schedule: Schedule, change: UUID, *, by: AuditNote | None = None) -> bool:
        """Write the plan, next tick and pause of a schedule that still has this version; version 0: there is none of this name yet.

        ``False`` if it has another version. A copy of the latest change is answered ``True``.
        """
        ...

    async def remove_schedule(self, name: str, *, by: AuditNote | None = None) -> None:
        """Forget a schedule. Its jobs stay."""
        ...


class WorkerHistory(Protocol):
    """The verb that reads what the notes of beats have left."""

    async def worker_history(self, worker: str, limit: int) -> tuple[BeatView, ...]:
        """Return the last ``limit`` notes on the worker of this name, newest first. The worker may be gone."""
        ...


@runtime_checkable
class HasRoles(Protocol):
    """A store whose database has users with limited rights."""

    async def create_roles(self) -> tuple[str, ...]:
        """Create roles for enqueuing, working, reading and owning, each with the rights it needs; answer their names. Repeatable."""
        ...

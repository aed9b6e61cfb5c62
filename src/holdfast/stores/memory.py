# size: the oracle of all other stores is easiest to trust when it can be read in one piece
"""The reference store: the shortest correct code, the oracle of the model tests, and the store of simulations.

Every verb runs to its end without yielding, and one lock makes it one step for threads too. Rows are immutable values;
``_put`` and ``_forget`` are the only places that change one and keep the indexes. Nothing here is random, and every order
is a sorted one.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from heapq import nsmallest
from itertools import islice, takewhile
from threading import RLock
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, assert_never
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import (
    MOST_ATTEMPTS,
    Answer,
    BeatAnswer,
    Capabilities,
    Check,
    DueJob,
    Duplicate,
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
from holdfast._core.idempotency import is_duplicate_settle
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import PLACE_OF, ActiveJob, Claim, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import Charge, End, LeaseEnd, Precondition, Transition
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.record import (
    JobRecord,
    SettledAttempt,
    active_job,
    as_read,
    attempt_to_keep,
    is_expired,
    needs_isolation,
    new_record,
    record_of_finished,
    reopened,
    retention_of,
    settled,
    stub,
    with_hook_delayed,
)
from holdfast._core.requests import AttemptNote, ClaimRequest, IsolatedJobs, JobFilter, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._ports.clock import Clock
from holdfast.errors import HoldfastError, Unsupported

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = NewLease(UUID(int=0), "", ProcessIdentity("", 0), LeaseTiming(0.0, 0.0, 0.0))
_VERSION = 1
_SAID = ("stage", "fraction", "message", "checkpoint")

Range = tuple[str, str, int]
Waiting = tuple[datetime, UUID]
Key = tuple[str, str]
Rows = list[JobRecord]
Own = TypeVar("Own", bound="MemoryStore")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _atomic(
    verb: Callable[Concatenate[Own, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Own, Parameters], Coroutine[Any, Any, Result]]:
    """One step also for threads: an App is used by its user's event loop and by the thread of its blocking twins at once."""

    @wraps(verb)
    async def step(self: Own, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with self._lock:
            return await verb(self, *args, **kwargs)

    return step


class _Lease(Struct, frozen=True):
    """Instants on the monotonic clock in microseconds, ``opened_at`` and ``ended_at`` on the wall clock."""

    spec: NewLease
    opened_at: datetime
    renewed_at: int
    expires_at: int
    renewals: int = 1
    is_draining: bool = False
    end: LeaseEnd | None = None
    ended_at: datetime | None = None

    @property
    def seen(self) -> str:
        return f"{self.renewals}:{self.expires_at}"

    def renewed(self, now: int) -> "_Lease":
        return structs.replace(self, renewed_at=now, expires_at=now + _micros(self.spec.timing.ttl), renewals=self.renewals + 1)


class Snapshot(Struct):
    """Everything a store knows. Rows are values, so that copying the containers copies it all.

    ``started`` and ``last_moved``: when each running job started and last made progress, on the monotonic clock in microseconds,
    because no step of a wall clock may make one overdue. ``report_orders``: the number of each one's latest report.
    """

    jobs: dict[UUID, JobRecord] = {}
    ranges: dict[Range, list[Waiting]] = {}
    holds: dict[UUID, set[UUID]] = {}
    keys: dict[Key, UUID] = {}
    started: dict[UUID, int] = {}
    last_moved: dict[UUID, int] = {}
    report_orders: dict[UUID, int] = {}
    attempts: dict[UUID, dict[Token, SettledAttempt]] = {}
    receipts: dict[UUID, tuple[datetime, EnqueueAnswer]] = {}
    leases: dict[UUID, _Lease] = {}
    paused_queues: dict[str, datetime] = {}
    claim_number: int = 0

    def copy(self) -> "Snapshot":
        """An independent copy."""
        return Snapshot(
            jobs=self.jobs.copy(),
            ranges={which: waiting.copy() for which, waiting in self.ranges.items()},
            holds={lease: jobs.copy() for lease, jobs in self.holds.items()},
            keys=self.keys.copy(),
            started=self.started.copy(),
            last_moved=self.last_moved.copy(),
            report_orders=self.report_orders.copy(),
            attempts={job: attempts.copy() for job, attempts in self.attempts.items()},
            receipts=self.receipts.copy(),
            leases=self.leases.copy(),
            paused_queues=self.paused_queues.copy(),
            claim_number=self.claim_number,
        )


class MemoryStore:
    """Jobs in this process only; they end with it."""

    floor = RETENTION_FLOOR

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = Snapshot()
        self._lock = RLock()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("memory", "kernel")

    def snapshot(self) -> Snapshot:
        """What the store knows now; keep it to forget later writes, as a fail-over without its newest ones does."""
        with self._lock:
            return self._all.copy()

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which stays usable."""
        with self._lock:
            self._all = snapshot.copy()

    # moving

    @_atomic
    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        if call not in self._all.receipts:
            is_lost = under is not None and self._active(*under) is None
            answer = EnqueueAnswer(is_lost=True) if is_lost else self._insert(jobs)
            self._all.receipts[call] = (self._now(), answer)
        return self._all.receipts[call][1]

    def enqueue_within(self, connection: Any, call: UUID, jobs: Sequence[NewJob]) -> NoReturn:
        raise _unsupported("enqueue inside a transaction of the caller's")

    def transaction(self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None) -> NoReturn:
        raise _unsupported("commit rows together with a job")

    def blocking_transaction(self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None) -> NoReturn:
        raise _unsupported("commit rows together with a job")

    @_atomic
    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        now = self._now()
        answers = tuple(
            Answer.APPLIED if self._settle(transition, now) else self._answer_again(transition) for transition in transitions
        )
        return ExchangeAnswer(answers, () if request is None else self._claim(request, now))

    @_atomic
    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        lost = set()
        for job, token in tokens:
            row = self._active(job, token)
            if row is None or row.lease is None or not self._is_alive(row.lease):
                lost.add(job)
            elif row.state is State.CLAIMED:
                self._put(structs.replace(row, state=State.RUNNING, attempt=row.attempt + 1, started_at=self._now()))
                self._all.started[job] = self._all.last_moved[job] = self._monotonic()
        return frozenset(lost)

    @_atomic
    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        lost = set()
        for update in updates:
            row = self._active(update.job, update.token)
            if row is None:
                lost.add(update.job)
                continue
            if update.order is not None:
                if update.order < self._all.report_orders.get(row.id, 0):
                    continue
                self._all.report_orders[row.id] = update.order
            said = {name: value for name in _SAID if (value := getattr(update, name)) is not None}
            self._put(structs.replace(row, last_progress_at=self._now(), **said))
            self._all.last_moved[row.id] = self._monotonic()
        return frozenset(lost)

    @_atomic
    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        for note in notes:
            attempts = self._all.attempts.get(note.job, {})
            ended = attempts.get(note.token)
            if ended is None or ended.record is None:
                continue
            record = structs.replace(
                ended.record,
                late_result=ended.record.late_result if note.late_result is None else note.late_result,
                error=note.error if ended.record.error is None else ended.record.error,
                stacks=ended.record.stacks if note.stacks is None else note.stacks,
            )
            attempts[note.token] = structs.replace(ended, record=record)

    @_atomic
    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        now = self._now()
        for row in self._rows(ids):
            match PLACE_OF[row.state]:
                case Place.PENDING:
                    self._put(structs.replace(row, state=State.CANCELLED, reason=Reason.BY_OPERATOR, finished_at=now))
                case Place.ACTIVE:
                    self._put(structs.replace(row, cancel_requested=True))
                case Place.FINISHED:
                    pass
        return self._states(ids)

    @_atomic
    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        now, taken = self._now(), dict[UUID, UUID]()
        for row in self._rows(ids):
            if as_read(row, now).state is State.AVAILABLE or PLACE_OF[row.state] is Place.ACTIVE or row.is_stub:
                continue
            holder = self._holder(row)
            if holder is not None and holder.id != row.id:
                taken[row.id] = holder.id
                continue
            if row.token.claim is not None:
                self._all.attempts.setdefault(row.id, {}).setdefault(row.token, record_of_finished(row))
            self._put(reopened(row, now))
        return ReopenAnswer(self._states(ids), taken)

    @_atomic
    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        due = self._now() + timedelta(microseconds=_micros(delay)) if run_at is None else run_at.astimezone(UTC)
        for row in self._rows(ids):
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, available_at=due))
        return self._states(ids)

    @_atomic
    async def delete(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is not Place.ACTIVE:
                self._forget(row)
        return self._states(ids)

    @_atomic
    async def purge(self, queue: str, limit: int, until: datetime | None = None) -> Purged:
        until = until or self._now()
        waiting = [row for row in self._all.jobs.values() if row.queue == queue and row.state is State.AVAILABLE]
        doomed = nsmallest(limit, (row for row in waiting if row.created_at <= until), key=lambda row: row.id)
        for row in doomed:
            self._forget(row)
        return Purged(len(doomed), until)

    @_atomic
    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        now = self._now()
        late = [(row.expires_at, row.id, row) for row in self._all.jobs.values() if is_expired(row, now)]
        rows = [row for _, _, row in nsmallest(limit, late)]
        for row in rows:
            self._put(structs.replace(row, state=State.FAILED, reason=Reason.EXPIRED, finished_at=now))
        return tuple(ExpiredJob(row.id, row.task) for row in rows)

    @_atomic
    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        now = self._now()
        owed = [
            (row.hook_due_at, row.id, row)
            for row in self._all.jobs.values()
            if row.hook_due_at is not None and row.hook_due_at <= now and row.task in tasks
            if PLACE_OF[row.state] is Place.FINISHED or row.state is State.HELD
        ]
        rows = [with_hook_delayed(row, now, pause) for _, _, row in nsmallest(limit, owed)]
        for row in rows:
            self._put(row)
        return tuple(rows)

    # owning

    @_atomic
    async def open_lease(self, lease: NewLease) -> bool:
        now, old = self._monotonic(), self._all.leases.get(lease.id)
        if old is not None and old.end is not None:
            return False
        if old is None:
            self._all.leases[lease.id] = _Lease(lease, self._now(), now, now + _micros(lease.timing.ttl))
        else:
            self._all.leases[lease.id] = old.renewed(now)
        return True

    @_atomic
    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        now, alive = self._monotonic(), [lease for lease in dict.fromkeys(leases) if self._is_alive(lease)]
        olds = [self._all.leases[lease] for lease in alive]
        for old in olds:
            self._all.leases[old.spec.id] = structs.replace(old.renewed(now), is_draining=draining or old.is_draining)
        marked = {lease: tuple(row.id for row in self._held(lease) if row.cancel_requested) for lease in alive}
        return BeatAnswer(
            alive=frozenset(alive),
            gone=frozenset(leases) - frozenset(alive),
            cancelled={lease: jobs for lease, jobs in marked.items() if jobs},
            elapsed=(now - min(old.renewed_at for old in olds)) / 1e6 if olds else None,
        )

    @_atomic
    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        old = self._all.leases.get(lease)
        if old is None:  # remembered, so that a late copy of its opening is refused
            spec = structs.replace(_NOBODY, id=lease)
            now = self._monotonic()
            self._all.leases[lease] = _Lease(spec, self._now(), now, now, end=why, ended_at=self._now())
        elif old.end is None:
            if seen is not None and (seen != old.seen or self._overdue(old) <= 0):
                return None
            self._all.leases[lease] = structs.replace(old, end=why.with_drain(is_draining=old.is_draining), ended_at=self._now())
        return self._all.leases[lease].end

    @_atomic
    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        return tuple(active_job(row) for row in self._held(lease)[:limit])

    @_atomic
    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        views = [self._lease_view(lease) for lease in {**self._all.leases, **self._all.holds}]
        found = [view for view in views if (view.holds if view.end is not None else view.overdue > 0)]
        return tuple(sorted(found, key=lambda view: (view.end is None, -view.overdue, view.id))[:limit])

    @_atomic
    async def overdue(self, limit: int) -> tuple[OverdueJob, ...]:
        rows = [self._all.jobs[job] for jobs in self._all.holds.values() for job in jobs]
        worst = [(*max((self._late(row, charge), charge) for charge in (Charge.STALLED, Charge.TIMED_OUT)), row) for row in rows]
        worst.sort(key=lambda each: (-each[0], each[2].token.number))
        return tuple(self._overdue_job(row, charge) for late, charge, row in worst[:limit] if late > 0)

    # reading

    @_atomic
    async def get(self, job: UUID) -> JobRecord | None:
        row = self._all.jobs.get(job)
        if row is None:
            return None
        attempts = self._all.attempts.get(job, {})
        records = (attempts[token].record for token in sorted(attempts, key=lambda token: token.number))
        known = tuple(each for each in records if each is not None)
        return structs.replace(as_read(row, self._now()), attempts=known[-MOST_ATTEMPTS:])

    @_atomic
    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        now = self._now()
        views = (as_read(row, now) for row in sorted(self._all.jobs.values(), key=lambda row: row.id, reverse=True))
        return tuple(islice((view for view in views if _matches(view, which)), which.limit))

    @_atomic
    async def counts(self, by: Literal["queue", "task"] | None = None) -> dict[tuple[str, State], int]:
        now, found = self._now(), dict[tuple[str, State], int]()
        for row in self._all.jobs.values():
            group = ("" if by is None else row.queue if by == "queue" else row.task, as_read(row, now).state)
            found[group] = found.get(group, 0) + 1
        return found

    @_atomic
    async def workers(self) -> tuple[LeaseView, ...]:
        alive = [lease for lease in self._all.leases.values() if lease.end is None]
        alive.sort(key=lambda lease: (lease.opened_at, lease.spec.id))
        return tuple(self._lease_view(lease.spec.id) for lease in alive)

    @_atomic
    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        now = self._now()
        firsts = [at for waiting in self._ranges(tasks, queues, isolated, now).values() for at, _ in islice(waiting, 1)]
        return max(0.0, (min(firsts) - now) / timedelta(seconds=1)) if firsts else None

    @_atomic
    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        now = self._now()
        rows = self._first(self._ranges(tasks, queues, isolated, now), limit, now - timedelta(microseconds=_micros(age)))
        return tuple(DueJob(row.id, row.queue, row.token.number) for row in rows)

    @_atomic
    async def queues(self) -> tuple[QueueView, ...]:
        found: dict[str, dict[State, int]] = {queue: {} for queue in self._all.paused_queues}
        for (queue, state), number in (await self.counts("queue")).items():
            found.setdefault(queue, {})[state] = number
        paused = self._all.paused_queues
        return tuple(QueueView(name=name, paused_at=paused.get(name), counts=found[name]) for name in sorted(found))

    @_atomic
    async def waiting_tasks(self) -> tuple[str, ...]:
        return tuple(sorted({task for task, _, _ in self._all.ranges}))

    # keeping

    @_atomic
    async def pause(self, queues: Sequence[str], *, is_paused: bool) -> None:
        for queue in queues:
            if is_paused:
                self._all.paused_queues.setdefault(queue, self._now())
            else:
                self._all.paused_queues.pop(queue, None)

    @_atomic
    async def prune(self, limit: int) -> Pruned:
        now, floor = self._now(), timedelta(seconds=self.floor)
        ages = {row.id: (now - row.finished_at).total_seconds() for row in self._all.jobs.values() if row.finished_at}
        rows = [self._all.jobs[job] for job in sorted(ages, key=lambda job: (-ages[job], job))]
        gone = [row for row in rows if ages[row.id] >= max(retention_of(row), self.floor)][:limit]
        worn = [row for row in rows if retention_of(row) <= ages[row.id] < self.floor and not row.is_stub][:limit]
        calls = [call for call, (at, _) in self._all.receipts.items() if now - at >= floor][:limit]
        ended = {lease: known.ended_at for lease, known in self._all.leases.items() if not self._all.holds.get(lease)}
        leases = [lease for lease, at in ended.items() if at is not None and now - at >= floor][:limit]
        for row in gone:
            self._forget(row)
        brief = [
            (ended.prunable_from, job, token.number, token)
            for job, attempts in self._all.attempts.items()
            for token, ended in attempts.items()
            if ended.prunable_from is not None and now - ended.prunable_from >= floor
        ]
        attempts = sorted(brief, key=lambda each: each[:3])[:limit]
        for _, job, _, token in attempts:
            del self._all.attempts[job][token]
        for row in worn:
            self._put(stub(row))
        for call in calls:
            del self._all.receipts[call]
        for lease in leases:
            del self._all.leases[lease]
        return Pruned(len(gone), len(worn), len(calls), len(leases), len(attempts))

    async def migrate(self) -> tuple[int, int]:
        return _VERSION, _VERSION

    async def check(self) -> tuple[Check, ...]:
        message = "jobs live in this process and end with it"
        return (Check("warning", "durability", message, "use a store that writes to disk, such as sqlite:///jobs.db"),)

    async def close(self) -> None:
        pass

    # inside

    def _now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=_micros(self._clock.wall()))

    def _monotonic(self) -> int:
        return _micros(self._clock.monotonic())

    def _insert(self, jobs: Sequence[NewJob]) -> EnqueueAnswer:
        now, news, duplicates = self._now(), list[JobRecord](), dict[UUID, Duplicate]()
        keys: dict[Key, JobRecord] = {}
        for row in (new_record(job, now) for job in jobs):
            key, holder = _key_of(row), self._holder(row)
            if key is not None and holder is None:
                holder = keys.setdefault(key, row)
            if holder is None or holder is row:
                news.append(row)
            else:
                duplicates[row.id] = Duplicate(holder.id, holder.payload == row.payload)
        answer = EnqueueAnswer(duplicates)
        if not answer.is_refused:
            if len({row.id for row in news if row.id not in self._all.jobs}) < len(news):
                raise HoldfastError("enqueue: a job of that id exists already; each job needs an id of its own")
            for row in news:
                self._put(row)
        return answer

    def _put(self, row: JobRecord) -> None:
        old = self._all.jobs.get(row.id)
        if old is not None:
            self._take_from_indexes(old)
        self._all.jobs[row.id] = row
        place = PLACE_OF[row.state]
        if row.state is State.AVAILABLE:
            insort(self._all.ranges.setdefault(_range_of(row), []), (row.available_at, row.id))
        if place is Place.ACTIVE and row.lease is not None:
            self._all.holds.setdefault(row.lease, set()).add(row.id)
        if place is not Place.FINISHED and (key := _key_of(row)) is not None:
            self._all.keys[key] = row.id

    def _forget(self, row: JobRecord) -> None:
        self._take_from_indexes(row)
        del self._all.jobs[row.id]
        for remembered_of in (self._all.attempts, self._all.started, self._all.last_moved, self._all.report_orders):
            remembered_of.pop(row.id, None)

    def _take_from_indexes(self, row: JobRecord) -> None:
        place = PLACE_OF[row.state]
        if row.state is State.AVAILABLE:
            waiting = self._all.ranges[_range_of(row)]
            del waiting[bisect_left(waiting, (row.available_at, row.id))]
            if not waiting:
                del self._all.ranges[_range_of(row)]
        if place is Place.ACTIVE and row.lease is not None:
            self._all.holds[row.lease].discard(row.id)
        if place is not Place.FINISHED and (key := _key_of(row)) is not None:
            del self._all.keys[key]

    def _holder(self, row: JobRecord) -> JobRecord | None:
        key = _key_of(row)
        holder = None if key is None else self._all.keys.get(key)
        return None if holder is None else self._all.jobs[holder]

    def _rows(self, ids: Sequence[UUID]) -> Rows:
        return [self._all.jobs[job] for job in dict.fromkeys(ids) if job in self._all.jobs]

    def _states(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        now = self._now()
        return {row.id: as_read(row, now).state for row in self._rows(ids)}

    def _active(self, job: UUID, token: Token) -> JobRecord | None:
        row = self._all.jobs.get(job)
        is_owned = row is not None and PLACE_OF[row.state] is Place.ACTIVE and row.token == token
        return row if is_owned else None

    def _held(self, lease: UUID) -> Rows:
        rows = [self._all.jobs[job] for job in self._all.holds.get(lease, ())]
        return sorted(rows, key=lambda row: row.token.number)

    def _is_alive(self, lease: UUID) -> bool:
        known = self._all.leases.get(lease)
        return known is not None and known.end is None

    def _overdue(self, lease: _Lease) -> int:
        """Microseconds since it ran out, negative before."""
        return self._passed(lease.spec.id, lease.renewed_at) - _micros(lease.spec.timing.ttl)

    def _passed(self, what: UUID, since: int) -> int:
        """Microseconds for which a lease has not been renewed, or a job not moved."""
        del what  # only whoever has no clock must remember when it first saw it so
        return self._monotonic() - since

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._active(transition.job, transition.token)
        if row is None or row.lease is None:
            return False
        match transition.judge:
            case Precondition.OWNER:
                may_move = True
            case Precondition.LEASE_ENDED:
                may_move = not self._is_alive(row.lease)
            case Precondition.STALLED | Precondition.TIMED_OUT:
                may_move = self._late(row, Charge(transition.judge.value)) > 0
            case _:
                assert_never(transition.judge)
        if not may_move:
            return False
        moved = transition.with_cancellation(cancel_requested=row.cancel_requested)
        ended = attempt_to_keep(row, transition, now)
        if ended is not None:
            self._all.attempts.setdefault(row.id, {})[row.token] = ended
        self._put(settled(row, moved, now))
        return True

    def _answer_again(self, transition: Transition) -> Answer:
        row = self._all.jobs.get(transition.job)
        attempt = self._all.attempts.get(transition.job, {}).get(transition.token)
        if is_duplicate_settle(transition, row, attempt):
            return Answer.APPLIED
        return Answer.MISSING if row is None and attempt is None else Answer.LOST

    def _late(self, row: JobRecord, charge: Charge) -> int:
        """Microseconds for which others may have judged it by now; they may not unless positive."""
        is_timed = charge is Charge.TIMED_OUT
        limit = row.policy.timeout if is_timed else row.policy.progress_within
        if limit is None or row.lease is None or row.state is not State.RUNNING or not self._is_alive(row.lease):
            return 0
        lease, since = self._all.leases[row.lease].spec, self._all.started if is_timed else self._all.last_moved
        return self._passed(row.id, since[row.id]) - _micros(limit + lease.timing.ttl + lease.grace)

    def _overdue_job(self, row: JobRecord, charge: Charge) -> OverdueJob:
        assert row.lease is not None
        return OverdueJob(active_job(row), row.worker or "", charge, self._all.leases[row.lease].spec.timing)

    def _ranges(
        self, tasks: Collection[str], queues: Sequence[str] | None, isolated: IsolatedJobs, now: datetime
    ) -> dict[Range, Iterator[Waiting]]:
        def may_be_taken(waiting: Waiting) -> bool:
            row = self._all.jobs[waiting[1]]
            is_wanted = isolated is IsolatedJobs.INCLUDE or needs_isolation(row) is (isolated is IsolatedJobs.ONLY)
            return is_wanted and not is_expired(row, now)

        return {
            which: filter(may_be_taken, waiting)
            for which, waiting in self._all.ranges.items()
            if which[0] in tasks and (queues is None or which[1] in queues) and which[1] not in self._all.paused_queues
        }

    def _claim(self, request: ClaimRequest, now: datetime) -> tuple[Claim, ...]:
        lease = self._all.leases.get(request.lease)
        if lease is None or lease.end is not None or self._overdue(lease) > 0:
            return ()
        if lease.spec.is_isolated and self._all.holds.get(request.lease):
            return ()
        ranges = self._ranges(request.tasks, request.queues, request.isolated, now)
        if request.ids is not None:
            asked = set(request.ids)
            ranges = {which: filter(lambda each: each[1] in asked, waiting) for which, waiting in ranges.items()}
        due = self._first(ranges, request.limit + request.prefetch, now)
        return tuple(
            self._take(row, request, is_running=place < request.limit, worker=lease.spec.worker) for place, row in enumerate(due)
        )

    def _first(self, ranges: dict[Range, Iterator[Waiting]], room: int, until: datetime) -> Rows:
        due = [
            (priority, at, job)
            for (_, _, priority), waiting in ranges.items()
            for at, job in islice(takewhile(lambda each: each[0] <= until, waiting), room)
        ]
        return [self._all.jobs[job] for _, _, job in nsmallest(room, due)]

    def _take(self, row: JobRecord, request: ClaimRequest, *, is_running: bool, worker: str) -> Claim:
        now = self._now()
        self._all.claim_number += 1
        taken = structs.replace(
            row,
            token=Token(request.claim, self._all.claim_number),
            policy=request.tasks[row.task],
            state=State.RUNNING if is_running else State.CLAIMED,
            attempt=row.attempt + is_running,
            lease=request.lease,
            worker=worker,
            claimed_at=now,
            started_at=now if is_running else None,
        )
        self._put(taken)
        self._all.report_orders.pop(row.id, None)
        if is_running:
            self._all.started[row.id] = self._all.last_moved[row.id] = self._monotonic()
        return Claim(
            job=active_job(taken),
            payload=taken.payload,
            checkpoint=taken.checkpoint,
            rescue=taken.rescue,
            hook_due_at=taken.hook_due_at,
        )

    def _lease_view(self, lease: UUID) -> LeaseView:
        known, holds = self._all.leases.get(lease), len(self._all.holds.get(lease, ()))
        if known is None:
            now = self._monotonic()
            known = _Lease(structs.replace(_NOBODY, id=lease), self._now(), now, now, end=LeaseEnd(End.EXPIRED))
        return LeaseView(
            id=lease,
            worker=known.spec.worker,
            process=known.spec.process,
            timing=known.spec.timing,
            overdue=self._overdue(known) / 1e6,
            seen=known.seen,
            age=(self._now() - known.opened_at) / timedelta(seconds=1),
            holds=holds,
            is_draining=known.is_draining,
            end=known.end,
            queues=known.spec.queues,
            tasks=known.spec.tasks,
            grace=known.spec.grace,
            slots=known.spec.slots,
            is_isolated=known.spec.is_isolated,
        )


def _range_of(row: JobRecord) -> Range:
    return row.task, row.queue, row.priority


def _key_of(row: JobRecord) -> Key | None:
    return None if row.unique_key is None else (row.task, row.unique_key)


def _unsupported(what: str) -> Unsupported:
    return Unsupported(f"the memory store cannot {what}: use a store that keeps jobs in a database, such as sqlite:///jobs.db")


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


def _matches(view: JobRecord, which: JobFilter) -> bool:
    return (
        which.state in (None, view.state)
        and which.task in (None, view.task)
        and which.queue in (None, view.queue)
        and (which.tag is None or which.tag in view.tags)
        and (which.before is None or view.id < which.before)
    )

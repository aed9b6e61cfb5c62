# size: the oracle of all other stores is easiest to trust when it can be read in one piece
"""The reference store: the shortest correct code, the oracle of the model tests, and the store of simulations.

Every verb runs to its end without yielding, so each is atomic. Rows are immutable values; ``_put`` is the only
place that changes one and keeps the two indexes. Nothing here is random, and every order is a sorted one.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from itertools import islice
from typing import Literal
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import PLACE_OF, Claim, Hold, JobRecord, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import End, Judge, LeaseEnd, Transition
from holdfast._core.rows import Ended, hold_of, new_row, record_of_finished, remembered, reopened, settled, view
from holdfast._core.settling import is_repeated
from holdfast._core.timing import LeaseTiming
from holdfast._ports.clock import Clock
from holdfast._ports.store import (
    Answer,
    BeatAnswer,
    Capabilities,
    Check,
    ClaimRequest,
    ExchangeAnswer,
    JobFilter,
    LeaseView,
    NewLease,
    Note,
    Update,
)
from holdfast.errors import HoldfastError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = NewLease(UUID(int=0), "", ProcessIdentity("", 0), LeaseTiming(0.0, 0.0, 0.0))
_VERSION = 1
_SAID = ("stage", "fraction", "message", "checkpoint")

Line = tuple[str, str, int]
Waiting = list[tuple[datetime, UUID]]
Rows = list[JobRecord]


class _Lease(Struct, frozen=True):
    """Instants on the monotonic clock in microseconds, ``opened`` on the wall clock."""

    spec: NewLease
    opened: datetime
    beaten: int
    expires: int
    beats: int = 1
    is_draining: bool = False
    end: LeaseEnd | None = None

    @property
    def seen(self) -> str:
        return f"{self.beats}:{self.expires}"

    def renewed(self, now: int) -> "_Lease":
        return structs.replace(self, beaten=now, expires=now + _micros(self.spec.timing.ttl), beats=self.beats + 1)


class Snapshot(Struct):
    """Everything a store knows. Rows are values, so that copying the containers copies it all."""

    jobs: dict[UUID, JobRecord] = {}
    lines: dict[Line, Waiting] = {}
    holds: dict[UUID, set[UUID]] = {}
    attempts: dict[UUID, dict[Token, Ended]] = {}
    receipts: set[UUID] = set()
    leases: dict[UUID, _Lease] = {}
    number: int = 0

    def copy(self) -> "Snapshot":
        """An independent copy."""
        return Snapshot(
            jobs=self.jobs.copy(),
            lines={line: waiting.copy() for line, waiting in self.lines.items()},
            holds={lease: jobs.copy() for lease, jobs in self.holds.items()},
            attempts={job: attempts.copy() for job, attempts in self.attempts.items()},
            receipts=self.receipts.copy(),
            leases=self.leases.copy(),
            number=self.number,
        )


class MemoryStore:
    """Jobs in this process only; they end with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all = Snapshot()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("memory", "kernel")

    def snapshot(self) -> Snapshot:
        """What the store knows now; keep it to forget later writes, as a fail-over without its newest ones does."""
        return self._all.copy()

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which stays usable."""
        self._all = snapshot.copy()

    # moving

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob]) -> None:
        if call in self._all.receipts:
            return
        known = [job.id for job in jobs if job.id in self._all.jobs]
        if known or len({job.id for job in jobs}) < len(jobs):
            raise HoldfastError("enqueue: a job of that id exists already; each job needs an id of its own")
        now = self._now()
        self._all.receipts.add(call)
        for job in jobs:
            self._put(new_row(job, now))

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        now = self._now()
        answers = tuple(
            Answer.APPLIED if self._settle(transition, now) else self._answer_again(transition) for transition in transitions
        )
        return ExchangeAnswer(answers, () if request is None else self._claim(request, now))

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        lost = set()
        for job, token in tokens:
            row = self._active(job, token)
            if row is None or row.lease is None or not self._is_alive(row.lease):
                lost.add(job)
            elif row.state is State.CLAIMED:
                self._put(structs.replace(row, state=State.RUNNING, attempt=row.attempt + 1, started_at=self._now()))
        return frozenset(lost)

    async def report(self, updates: Sequence[Update]) -> frozenset[UUID]:
        lost = set()
        for update in updates:
            row = self._active(update.job, update.token)
            if row is None:
                lost.add(update.job)
                continue
            said = {name: value for name in _SAID if (value := getattr(update, name)) is not None}
            self._put(structs.replace(row, last_progress_at=self._now(), **said))
        return frozenset(lost)

    async def annotate(self, notes: Sequence[Note]) -> None:
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
            attempts[note.token] = Ended(ended.to, record)

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
        return {row.id: view(row, now).state for row in self._rows(ids)}

    async def reopen(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        now = self._now()
        for row in self._rows(ids):
            if view(row, now).state is State.AVAILABLE or PLACE_OF[row.state] is Place.ACTIVE:
                continue
            if row.token.claim is not None:
                self._all.attempts.setdefault(row.id, {}).setdefault(row.token, record_of_finished(row))
            self._put(reopened(row, now))
        return {row.id: view(row, now).state for row in self._rows(ids)}

    # owning

    async def open_lease(self, lease: NewLease) -> bool:
        now, old = self._monotonic(), self._all.leases.get(lease.id)
        if old is not None and old.end is not None:
            return False
        if old is None:
            self._all.leases[lease.id] = _Lease(lease, self._now(), now, now + _micros(lease.timing.ttl))
        else:
            self._all.leases[lease.id] = old.renewed(now)
        return True

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
            elapsed=(now - min(old.beaten for old in olds)) / 1e6 if olds else None,
        )

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        now, old = self._monotonic(), self._all.leases.get(lease)
        if old is None:  # remembered, so that a late copy of its opening is refused
            spec = structs.replace(_NOBODY, id=lease)
            self._all.leases[lease] = _Lease(spec, self._now(), now, now, end=why)
        elif old.end is None:
            if seen is not None and (seen != old.seen or now <= old.expires):
                return None
            self._all.leases[lease] = structs.replace(old, end=why)
        return self._all.leases[lease].end

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[Hold, ...]:
        return tuple(hold_of(row) for row in self._held(lease)[:limit])

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        views = [self._lease_view(lease) for lease in {**self._all.leases, **self._all.holds}]
        found = [view for view in views if (view.holds if view.end is not None else view.overdue > 0)]
        return tuple(sorted(found, key=lambda view: (view.end is None, -view.overdue, view.id))[:limit])

    # reading

    async def get(self, job: UUID) -> JobRecord | None:
        row = self._all.jobs.get(job)
        if row is None:
            return None
        attempts = self._all.attempts.get(job, {})
        records = (attempts[token].record for token in sorted(attempts, key=lambda token: token.number))
        return structs.replace(view(row, self._now()), attempts=tuple(each for each in records if each is not None))

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        now = self._now()
        views = (view(row, now) for row in sorted(self._all.jobs.values(), key=lambda row: row.id, reverse=True))
        return tuple(islice((view for view in views if _matches(view, which)), which.limit))

    async def counts(self, by: Literal["queue", "task"] | None = None) -> dict[tuple[str, State], int]:
        now, found = self._now(), dict[tuple[str, State], int]()
        for row in self._all.jobs.values():
            group = ("" if by is None else row.queue if by == "queue" else row.task, view(row, now).state)
            found[group] = found.get(group, 0) + 1
        return found

    async def workers(self) -> tuple[LeaseView, ...]:
        alive = [lease for lease in self._all.leases.values() if lease.end is None]
        alive.sort(key=lambda lease: (lease.opened, lease.spec.id))
        return tuple(self._lease_view(lease.spec.id) for lease in alive)

    async def next_due(self, tasks: Sequence[str], queues: Sequence[str] | None = None) -> float | None:
        firsts = [line[0][0] for line in self._lines(tasks, queues).values()]
        return max(0.0, (min(firsts) - self._now()) / timedelta(seconds=1)) if firsts else None

    # keeping

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

    def _put(self, row: JobRecord) -> None:
        old = self._all.jobs.get(row.id)
        if old is not None and old.state is State.AVAILABLE:
            key = (old.task, old.queue, old.priority)
            line = self._all.lines[key]
            del line[bisect_left(line, (old.available_at, old.id))]
            if not line:
                del self._all.lines[key]
        if old is not None and PLACE_OF[old.state] is Place.ACTIVE and old.lease is not None:
            self._all.holds[old.lease].discard(old.id)
        self._all.jobs[row.id] = row
        if row.state is State.AVAILABLE:
            insort(self._all.lines.setdefault((row.task, row.queue, row.priority), []), (row.available_at, row.id))
        if PLACE_OF[row.state] is Place.ACTIVE and row.lease is not None:
            self._all.holds.setdefault(row.lease, set()).add(row.id)

    def _rows(self, ids: Sequence[UUID]) -> Rows:
        return [self._all.jobs[job] for job in dict.fromkeys(ids) if job in self._all.jobs]

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

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._active(transition.job, transition.token)
        if row is None or row.lease is None:
            return False
        if transition.judge is Judge.LEASE_ENDED and self._is_alive(row.lease):
            return False
        moved = transition.moved_by(cancel_requested=row.cancel_requested)
        ended = remembered(row, transition, now)
        if ended is not None:
            self._all.attempts.setdefault(row.id, {})[row.token] = ended
        self._put(settled(row, moved, now))
        return True

    def _answer_again(self, transition: Transition) -> Answer:
        row = self._all.jobs.get(transition.job)
        attempt = self._all.attempts.get(transition.job, {}).get(transition.token)
        if is_repeated(transition, row, attempt):
            return Answer.APPLIED
        return Answer.MISSING if row is None and attempt is None else Answer.LOST

    def _lines(self, tasks: Collection[str], queues: Sequence[str] | None) -> dict[Line, Waiting]:
        return {
            line: waiting
            for line, waiting in self._all.lines.items()
            if line[0] in tasks and (queues is None or line[1] in queues)
        }

    def _claim(self, request: ClaimRequest, now: datetime) -> tuple[Claim, ...]:
        lease = self._all.leases.get(request.lease)
        if lease is None or lease.end is not None or self._monotonic() > lease.expires:
            return ()
        room = request.limit + request.prefetch
        due = [
            (priority, at, job)
            for (_, _, priority), line in self._lines(request.tasks, request.queues).items()
            for at, job in islice(line, room)
            if at <= now
        ]
        return tuple(
            self._take(self._all.jobs[job], request, is_running=place < request.limit, worker=lease.spec.worker)
            for place, (_, _, job) in enumerate(nsmallest(room, due))
        )

    def _take(self, row: JobRecord, request: ClaimRequest, *, is_running: bool, worker: str) -> Claim:
        now = self._now()
        self._all.number += 1
        taken = structs.replace(
            row,
            token=Token(request.claim, self._all.number),
            policy=request.tasks[row.task],
            state=State.RUNNING if is_running else State.CLAIMED,
            attempt=row.attempt + is_running,
            lease=request.lease,
            worker=worker,
            claimed_at=now,
            started_at=now if is_running else None,
        )
        self._put(taken)
        return Claim(hold=hold_of(taken), payload=taken.payload, checkpoint=taken.checkpoint)

    def _lease_view(self, lease: UUID) -> LeaseView:
        known, holds = self._all.leases.get(lease), len(self._all.holds.get(lease, ()))
        if known is None:
            known = _Lease(structs.replace(_NOBODY, id=lease), self._now(), 0, self._monotonic(), end=LeaseEnd(End.EXPIRED))
        return LeaseView(
            id=lease,
            worker=known.spec.worker,
            process=known.spec.process,
            timing=known.spec.timing,
            overdue=(self._monotonic() - known.expires) / 1e6,
            seen=known.seen,
            age=(self._now() - known.opened) / timedelta(seconds=1),
            holds=holds,
            is_draining=known.is_draining,
            end=known.end,
            queues=known.spec.queues,
            tasks=known.spec.tasks,
        )


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

"""The choice of jobs for a claim of a book: by turns of lanes, and within limits; and the verbs of limits and of queues' settings."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from itertools import islice, takewhile
from uuid import UUID

from msgspec import structs

from holdfast._core.audit import AuditNote
from holdfast._core.book.moment import Moment
from holdfast._core.book.reading import BookReading
from holdfast._core.book.rows import KeptLimit, Range, Rows, Waiting
from holdfast._core.lanes import Cursor, LaneHead, deal, in_ring, looked_at, weight_of
from holdfast._core.limited_claim import Candidate, LaneName, limited_deal
from holdfast._core.limits import (
    CountedBy,
    Holder,
    Limit,
    LimitView,
    Scope,
    Use,
    is_limited,
    ready_after,
    room_for,
    view_of,
    wait_for,
)
from holdfast._core.origin import Origin
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimKind, ClaimRequest, IsolatedJobs, QueueSettings

_SECOND, _MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BookClaims(BookReading):
    """What a claim may take; each verb keeps the promise of the verb of this name in ``_ports/store``."""

    def next_due(
        self,
        now: Moment,
        tasks: Sequence[str],
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
    ) -> float | None:
        uses, due = self._uses(now.wall), list[datetime]()
        for which, waiting in self._ranges(tasks, queues, isolated, now.wall).items():
            wait = wait_for(_seat_of(which), uses)
            if wait is not None:
                due += [max(at, now.wall + wait * _MICROSECOND) for at, _ in islice(waiting, 1)]
        return max(0.0, (min(due) - now.wall) / _SECOND) if due else None

    def limits(self, now: Moment, key: str | None = None) -> tuple[LimitView, ...]:
        uses, known = self._uses(now.wall), self._all.limits
        return tuple(view_of(scope, uses[scope], known[scope].origin, self._holding(scope, now), key) for scope in sorted(known))

    def set_limit(self, now: Moment, scope: Scope, limit: Limit | None, origin: Origin, *, by: AuditNote | None = None) -> None:
        self._audit(now, by, int(limit is not None or scope in self._all.limits))
        if limit is None:
            self._all.limits.pop(scope, None)
            for each in [each for each in self._all.rates if each[0] == scope]:
                del self._all.rates[each]
        else:
            self._all.limits[scope] = KeptLimit(limit, origin)

    def set_queue(self, now: Moment, queue: str, settings: QueueSettings | None, *, by: AuditNote | None = None) -> None:
        self._audit(now, by, 1)
        old = self._all.queue_settings.pop(queue, QueueSettings())
        if settings is not None:
            self._all.queue_settings[queue] = settings
        more = (settings or QueueSettings()).priority - old.priority
        for row in self._pending(queue) if more else ():
            self._put(structs.replace(row, priority=row.priority + more))

    def _due(self, request: ClaimRequest, wall: datetime) -> tuple[Rows, Cursor, bool]:
        """Return the jobs that a part of a request gets, the cursor after it, and whether limits left no due job out."""
        ranges = self._ranges(request.tasks, request.queues, request.isolated, wall)
        if request.ids is not None:
            return self._first(self._plain(ranges, set(request.ids)), request.room, wall), request.cursor, True
        if request.kind is ClaimKind.LIMITED:
            return self._due_within_limits(ranges, request, wall)
        lanes = dict[LaneName, list[Waiting]]()
        for (_, queue, key, priority), waiting in self._plain(ranges).items():
            if due := list(islice(takewhile(lambda each: each[0] <= wall, waiting), request.room)):
                lanes[priority, queue, key] = nsmallest(request.room, [*lanes.get((priority, queue, key), ()), *due])
        heads = [LaneHead(*lane, len(due), self._weight(lane)) for lane, due in lanes.items()]
        looked, is_cut = looked_at(in_ring(heads, request.cursor), request.room)
        dealt = deal(looked, request.room, request.cursor, is_cut=is_cut)
        chosen = [
            (lane.priority, *each)
            for lane, number in zip(looked, dealt.takes, strict=True)
            for each in lanes[lane.priority, lane.queue, lane.key][:number]
        ]
        return [self._all.jobs[job] for _, _, job in sorted(chosen)], dealt.cursor, True

    def _due_within_limits(
        self, ranges: dict[Range, Iterator[Waiting]], request: ClaimRequest, wall: datetime
    ) -> tuple[Rows, Cursor, bool]:
        uses, lanes = self._uses(wall), dict[LaneName, list[Candidate[UUID]]]()
        for which, waiting in ranges.items():
            seat, (_, queue, key, priority) = _seat_of(which), which
            most = min(request.room, room_for(seat, uses)) if is_limited(seat, uses) else 0
            if due := [
                Candidate(priority, *each, seat) for each in islice(takewhile(lambda each: each[0] <= wall, waiting), most)
            ]:
                lanes[priority, queue, key] = nsmallest(request.room, [*lanes.get((priority, queue, key), ()), *due])
        dealt = limited_deal(lanes, {lane: self._weight(lane) for lane in lanes}, request.room, request.cursor, uses)
        self._all.rates.update(ready_after([candidate.seat for candidate in dealt.taken], uses))
        return [self._all.jobs[candidate.id] for candidate in dealt.taken], dealt.cursor, dealt.is_whole

    def _plain(
        self, ranges: dict[Range, Iterator[Waiting]], only: Collection[object] | None = None
    ) -> dict[Range, Iterator[Waiting]]:
        """Return the ranges that no limit counts; of their jobs ``only`` these."""
        return {
            which: waiting if only is None else filter(lambda each: each[1] in only, waiting)
            for which, waiting in ranges.items()
            if not is_limited(_seat_of(which), self._all.limits)
        }

    def _weight(self, lane: LaneName) -> int:
        _, queue, key = lane
        chosen = self._all.queue_settings.get(queue, QueueSettings())
        return weight_of(chosen.weight, chosen.key_weights, key)

    def _uses(self, wall: datetime) -> dict[Scope, Use]:
        """Return how much of each limit is used."""
        now, active = (wall - _EPOCH) // _MICROSECOND, self._active_rows() if self._all.limits else []
        found = dict[Scope, Use]()
        for scope, kept in self._all.limits.items():
            numbers: Counter[str | None] = Counter(row.key for row in active if scope in _counts_of(row).scopes)
            ready_at = {key: at for (which, key), at in self._all.rates.items() if which == scope}
            found[scope] = Use(limit=kept.limit, now=now, active={**numbers, None: numbers.total()}, ready_at=ready_at)
        return found

    def _holding(self, scope: Scope, now: Moment) -> list[tuple[str, Holder]]:
        """Return the active jobs that a limit counts, with their keys, the first claimed first."""
        held = [
            (row.key, Holder(row.id, row.worker or "", (now.wall - row.claimed_at) / _SECOND))
            for row in self._active_rows()
            if scope in _counts_of(row).scopes and row.claimed_at is not None
        ]
        return sorted(held, key=lambda each: (-each[1].held, each[1].job))

    def _pending(self, queue: str) -> Rows:
        return self._rows([*self._waiting(queue), *self._all.parked.get(queue, ())])

    def _active_rows(self) -> Rows:
        return [self._all.jobs[job] for jobs in self._all.holds.values() for job in jobs]


def _seat_of(which: Range) -> CountedBy:
    task, queue, key, _ = which
    return CountedBy(task, queue, key)


def _counts_of(row: JobRecord) -> CountedBy:
    return CountedBy(row.task, row.queue, row.key)

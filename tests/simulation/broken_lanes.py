"""Lanes and limits with one missing guard: stores, and workers as context managers."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core import lanes, lifecycle, limited_claim
from holdfast._core.answers import ExchangeAnswer
from holdfast._core.book import claims as book_claims
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.job import ActiveJob, Claim, State
from holdfast._core.lanes import Cursor, LaneHead
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.limits import UNLIMITED, CountedBy, Scope, Use
from holdfast._core.outcome import Outcome, Snooze
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest
from holdfast._engine.worker.claim_turns import ClaimTurns
from tests.simulation.patching import patched

Due = tuple[list[JobRecord], Cursor, bool]


class CountedEarlier(Book):
    """A claim counts the active jobs as they were at the claim before it."""

    def _due_within_limits(self, ranges: Any, request: ClaimRequest, wall: datetime) -> Due:
        now = self._uses(wall)
        before, self._counted = getattr(self, "_counted", now), now
        stale = {scope: structs.replace(use, active=before.get(scope, use).active) for scope, use in now.items()}
        with patched(self, _uses=lambda wall: stale):
            return super()._due_within_limits(ranges, request, wall)


class SlotCounter(Book):
    """A claim adds to a counter and its owner's settle subtracts: slots of dead workers stay taken."""

    def _uses(self, wall: datetime) -> dict[Scope, Use]:
        taken: set[UUID] = getattr(self, "_slots", set())
        rows = [self._all.jobs[job] for job in sorted(taken) if job in self._all.jobs]
        with patched(self, _active_rows=lambda: rows):
            return super()._uses(wall)

    def _take(self, row: JobRecord, request: ClaimRequest, now: Moment, **how: Any) -> Claim:
        self._slots = getattr(self, "_slots", set()) | {row.id}
        return super()._take(row, request, now, **how)

    def _settle(self, transition: Transition, now: Moment) -> bool:
        is_applied = super()._settle(transition, now)
        if is_applied and transition.precondition is Precondition.TOKEN:
            self._slots = getattr(self, "_slots", set()) - {transition.job}
        return is_applied


class DeadNotCounted(Book):
    """Jobs of workers whose lease has ended do not count."""

    def _active_rows(self) -> list[JobRecord]:
        return [row for row in super()._active_rows() if row.lease is not None and self._is_alive(row.lease)]


class SeatsBeforeFullLanes(Book):
    """Seats are numbered before full lanes are left out, so that jobs of a full task use up the seats of their queue."""

    def _due_within_limits(self, ranges: Any, request: ClaimRequest, wall: datetime) -> Due:
        with patched(book_claims, room_for=lambda seat, uses: UNLIMITED):
            rows, cursor, _ = super()._due_within_limits(ranges, request, wall)
        return rows, cursor, True


class TurnsPerClaim(Book):
    """The turns of each claim are its own: it begins with the lane whose job has waited longest."""

    def _due(self, request: ClaimRequest, wall: datetime) -> Due:
        heads = [
            ((priority, queue, key), next(iter(some))) for (_, queue, key, priority), some in self._all.ranges.items() if some
        ]
        oldest = {lane: min(first for other, first in heads if other == lane) for lane, _ in heads}

        def by_age(heads: Iterable[LaneHead], cursor: Cursor) -> list[LaneHead]:
            del cursor
            return sorted(heads, key=lambda lane: (lane.priority, oldest[lane.priority, lane.queue, lane.key]))

        with in_rings(by_age):
            return super()._due(structs.replace(request, cursor=()), wall)


class RingWithoutReturn(Book):
    """A claim looks at the lanes from its cursor on, and never goes round to those before it."""

    def _due(self, request: ClaimRequest, wall: datetime) -> Due:
        def onward(heads: Iterable[LaneHead], cursor: Cursor) -> list[LaneHead]:
            turns = lanes.turns_of(cursor)
            ring = lanes.in_ring(heads, cursor)
            return [lane for lane in ring if (turn := turns.get(lane.priority)) is None or lanes._is_reached(lane, turn)]

        with in_rings(onward):
            return super()._due(request, wall)


class RateRefunded(Book):
    """A released job gives its start back to the rates."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        is_applied = super()._settle(transition, now)
        if is_applied and row is not None and transition.to is State.AVAILABLE and not transition.delay:
            for scope in CountedBy(row.task, row.queue, row.key).scopes:
                for key in (None, row.key):
                    self._refund(scope, key)
        return is_applied

    def _refund(self, scope: Scope, key: str | None) -> None:
        kept, ready_at = self._all.limits.get(scope), self._all.rates.get((scope, key))
        interval = None if kept is None else kept.limit.interval if key is None else kept.limit.interval_per_key
        if interval is not None and ready_at is not None:
            self._all.rates[scope, key] = ready_at - interval


class LimitedTakenByPlain(Book):
    """A claim without limits takes jobs that limits count."""

    def _plain(self, ranges: Any, only: Any = None) -> Any:
        return ranges if only is None else {which: filter(lambda each: each[1] in only, some) for which, some in ranges.items()}


@contextmanager
def in_rings(order: Any) -> Iterator[None]:
    """Order the lanes of claims in another way."""
    with patched(book_claims, in_ring=order), patched(limited_claim, in_ring=order):
        yield


def cursor_forgotten() -> AbstractContextManager[None]:
    """A worker begins each claim with the first lane."""
    return patched(ClaimTurns, cursor=property(lambda self: ()))


def limited_lanes_forgotten() -> AbstractContextManager[None]:
    """A worker claims without limits only, also when the store answers that there are some."""
    answered = ClaimTurns.answered

    def stay(self: ClaimTurns, request: ClaimRequest, answer: ExchangeAnswer, *, frees: bool = False) -> None:
        answered(self, request, structs.replace(answer, has_limited=False), frees=frees)

    return patched(ClaimTurns, answered=stay)


def snoozes_keep_their_position() -> AbstractContextManager[None]:
    """A job that snoozes keeps its position: it is claimed again at once, before all that came after it."""
    finish = lifecycle.finish

    def stay(job: ActiveJob, outcome: Outcome, *, jitter: float) -> Transition:
        moved = finish(job, outcome, jitter=jitter)
        return structs.replace(moved, delay=None) if isinstance(outcome, Snooze) else moved

    return patched(lifecycle, finish=stay)

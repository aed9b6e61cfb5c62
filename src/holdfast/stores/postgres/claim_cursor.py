"""What a store remembers between claims of one kind: hints that save time; correctness never depends on them.

The head of a deep range is full of index entries of deleted jobs, and each claim would pass them all. So while jobs are taken fast, a
claim continues in each deep range where the last one stopped. After at most a fifth of a second, all ranges are searched again from
their beginning, for jobs that returned to their positions. The same happens after a claim that found less than it asked for, and once
this process has returned a job.

A range needs no walk over lanes while no other one is as urgent: ``due_range.sql`` claims from it, and reports in the
same statement when it is not the only one any more.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.lanes import LaneHead
from holdfast._core.requests import ClaimRequest
from holdfast.stores.postgres.lane_report import LaneReport
from holdfast.stores.postgres.records import Row

FAST = 200
"""The number of jobs taken in a row from which on hints save time."""
FRESH = 0.2
"""The seconds for which hints are used. A rescued job may wait this long for the next search, because other processes receive no hint
of its rescue."""
MOST_HINTS = 16
"""The deep ranges that are remembered; a walk looks at about as many lanes."""

Range = tuple[str, int, str, str]
"""(task, priority, queue, key)"""

_RANGE = itemgetter("task", "priority", "queue", "key")
_SLACK, _MOST_SLACK = 16, 100_000
_EARLIEST, _LEAST = datetime.min, UUID(int=0)


class LastClaimed(Struct, frozen=True):
    """The last job taken from a range: all jobs before it were taken or locked."""

    at: datetime
    job: UUID


class ClaimCursor(Struct, frozen=True):
    """The position of one kind of claims. ``taken``: the jobs taken since a claim got fewer than it asked for.

    ``sole``: the only range of its priority or a smaller one, and the ``weight`` of its lane. ``found_at``: when ranges were last searched
    from their beginning. ``turns``: how many turns of each lane a claim is likely to need. ``slack``: how many more jobs a claim deals
    out than it asks for, because other claims have as many locked.
    """

    sole: Range | None = None
    weight: int = 1
    hints: dict[Range, LastClaimed] = {}
    found_at: float = 0.0
    taken: int = 0
    turns: int = 0
    slack: int = 0

    def is_fresh(self, now: float) -> bool:
        """Return whether hints may be used."""
        return self.taken >= FAST and 0.0 <= now - self.found_at < FRESH

    def leads_on(self, now: float) -> bool:
        """Return whether the next claim may continue in the sole range, without a walk."""
        return self.sole is not None and self.sole in self.hints and self.is_fresh(now)

    def seen(self, now: float) -> dict[Range, LastClaimed]:
        """Return the hints for a walk at this time."""
        return self.hints if self.is_fresh(now) else {}

    @property
    def due_range(self) -> tuple[Any, ...]:
        """The parameters of ``due_range.sql``, except the wanted queues."""
        assert self.sole is not None
        seen = self.hints.get(self.sole)
        return (*self.sole, *((_EARLIEST, _LEAST) if seen is None else (seen.at, seen.job)))

    def after_range(self, claimed: Sequence[Row], room: int) -> "ClaimCursor":
        """Return the cursor after a claim from the sole range."""
        if len(claimed) < room:
            return ClaimCursor(slack=self.slack)
        last = claimed[-1]
        sole, hints = None if last["has_others"] else self.sole, _last_of(claimed[-1:])
        return structs.replace(self, sole=sole, hints=hints, taken=self.taken + room, slack=self.slack - self.slack // 8)

    def after_walk(self, claimed: Sequence[Row], heads: Sequence[LaneHead], report: LaneReport, now: float) -> "ClaimCursor":
        """Return the cursor after a walk that filled its claim with jobs of these lanes."""
        taken, is_fresh = self.taken + len(claimed), self.is_fresh(now)
        first, last = claimed[0], claimed[-1]
        is_sole = report.ranges == 1 and report.given_up is None and first["priority"] == last["priority"]
        return ClaimCursor(
            sole=_range_of(last) if is_sole else None,
            weight=report.weight_of(last["queue"], last["key"]),
            hints=self._hints_after(claimed, taken, is_fresh=is_fresh),
            found_at=self.found_at if is_fresh else now,
            taken=taken,
            turns=0 if report.cut is not None else 1 + max(-(-head.due // head.weight) for head in heads),
            slack=self.slack - self.slack // 8,
        )

    def after_limited(self, claimed: Sequence[Row], now: float) -> "ClaimCursor":
        """Return the cursor after a claim within limits that was filled with these jobs."""
        taken, is_fresh = self.taken + len(claimed), self.is_fresh(now)
        hints = self._hints_after(claimed, taken, is_fresh=is_fresh)
        return ClaimCursor(hints=hints, found_at=self.found_at if is_fresh else now, taken=taken)

    def after_locks(self, room: int) -> "ClaimCursor":
        """Return the cursor after a walk that found jobs which other claims have locked."""
        return structs.replace(self, slack=min(2 * self.slack + room + _SLACK, _MOST_SLACK))

    def _hints_after(self, claimed: Sequence[Row], taken: int, *, is_fresh: bool) -> dict[Range, LastClaimed]:
        hints = {**(self.hints if is_fresh else {}), **_last_of(claimed)} if taken >= FAST else {}
        return dict(list(hints.items())[-MOST_HINTS:])


def kind_of(request: ClaimRequest) -> tuple[object, ...]:
    """Return the kind of a request: requests of one kind search the same ranges."""
    return tuple(request.tasks), request.queues, request.isolated, request.kind


def _range_of(row: Row) -> Range:
    found: Range = _RANGE(row)
    return found


def _last_of(claimed: Sequence[Row]) -> dict[Range, LastClaimed]:
    last = dict(zip(map(_RANGE, claimed), claimed, strict=True))
    return {which: LastClaimed(row["available_at"], row["id"]) for which, row in last.items()}

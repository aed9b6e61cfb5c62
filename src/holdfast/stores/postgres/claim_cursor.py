"""The position from which claims of one kind search: a hint that saves time; correctness never depends on it.

The head of a long range is full of index entries of deleted jobs, and each claim would pass them all. So while jobs are taken fast, a
claim continues where the last one stopped. After at most a fifth of a second, all ranges are searched again from their beginning,
for jobs that returned to their positions or are more urgent. The same happens after a claim that found less than it asked for, and
once this process has returned a job.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.requests import ClaimRequest
from holdfast.stores.postgres.records import Row

FAST = 200
"""The number of jobs taken in a row from which on the cursor saves time."""
FRESH = 0.2
"""The seconds for which the ranges found count as all ranges. A rescued job may wait this long for the next search, because other
processes receive no hint of its rescue."""

Range = tuple[str, str, int]

_SLACK, _MOST_SLACK = 16, 100_000
_EARLIEST, _LEAST = datetime.min, UUID(int=0)


class LastClaimed(Struct, frozen=True):
    """The last job taken: all jobs before it were taken or locked."""

    priority: int
    at: datetime
    job: UUID


class ClaimCursor(Struct, frozen=True):
    """The position of one kind of claims. ``taken``: the jobs taken since a claim got fewer than it asked for.

    ``slack``: how many more ranges, and candidates of each, a claim reads than it asks for, because other claims have as many locked.
    ``is_whole``: no range was left out.
    """

    ranges: tuple[Range, ...] = ()
    seen: LastClaimed | None = None
    found_at: float = 0.0
    is_whole: bool = True
    taken: int = 0
    slack: int = 0

    @property
    def is_slow(self) -> bool:
        """Whether jobs are taken so slowly that the next claim may walk all ranges."""
        return self.taken < FAST

    def after_walk(self, claimed: int, room: int) -> "ClaimCursor":
        """Return the cursor after a claim that searched all ranges in the same statement."""
        return structs.replace(self, taken=claimed if claimed == room else 0)

    def leads_on(self, now: float) -> bool:
        """Return whether the next claim may continue here without searching the ranges again."""
        return self.taken >= FAST and self.seen is not None and 0.0 <= now - self.found_at < FRESH

    def after_search(self, found: Sequence[Row], most: int, now: float) -> "ClaimCursor":
        """Return the cursor after a search for at most ``most`` ranges; ``found``: the rows of ``ranges.sql``."""
        ranges = tuple((row["task"], row["queue"], row["priority"]) for row in found)
        slack = self.slack if ranges else 0
        return structs.replace(self, ranges=ranges, seen=None, found_at=now, is_whole=len(ranges) < most, slack=slack)

    def after(self, claimed: Sequence[Row], room: int) -> "ClaimCursor":
        """Return the cursor after a claim from its position."""
        if len(claimed) < room:
            return structs.replace(self, seen=None, taken=0, slack=min(2 * self.slack + room + _SLACK, _MOST_SLACK))
        last = claimed[-1]
        seen = LastClaimed(last["priority"], last["available_at"], last["id"])
        return structs.replace(self, seen=seen, taken=self.taken + room, slack=self.slack - self.slack // 8)

    def may_miss(self, claimed: Sequence[Row], room: int) -> bool:
        """Return whether more jobs may be due although a claim from here took less than it asked for."""
        is_narrow = not self.is_whole or len(self.ranges) > 1
        return len(claimed) < room and (self.seen is not None or (is_narrow and (len(claimed) > 0 or self.slack == 0)))

    @property
    def due(self) -> tuple[str, tuple[Any, ...]]:
        """The name of the part that completes ``exchange.sql``, and its parameters."""
        if len(self.ranges) == 1:
            task, queue, priority = self.ranges[0]
            seen = self.seen if self.seen is not None and priority <= self.seen.priority else None
            return "due_range", (task, queue, priority, *((_EARLIEST, _LEAST) if seen is None else (seen.at, seen.job)))
        seen = self.seen
        columns = tuple(zip(*self.ranges, strict=True))
        return "due_ranges", (*columns, *((None,) * 3 if seen is None else (seen.priority, seen.at, seen.job)), self.slack)


def kind_of(request: ClaimRequest) -> tuple[object, ...]:
    """Return the kind of a request: requests of one kind search the same ranges."""
    return tuple(request.tasks), request.queues, request.isolated

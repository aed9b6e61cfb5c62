"""Where claims of one kind look: a hint that saves time, and that correctness never depends on.

The head of a long range is full of entries of jobs that are gone, and each claim would pass them all. While jobs are taken
fast, claims therefore go on where the last one stopped, for a fifth of a second at most: then, whenever there is less than
asked, and once a job was given back here, all ranges are looked at again from their beginning, for jobs that came back to their
places or are more urgent.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.requests import ClaimRequest
from holdfast.stores.postgres.records import Row

FAST = 200
"""Jobs taken in a row, from which on it pays."""
FRESH = 0.2
"""Seconds for which the ranges that were found are thought to be all; so long a rescued job may wait for the next look, because
the claims of other processes hear nothing of its rescue."""

Range = tuple[str, str, int]

_SLACK, _MOST_SLACK = 16, 100_000
_EARLIEST, _LEAST = datetime.min, UUID(int=0)


class LastClaimed(Struct, frozen=True):
    """The last job taken: all before it was taken or locked."""

    priority: int
    at: datetime
    job: UUID


class ClaimCursor(Struct, frozen=True):
    """``taken``: in a row. ``slack``: how many ranges, and candidates of each, more than asked are looked at, because others hold
    as many locked. ``is_whole``: no range was left out."""

    ranges: tuple[Range, ...] = ()
    seen: LastClaimed | None = None
    found_at: float = 0.0
    is_whole: bool = True
    taken: int = 0
    slack: int = 0

    @property
    def is_slow(self) -> bool:
        """Whether the next claim may as well walk along all ranges."""
        return self.taken < FAST

    def after_walk(self, claimed: int, room: int) -> "ClaimCursor":
        """What a walk along all ranges has shown."""
        return structs.replace(self, taken=claimed if claimed == room else 0)

    def leads_on(self, now: float) -> bool:
        """Whether it may be followed without a look around."""
        return self.taken >= FAST and self.seen is not None and 0.0 <= now - self.found_at < FRESH

    def anew(self, found: Sequence[Row], most: int, now: float) -> "ClaimCursor":
        """After a look around for so many ranges; ``found`` by ``ranges.sql``."""
        ranges = tuple((row["task"], row["queue"], row["priority"]) for row in found)
        slack = self.slack if ranges else 0
        return structs.replace(self, ranges=ranges, seen=None, found_at=now, is_whole=len(ranges) < most, slack=slack)

    def after(self, claimed: Sequence[Row], room: int) -> "ClaimCursor":
        """What a claim along it has shown."""
        if len(claimed) < room:
            return structs.replace(self, seen=None, taken=0, slack=min(2 * self.slack + room + _SLACK, _MOST_SLACK))
        last = claimed[-1]
        seen = LastClaimed(last["priority"], last["available_at"], last["id"])
        return structs.replace(self, seen=seen, taken=self.taken + room, slack=self.slack - self.slack // 8)

    def may_miss(self, claimed: Sequence[Row], room: int) -> bool:
        """Whether there may be more although a claim along it took less than asked."""
        is_narrow = not self.is_whole or len(self.ranges) > 1
        return len(claimed) < room and (self.seen is not None or (is_narrow and (len(claimed) > 0 or self.slack == 0)))

    @property
    def due(self) -> tuple[str, tuple[Any, ...]]:
        """What ``exchange.sql`` is completed with, and its parameters."""
        if len(self.ranges) == 1:
            task, queue, priority = self.ranges[0]
            seen = self.seen if self.seen is not None and priority <= self.seen.priority else None
            return "due_range", (task, queue, priority, *((_EARLIEST, _LEAST) if seen is None else (seen.at, seen.job)))
        seen = self.seen
        columns = tuple(zip(*self.ranges, strict=True))
        return "due_ranges", (*columns, *((None,) * 3 if seen is None else (seen.priority, seen.at, seen.job)), self.slack)


def kind_of(request: ClaimRequest) -> tuple[object, ...]:
    """Requests of one kind look at the same ranges."""
    return tuple(request.tasks), request.queues, request.isolated

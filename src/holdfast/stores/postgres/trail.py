"""Where claims of one kind look: a hint that saves time, and that correctness never depends on.

The head of a long line is full of entries of jobs that are gone, and each claim would pass them all. While jobs are taken
fast, claims therefore go on where the last one stopped, for a second at most: then, and whenever there is less than asked,
all lines are looked at again from their beginning, for jobs that came back meanwhile or are more urgent.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._ports.store import ClaimRequest
from holdfast.stores.postgres.rows import Row

FAST = 200
"""Jobs taken in a row, from which on it pays."""
FRESH = 1.0
"""Seconds for which the lines that were found are thought to be all."""

_SLACK, _MOST_SLACK = 16, 100_000


class Seen(Struct, frozen=True):
    """The last job taken: all before it was taken or locked."""

    priority: int
    at: datetime
    job: UUID


class Trail(Struct, frozen=True):
    """``taken``: in a row. ``slack``: how many lines and candidates more than asked are looked at, because others hold as many locked.
    ``is_whole``: no line was left out."""

    lines: tuple[Row, ...] = ()
    seen: Seen | None = None
    found_at: float = 0.0
    is_whole: bool = True
    taken: int = 0
    slack: int = 0

    def leads_on(self, now: float) -> bool:
        """Whether it may be followed without a look around."""
        return self.taken >= FAST and self.seen is not None and 0.0 <= now - self.found_at < FRESH

    def anew(self, lines: Sequence[Row], most: int, now: float) -> "Trail":
        """After a look around for so many lines."""
        return structs.replace(self, lines=tuple(lines), seen=None, found_at=now, is_whole=len(lines) < most)

    def after(self, claimed: Sequence[Row], room: int, candidates: int) -> "Trail":
        """What a claim along it has shown."""
        if len(claimed) < room:
            slack = 2 * self.slack + room + _SLACK if self._is_narrow(claimed, candidates) else self.slack // 2
            return structs.replace(self, seen=None, taken=0, slack=slack)
        last = claimed[-1]
        seen = Seen(last["seen_priority"], last["seen_at"], last["id"])
        return structs.replace(self, seen=seen, taken=self.taken + room, slack=self.slack - self.slack // 8)

    def may_miss(self, claimed: Sequence[Row], room: int, candidates: int) -> bool:
        """Whether there may be more although a claim along it took less than asked."""
        return len(claimed) < room and (self.seen is not None or self._is_narrow(claimed, candidates))

    def _is_narrow(self, claimed: Sequence[Row], candidates: int) -> bool:
        """Whether some candidates were locked, or some lines were left out."""
        return self.slack < _MOST_SLACK and (len(claimed) < candidates or not self.is_whole)

    @property
    def columns(self) -> tuple[Any, ...]:
        """As ``exchange.sql`` takes it."""
        tasks, queues, priorities = zip(*self.lines, strict=True) if self.lines else ((), (), ())
        seen = (None, None, None) if self.seen is None else (self.seen.priority, self.seen.at, self.seen.job)
        return (tasks, queues, priorities, *seen, self.slack)


def kind_of(request: ClaimRequest) -> tuple[object, ...]:
    """Requests of one kind look at the same lines."""
    return tuple(request.tasks), request.queues, request.last_tries

"""What pages that renew themselves have read of the store, shared by all viewers who see the same."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast._engine.service import Signal
from holdfast._ports.clock import Clock
from holdfast.dashboard.views.page import Page
from holdfast.http.stream import EVERY

SHARE: Final = 20
"""How many times its own length passes from one reading of the watched pages to the next."""
MOST_REST: Final = 1.5
"""Seconds for that which are enough, so that changes are soon seen beside busy workers, unless ..."""
LEAST_SHARE: Final = 5
"""... this many times the length of a reading is more."""
LONGEST_WAIT: Final = 3.0
"""Seconds that a viewer waits for the next reading; rather than longer, it gets the one before."""
KEPT: Final = 60.0
"""Seconds for which a reading is remembered after it was last asked for."""


class _Reading:
    """One page. ``change``: the number of the latest change that it shows; ``began``: when. None: it has not begun yet."""

    task: "asyncio.Task[Page]"
    change: int | None = None
    began: float = 0.0

    def __init__(self, asked: float) -> None:
        self.asked = asked


class SharedReadings:
    """Reads a page once after each change, or once a second without one, for all viewers.

    The pages that are watched are read together, and then rest, so that all people who watch take little of a store's time.
    ``latest``: the number of the latest change.
    """

    def __init__(self, clock: Callable[[], Clock], latest: Callable[[], int]) -> None:
        self._clock, self._latest = clock, latest
        self._known = dict[Hashable, _Reading]()
        self._now_reading, self._began, self._rests_until = 0, 0.0, 0.0

    def of(self, key: Hashable, read: Callable[[], Coroutine[None, None, Page]]) -> "asyncio.Future[Page]":
        """Return what was read under this key, or what ``read`` returns."""
        now = self._clock().monotonic()
        self._known = {each: known for each, known in self._known.items() if now < known.asked + KEPT or not known.task.done()}
        known = self._known.get(key)
        if known is None or not self._serves(known, now):
            before, known = known, _Reading(now)
            known.task = asyncio.get_running_loop().create_task(self._read(known, before, read))
            self._known[key] = known
        known.asked = now
        return asyncio.shield(known.task)

    def clear(self) -> None:
        """Have each page read again, and at once, because an action has changed something."""
        self._known.clear()
        self._rests_until = 0.0

    def _serves(self, known: _Reading, now: float) -> bool:
        """Return whether a reading can be shown: it has not begun, it shows the latest change, or the next one would take too long."""
        if known.change is None or not known.task.done():
            return known.change in (None, self._latest())
        is_current = known.change == self._latest() and now < known.began + EVERY
        return is_current or self._left(now) > LONGEST_WAIT

    def _left(self, now: float) -> float:
        return 0.0 if self._now_reading else self._rests_until - now

    async def _read(self, reading: _Reading, before: _Reading | None, read: Callable[[], Coroutine[None, None, Page]]) -> Page:
        left = self._left(self._clock().monotonic())
        if before is None:
            left = min(left, LONGEST_WAIT)
        else:
            await asyncio.wait([before.task])
            left = self._left(self._clock().monotonic())
        await Signal().wait(left)
        reading.change, reading.began = self._latest(), self._clock().monotonic()
        with self._taking_part():
            return await read()

    @contextmanager
    def _taking_part(self) -> Iterator[None]:
        """Count the reading among those under way; the last of them to end begins the rest."""
        if not self._now_reading:
            self._began = self._clock().monotonic()
        self._now_reading += 1
        try:
            yield
        finally:
            self._now_reading -= 1
            took = self._clock().monotonic() - self._began
            self._rests_until = self._began + max(min(SHARE * took, MOST_REST), LEAST_SHARE * took)

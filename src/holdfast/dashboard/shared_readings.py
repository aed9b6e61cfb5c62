"""What pages that renew themselves have read of the store, shared by all viewers who see the same."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable

from holdfast._ports.clock import Clock
from holdfast.dashboard.views.page import Page
from holdfast.http.stream import EVERY, SHARE


class _Reading:
    """One page. ``until``: when it is read again, which is known once it was read."""

    task: asyncio.Task[Page]
    until: float | None = None


class SharedReadings:
    """Reads a page once a second at most, for all viewers.

    A reading that took long is shared for longer, so that people who watch one page take at most a tenth of a store's time.
    """

    def __init__(self, clock: Callable[[], Clock]) -> None:
        self._clock, self._recent = clock, dict[Hashable, _Reading]()

    def of(self, key: Hashable, read: Callable[[], Coroutine[None, None, Page]]) -> asyncio.Future[Page]:
        """Return what was read under this key, or what ``read`` returns."""
        clock = self._clock()
        began = clock.monotonic()
        self._recent = {each: known for each, known in self._recent.items() if known.until is None or began < known.until}
        if key not in self._recent:
            reading = self._recent[key] = _Reading()

            async def timed() -> Page:
                try:
                    return await read()
                finally:
                    reading.until = began + max(EVERY, SHARE * (clock.monotonic() - began))

            reading.task = asyncio.get_running_loop().create_task(timed())
        return asyncio.shield(self._recent[key].task)

    def clear(self) -> None:
        """Have each page read again, because an action has changed something."""
        self._recent.clear()

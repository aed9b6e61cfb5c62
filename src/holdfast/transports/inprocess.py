"""Hints inside one process, for a store that lives there: from any thread to the event loops of its workers."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast._ports.transport import Hint

Listener = tuple[asyncio.AbstractEventLoop, Callable[[Hint], None]]


class InProcessTransport:
    """One of those that share ``listeners``, a list that lives as long as the store does."""

    deliveries = None

    def __init__(self, listeners: list[Listener]) -> None:
        self._listeners = listeners
        self._ours: list[Listener] = []

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Tell every listener, in its own loop."""
        for loop, wake in tuple(self._listeners):
            for hint in hints:
                try:
                    loop.call_soon_threadsafe(wake, hint)
                except RuntimeError:
                    break  # its loop is closed: it left without a word

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """From now on call ``wake`` in the running loop for each hint that arrives."""
        listener = (asyncio.get_running_loop(), wake)
        self._ours.append(listener)
        self._listeners.append(listener)

    async def close(self) -> None:
        """Stop listening."""
        while self._ours:
            self._listeners.remove(self._ours.pop())

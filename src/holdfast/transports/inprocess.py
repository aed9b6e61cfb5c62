"""Hints inside one process, for a store that lives there: from any thread to the event loops of its workers."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast._ports.transport import Hint

Listener = tuple[asyncio.AbstractEventLoop, Callable[[Hint], None]]


class InProcessTransport:
    """One of the transports that share ``listeners``, a list that lives as long as the store does."""

    deliveries = None

    def __init__(self, listeners: list[Listener]) -> None:
        self._listeners = listeners
        self._ours: list[Listener] = []

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Call every listener, each in its event loop."""
        for loop, wake in tuple(self._listeners):
            for hint in hints:
                try:
                    loop.call_soon_threadsafe(wake, hint)
                except RuntimeError:
                    break  # its loop is closed: it left without closing the transport

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that arrives."""
        listener = (asyncio.get_running_loop(), wake)
        self._ours.append(listener)
        self._listeners.append(listener)

    async def close(self) -> None:
        """Remove this listener from the shared list."""
        while self._ours:
            self._listeners.remove(self._ours.pop())

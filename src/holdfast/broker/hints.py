"""Hints between workers that reach the broker over HTTP, and between them and those that are connected to its store."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from holdfast._ports.transport import Hint, Transport
from holdfast._ports.wire_hints import LONGEST_WAIT, HintsAnswer

KEPT: Final = 1000
"""Hints that are kept for workers whose next request is on its way."""
MOST_WAITING: Final = 10_000


class Hub:
    """The hints of this broker: published by workers or by its transport, and read by long poll."""

    def __init__(self, transport: Transport, incarnation: UUID) -> None:
        self._transport, self._name = transport, incarnation.hex
        self._kept = deque[Hint](maxlen=KEPT)
        self._count = 0
        self._changed = asyncio.Event()
        self._is_closed = False
        self.waiting = 0

    async def open(self) -> None:
        """Pass on the hints of the store's own transport from now on."""
        await self._transport.subscribe(lambda hint: self.add([hint]))

    def close(self) -> None:
        """Answer all requests that wait, now and later, because the broker stops."""
        self._is_closed = True
        self._changed.set()

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Pass on hints of a worker to all others."""
        self.add(hints)
        await self._transport.publish(hints)

    def add(self, hints: Sequence[Hint]) -> None:
        """Keep hints, and answer all requests that wait."""
        self._kept.extend(hints)
        self._count += len(hints)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def count(self) -> int:
        """The number of hints so far."""
        return self._count

    async def wait(self, seconds: float) -> bool:
        """Return with the next hint, or after this time: ``False`` if the broker stops."""
        if self._is_closed:
            return False
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            self.waiting -= 1
        return not self._is_closed

    async def read(self, position: str) -> HintsAnswer:
        """Return the hints since a position; wait for the first one. An unknown position gets a hint to look at everything."""
        name, _, text = position.partition(".")
        if name != self._name or not text.isdecimal() or not self._count - KEPT <= int(text) <= self._count:
            return HintsAnswer(f"{self._name}.{self._count}", (Hint(),))
        if int(text) == self._count and self.waiting < MOST_WAITING:
            await self.wait(LONGEST_WAIT)
        missed = self._count - int(text)
        return HintsAnswer(f"{self._name}.{self._count}", tuple(self._kept)[-missed:] if 0 < missed <= KEPT else ())


class HubTransport:
    """The store's own transport as the broker itself uses it: its hints also reach the workers behind it."""

    def __init__(self, hub: Hub, transport: Transport) -> None:
        self.publish = hub.publish
        self.subscribe, self.close = transport.subscribe, transport.close
        self.deliveries = transport.deliveries

"""Hints through the broker that leads a bucket, for processes that know only the bucket."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.transport import Hint, Transport
from holdfast.errors import StoreUnavailable
from holdfast.transports._upkeep import PerLoop, Upkeep

LOOK = 10.0
"""Seconds between two looks which broker leads."""
CLOSING = 10.0
"""Seconds at the end for the transport of the broker, which sends what waits."""
FIRST_LOOK = 2.0
"""The most seconds for which a process that enqueues waits for its first look."""


class Look(Protocol):
    """Finds the broker that leads."""

    async def leader(self) -> str | None:
        """Return its URL; ``None``: no broker leads."""
        ...

    async def close(self) -> None:
        """Close the connection, which no look uses any more."""
        ...


class LeaderTransport:
    """Wakes idle workers through the broker that leads; while none does, workers poll. ``connect``: returns the transport of a broker."""

    deliveries = None

    def __init__(
        self, name: str, look: Callable[[], Look], connect: Callable[[str], Transport], *, clock: Clock, chance: Randomness
    ) -> None:
        self._loops = PerLoop(lambda: _LoopLeader(name, look, connect, clock, chance))

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send the hints in the background, if a broker leads."""
        if hints:
            await self._loops.here().publish(hints)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that arrives."""
        await self._loops.here().subscribe(wake)

    async def close(self) -> None:
        """Send what waits, and close the connections."""
        await self._loops.close(lambda leader: leader)


class _LoopLeader:
    """The leader as one event loop knows it."""

    def __init__(
        self, name: str, open_look: Callable[[], Look], connect: Callable[[str], Transport], clock: Clock, chance: Randomness
    ) -> None:
        self._open_look, self._connect, self._clock = open_look, connect, clock
        self._wakes = list[Callable[[Hint], None]]()
        self._url: str | None = None
        self._broker: Transport | None = None
        self._upkeep: Upkeep[bool] = Upkeep(f"the leader of {name}", self._follow, clock=clock, chance=chance)

    async def publish(self, hints: Sequence[Hint]) -> None:
        await self._upkeep.session(FIRST_LOOK)
        if self._broker is not None:
            await self._broker.publish(hints)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        self._wakes.append(wake)
        if self._broker is not None:
            await self._broker.subscribe(wake)

    def stop(self) -> None:
        self._upkeep.stop()

    async def close(self) -> None:
        await self._upkeep.close(CLOSING)

    async def _follow(self, opened: Callable[[bool], None]) -> None:
        look = self._open_look()
        try:
            await self._turn_to(await look.leader())
            opened(True)
            while True:
                await self._clock.sleep(LOOK)
                with suppress(StoreUnavailable):  # the broker may answer while the bucket does not
                    await self._turn_to(await look.leader())
        finally:
            try:
                await self._turn_to(None)
            finally:
                await look.close()

    async def _turn_to(self, url: str | None) -> None:
        if url == self._url:
            return
        old, self._broker, self._url = self._broker, None, url
        if old is not None:
            await old.close()
        if url is not None:
            self._broker = self._connect(url)
            for wake in self._wakes:
                await self._broker.subscribe(wake)

"""Whether this broker leads. On a bucket the brokers elect one of them; of every other store each broker leads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

from holdfast._ports.clock import Clock
from holdfast._ports.leading import Electing, Standing
from holdfast._ports.store import Store
from holdfast.broker.maintenance import Maintenance
from holdfast.errors import HoldfastError

PAUSE: Final = 0.5
"""Seconds after which a broker notes that it leads, or does no longer, and begins or ends its maintenance."""


class Leadership:
    """The part of this broker in the election, from ``stand`` on."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._electing: Electing | None = None
        self._maintaining: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None

    @property
    def is_elected(self) -> bool:
        """Whether the store is one whose brokers elect the one that leads."""
        return hasattr(self._store, "stand")

    @property
    def standing(self) -> Standing:
        """Whether this broker leads, and who does."""
        return Standing(True, None, "") if self._electing is None else self._electing.standing

    async def stand(self, url: str) -> None:
        """Stand for election, if the store has one. ``url``: where clients reach this broker."""
        if self.is_elected:
            electing = cast(Electing, self._store)
            await electing.stand(url)
            self._electing = electing

    def end(self) -> Awaitable[None]:
        """Begin to hand over; the maintenance ends first, and with it its lease."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._hand_over())
        return self._ending

    @asynccontextmanager
    async def maintained(self, maintenance: Maintenance | None) -> AsyncIterator[None]:
        """Run the maintenance in the block, while this broker leads; hand over at its end."""
        if maintenance is not None:
            self._maintaining = asyncio.create_task(self._maintain(maintenance))
        try:
            yield
        finally:
            await self.end()

    async def _maintain(self, maintenance: Maintenance) -> None:
        while True:
            if self.standing.is_leading:
                async with maintenance.running():
                    while self.standing.is_leading:
                        await self._clock.sleep(PAUSE)
            await self._clock.sleep(PAUSE)

    async def _hand_over(self) -> None:
        if self._maintaining is not None:
            self._maintaining.cancel()
            await asyncio.gather(self._maintaining, return_exceptions=True)
        if self._electing is not None:
            with suppress(HoldfastError):  # without it the next one takes over when this one has been silent for long
                await self._electing.resign()

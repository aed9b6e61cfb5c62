"""A store like MongoDB: writes count once a majority has them, and those that were never confirmed may be rolled back.

While the primary is cut off from the others it goes on: it answers reads out of what it alone knows, and confirms no write.
Then either the others hear of it all, or one of them takes over and nothing of it ever was. As nobody was told of any such
write, nothing is excused: the history tells of that time as if they had not been.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast._core.job import Token
from holdfast._ports.store import Store
from holdfast.errors import StoreUnavailable
from proof.simulator.hosts import SimClock
from proof.simulator.loop import VirtualLoop
from proof.stores.gateways import Ask, Door
from proof.stores.recording_store import Memory, Witness


class Quorum:
    """Whether a majority hears of writes at the moment."""

    def __init__(self, loop: VirtualLoop, store: Witness) -> None:
        self._loop = loop
        self._store = store
        self._before: Memory | None = None
        self._waiting: list[asyncio.Future[bool]] = []

    @property
    def is_lost(self) -> bool:
        """Whether nobody is confirmed anything now."""
        return self._before is not None

    def lose(self) -> None:
        """From now on, until it is found."""
        self._before = self._store.remember()

    def find(self, *, is_rolled_back: bool) -> None:
        """All that was written meanwhile counts, or never was; who still waits is told which."""
        if self._before is None:
            return
        if is_rolled_back:
            self._store.roll_back(self._before)
        self._before, waiting, self._waiting = None, self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(not is_rolled_back)

    async def confirm(self) -> bool:
        """Whether what was written just now counts."""
        if self._before is None:
            return True
        told: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(told)
        return await told


class ReplicaDoor(Door):
    """Of one process, which waits for a majority for ``patience`` seconds at most."""

    def __init__(
        self,
        store: Store,
        introduce: Callable[[], None],
        quorum: Quorum,
        clock: SimClock,
        numbers: random.Random,
        *,
        patience: float,
    ) -> None:
        super().__init__(store, introduce)
        self._quorum, self._clock, self._numbers, self._patience = quorum, clock, numbers, patience

    async def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        """Answered when it counts."""
        patience = self._numbers.random() * self._patience
        answer = await ask()
        await self._settle(verb, patience)
        return answer

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Its commit counts like a write."""
        return self._confirmed(super().transaction(job, token, idle=idle, hook_due_at=hook_due_at))

    @asynccontextmanager
    async def _confirmed(self, transaction: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        patience = self._numbers.random() * self._patience
        async with transaction as connection:
            yield connection
        await self._settle("transaction", patience)

    async def _settle(self, verb: str, patience: float) -> None:
        if not self._quorum.is_lost:
            return
        confirming = asyncio.ensure_future(self._quorum.confirm())
        waiting = asyncio.ensure_future(self._clock.sleep(patience))
        try:
            await asyncio.wait((confirming, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            confirming.cancel()
            waiting.cancel()
        if not confirming.done() or confirming.cancelled():
            raise StoreUnavailable(f"{verb}: no majority has confirmed it in time")
        if not confirming.result():
            raise StoreUnavailable(f"{verb}: the primary has stepped down")

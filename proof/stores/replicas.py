"""A store like MongoDB: a write counts once a majority has it, and a write that was never confirmed may be rolled back.

While the primary is cut off from the others, it answers reads from its own copy, including unconfirmed writes, and confirms no
write. Then either the others receive all its writes, or one of them takes over and those writes are undone. No caller got a
confirmation of such a write, so the checker excuses nothing: the history leaves undone writes out.
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
from proof.stores.gateways import Ask, Gateway
from proof.stores.recording_store import Memory, Witness


class Quorum:
    """The connection of the primary to a majority, which is there or is lost."""

    def __init__(self, loop: VirtualLoop, store: Witness) -> None:
        self._loop = loop
        self._store = store
        self._before: Memory | None = None
        self._waiting: list[asyncio.Future[bool]] = []

    @property
    def is_lost(self) -> bool:
        """Whether no write is confirmed now."""
        return self._before is not None

    def lose(self) -> None:
        """Confirm no write from now on, until ``find``."""
        self._before = self._store.remember()

    def find(self, *, is_rolled_back: bool) -> None:
        """Confirm all writes since ``lose``, or undo them; report the result to each caller that still waits."""
        if self._before is None:
            return
        if is_rolled_back:
            self._store.roll_back(self._before)
        self._before, waiting, self._waiting = None, self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(not is_rolled_back)

    async def confirm(self) -> bool:
        """Wait until a write made now is confirmed (true) or undone (false)."""
        if self._before is None:
            return True
        confirmed: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(confirmed)
        return await confirmed


class ReplicaGateway(Gateway):
    """The gateway of one process, which waits for a majority for ``timeout`` seconds at most."""

    def __init__(
        self,
        store: Store,
        introduce: Callable[[], None],
        quorum: Quorum,
        clock: SimClock,
        numbers: random.Random,
        *,
        timeout: float,
    ) -> None:
        super().__init__(store, introduce)
        self._quorum, self._clock, self._numbers, self._timeout = quorum, clock, numbers, timeout

    async def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        """Carry out the write, and answer once it is confirmed."""
        timeout = self._numbers.random() * self._timeout
        answer = await ask()
        await self._settle(verb, timeout)
        return answer

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open a transaction, whose commit waits for a majority as a write does."""
        return self._confirmed(super().transaction(job, token, idle=idle, hook_due_at=hook_due_at))

    @asynccontextmanager
    async def _confirmed(self, transaction: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        timeout = self._numbers.random() * self._timeout
        async with transaction as connection:
            yield connection
        await self._settle("transaction", timeout)

    async def _settle(self, verb: str, timeout: float) -> None:
        if not self._quorum.is_lost:
            return
        confirming = asyncio.ensure_future(self._quorum.confirm())
        waiting = asyncio.ensure_future(self._clock.sleep(timeout))
        try:
            await asyncio.wait((confirming, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            confirming.cancel()
            waiting.cancel()
        if not confirming.done() or confirming.cancelled():
            raise StoreUnavailable(f"{verb}: no majority has confirmed it in time")
        if not confirming.result():
            raise StoreUnavailable(f"{verb}: the primary has stepped down")

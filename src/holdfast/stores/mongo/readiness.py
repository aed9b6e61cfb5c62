"""Whether the server and the schema can be used: both are tested at the first use, the schema again after elections and every minute."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from weakref import WeakKeyDictionary

from holdfast._ports.clock import Clock, Randomness
from holdfast.databases.mongo.database import MongoDatabase
from holdfast.stores.mongo.checks import warnings
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.probe import probe
from holdfast.stores.mongo.schema import require_schema

INTERVAL: Final = 60.0
"""Seconds after which the schema is tested again: without its unique indexes every write succeeds, and promises are broken in silence."""

_NEVER: Final = float("-inf")


class Readiness:
    """Remembers what was tested. ``warnings``: what a worker logs when it starts."""

    def __init__(self, database: MongoDatabase, names: Names, *, clock: Clock, chance: Randomness) -> None:
        self._database, self._names, self._clock, self._chance = database, names, clock, chance
        self.warnings: tuple[str, ...] = ()
        self._is_probed, self._until, self._term = False, _NEVER, -1
        self._locks = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()

    async def require(self) -> None:
        """Raise why the store cannot be used. ``SchemaMissing``: until ``migrate``."""
        if not self._is_fresh():
            async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if not self._is_fresh():
                    await self._test()

    def require_now(self) -> None:
        """Raise as ``require`` does, for a caller that blocks its thread: the test runs in an event loop of another one."""
        if not self._is_fresh():
            with ThreadPoolExecutor(1) as threads:
                threads.submit(asyncio.run, self.require()).result()

    async def require_first(self) -> None:
        """Raise as ``require`` does at the first use, and nothing later: a beat needs no index, and must not wait."""
        if self._until == _NEVER:
            await self.require()

    async def require_server(self) -> None:
        """Raise unless the server can keep jobs, whether they have a schema or not."""
        await probe(self._database, self._names, self._chance)
        self.warnings = await warnings(self._database)
        self._is_probed = True

    def accept(self) -> None:
        """Note that the server and the schema can be used."""
        self._is_probed = True
        self._term, self._until = self._database.term, self._clock.boottime() + INTERVAL

    async def _test(self) -> None:
        if not self._is_probed:
            await self.require_server()
        await require_schema(self._database, self._names)
        self.accept()

    def _is_fresh(self) -> bool:
        if self._term < 0:  # the first term that a reply shows is not that of an election
            self._term = self._database.term
        return self._term == self._database.term and self._clock.boottime() < self._until

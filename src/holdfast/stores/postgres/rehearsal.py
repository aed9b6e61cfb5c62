"""The verbs of a store inside one transaction of one connection, so that all their writes can be rolled back."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import asyncpg

from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres.pool import Connection
from holdfast.stores.postgres.database import StoreDatabase

HURRIED: Final = "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '10s'"
"""Settings by which neither another session waits long for a rehearsal, nor a rehearsal for another session."""

Answer = TypeVar("Answer")


class OneTransaction(StoreDatabase):
    """The base class that makes a store run in one open transaction; it must precede the store among the bases."""

    def __init__(self, store: StoreDatabase, link: Connection) -> None:
        self.__dict__.update(store.__dict__)
        self._newest, self._cursors = 0, dict[tuple[object, ...], Any]()
        self._link = link

    async def end(self) -> None:
        """Run the triggers and constraints that are deferred to the commit."""
        await self._retrying(lambda: self._link.execute("SET CONSTRAINTS ALL IMMEDIATE"), "commit")

    def _fetch(self, name: str, *arguments: Any) -> Coroutine[Any, Any, list[asyncpg.Record]]:
        return self._retrying(lambda: self._link.fetch(self._sql(name), *arguments), name)

    async def _beat_fetch(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        return await self._fetch(name, *arguments)

    @asynccontextmanager
    async def _transaction(self, limit: float | None = None, settings: str = "") -> AsyncIterator[Connection]:
        yield self._link

    async def _retrying(self, action: Callable[[], Awaitable[Answer]], name: str = "store") -> Answer:
        try:
            return await action()
        except failures.Errors as error:
            raise failures.statement_error(name, self._location.public, error) from error

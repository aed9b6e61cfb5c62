"""Blocks on a connection of a user's driver for PostgreSQL: psycopg 3 or asyncpg."""

from holdfast._core.own_connection import require_none_open
from holdfast.databases.caller_blocks import Block

_OPEN = (1, 2, 3)
"""The states of a connection of psycopg with a transaction, as libpq numbers them: active, idle in it, failed."""


class PsycopgBlock(Block):
    """A block of a ``Connection`` of psycopg."""

    async def begin(self) -> None:
        require_none_open(is_open=int(self._connection.info.transaction_status) in _OPEN)
        self._transaction = self._connection.transaction()
        self._transaction.__enter__()

    async def commit(self) -> None:
        self._transaction.__exit__(None, None, None)

    async def roll_back(self, error: BaseException) -> None:
        self._transaction.__exit__(type(error), error, error.__traceback__)

    def is_lost(self) -> bool:
        return bool(self._connection.closed)


class AwaitedPsycopgBlock(PsycopgBlock):
    """A block of an ``AsyncConnection`` of psycopg."""

    is_awaited = True

    async def begin(self) -> None:
        require_none_open(is_open=int(self._connection.info.transaction_status) in _OPEN)
        self._transaction = self._connection.transaction()
        await self._transaction.__aenter__()

    async def commit(self) -> None:
        await self._transaction.__aexit__(None, None, None)

    async def roll_back(self, error: BaseException) -> None:
        await self._transaction.__aexit__(type(error), error, error.__traceback__)


class AsyncpgBlock(Block):
    """A block of a connection of asyncpg, also from a pool."""

    is_awaited = True

    async def begin(self) -> None:
        require_none_open(is_open=self._connection.is_in_transaction())
        self._transaction = self._connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        try:
            await self._transaction.commit()
        except BaseException:
            if not self.is_lost() and self._connection.is_in_transaction():  # COMMIT was not sent, or cancelled
                await self._connection.execute("ROLLBACK")
            raise

    async def roll_back(self, error: BaseException) -> None:
        del error
        if not self.is_lost():
            await self._transaction.rollback()

    def is_lost(self) -> bool:
        return bool(self._connection.is_closed())

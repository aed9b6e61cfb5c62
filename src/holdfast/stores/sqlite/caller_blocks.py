"""A handler's own rows on its own connection to the file, committed together with the check of its token.

The block has the write lock of the file from its first statement: a read first would make the first write fail once another process
has written. So no other process can take the job while the block is open.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.own_connection import require_none_open, require_ours
from holdfast.databases.at_once import obeyed
from holdfast.databases.caller_blocks import Block, run_block, wrapped_block_of
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.transactions import too_long
from holdfast.databases.sqlite.values import Values
from holdfast.errors import HoldfastError
from holdfast.stores.sqlite import caller_transactions as within

_WHAT = "job.transaction()"


class FileBlock(Block):
    """A block on a connection of ``sqlite3``, apsw or aiosqlite."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.is_awaited = within.is_awaited(connection)

    async def begin(self) -> None:
        await self._run(_require_none_open)

    async def commit(self) -> None:
        await self._run(_commit)

    async def roll_back(self, error: BaseException) -> None:
        del error
        await self._run(_roll_back)

    async def _run(self, act: Callable[[Any], None]) -> None:
        await obeyed(lambda: within.on_driver(self._connection, act))


class Checks:
    """The first and the last statements of a block. ``idle``: the seconds for which it may be open."""

    def __init__(
        self, path: Path, job: UUID, token: Token, *, idle: float, values: Values, use_apsw: bool, now: Callable[[], float]
    ) -> None:
        self._path, self._job, self._token, self._values = path, job, token, values
        self._idle, self._use_apsw, self._now, self._begun = idle, use_apsw, now, 0.0

    def run(self, connection: Any) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        """Return the block on a caller's connection."""
        if (block := wrapped_block_of(connection)) is None:
            if not within.is_awaited(connection):
                within.require_kind(connection, use_apsw=self._use_apsw)
            block = FileBlock(connection)
        first, last = (partial(within.on_driver, connection, check) for check in (self._first, self._last))
        return run_block(block, connection, first, last)

    def _first(self, connection: Any) -> None:
        within.require_kind(connection, use_apsw=self._use_apsw)
        with driver.plain_cursor(connection) as cursor:
            within.require_main(cursor, self._path)
            if not connection.in_transaction:
                cursor.execute("BEGIN IMMEDIATE")
            within.lock(cursor)
            self._begun = self._now()
            self._require_ours(cursor)
            cursor.execute("SAVEPOINT holdfast_block")

    def _last(self, connection: Any) -> None:
        with driver.plain_cursor(connection) as cursor:
            try:
                cursor.execute("RELEASE holdfast_block")
            except BaseException as error:
                if not driver.is_error(error):
                    raise
                raise HoldfastError(
                    f"{_WHAT} commits when its block ends, together with the check that the job is still yours, and rolls back when "
                    "the block raises: leave out COMMIT and ROLLBACK, commit() and rollback()"
                ) from error
            if self._now() - self._begun > self._idle:
                raise too_long(_WHAT, self._idle)
            self._require_ours(cursor)

    def _require_ours(self, cursor: Any) -> None:
        found = within.execute(cursor, "is_active", self._values).fetchall()
        require_ours(self._job, self._token, is_ours=bool(found))


def _require_none_open(connection: Any) -> None:
    require_none_open(is_open=connection.in_transaction)


def _commit(connection: Any) -> None:
    try:
        with driver.plain_cursor(connection) as cursor:
            cursor.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: Any) -> None:
    if connection.in_transaction:  # else an error has ended it
        with driver.plain_cursor(connection) as cursor:
            cursor.execute("ROLLBACK")

"""A user's own transaction, and the moves of rows that commit with it."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from holdfast._core.table_spec import Key, RowOutcome
from holdfast._ports.table import RowFence
from holdfast.databases.postgres.transactions import UserTransaction
from holdfast.rows.messages import undone_moves
from holdfast.rows.postgres.catalog import TEXTS
from holdfast.rows.postgres.database import RowsDatabase
from holdfast.rows.postgres.statements import Statements

IDLE = 30.0
"""Seconds without a statement, after which the server rolls it back: it may hold locks that others wait for."""

_NUMBERS = count(1)


class RowsBlock(UserTransaction):
    """A transaction in which a handler finishes rows beside the user's own statements.

    It need not check the fence again at its end: each move has checked it, and keeps its rows locked until then. The end checks
    that the user's code has not ended the transaction itself, and that no savepoint has reverted a move.
    """

    what, beside = "batch.transaction()", "together with the moves of its rows"

    def __init__(self, way: RowsDatabase) -> None:
        mark = str(next(_NUMBERS))
        begins = (TEXTS.of("begins"), (str(round(IDLE * 1000)), mark))
        super().__init__(begins, (TEXTS.of("ends"), ()), mark=mark, idle=IDLE, public=way.public, now=way.now)
        self.moves = 0

    def ended(self, is_ours: bool, mark: str | None, moves: str | None = None) -> None:
        super().ended(is_ours, mark)
        if moves != str(self.moves):
            raise undone_moves(self.what)


class Awaited:
    """The writer of row states on a connection of asyncpg."""

    def __init__(self, connection: Any, statements: Statements, fence: RowFence, block: RowsBlock) -> None:
        self.connection, self._statements, self._fence, self._block = connection, statements, fence, block

    async def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        if not keys:
            return []
        self._block.moves += 1
        if await self._have_all_moved(keys, end, reason):
            return list(keys)
        question = self._statements.move(self._fence, keys, end, reason, is_counted=True)
        return [tuple(row) for row in await self.connection.fetch(*question)]

    async def _have_all_moved(self, keys: Sequence[Key], end: RowOutcome, reason: str) -> bool:
        """Return whether all have moved; if not, none has. Sending back a thousand keys takes longer than to ask again."""
        trial = self.connection.transaction()
        await trial.start()
        question = self._statements.move(self._fence, keys, end, reason, returns_keys=False, is_counted=True)
        answer = await self.connection.execute(*question)
        if int(answer.split()[-1]) == len(keys):
            await trial.commit()
            return True
        await trial.rollback()
        return False


class Blocking:
    """The writer of row states on a connection of psycopg."""

    def __init__(self, connection: Any, statements: Statements, fence: RowFence, block: RowsBlock) -> None:
        self.connection, self._statements, self._fence, self._block = connection, statements, fence, block

    def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        from psycopg import RawCursor  # noqa: PLC0415 - it is there, because the connection is
        from psycopg.rows import tuple_row  # noqa: PLC0415

        if not keys:
            return []
        self._block.moves += 1
        sql, *values = self._statements.move(self._fence, keys, end, reason, is_counted=True)
        with RawCursor(self.connection, row_factory=tuple_row) as cursor:
            return [tuple(row) for row in cursor.execute(sql, values).fetchall()]

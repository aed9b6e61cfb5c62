"""A user's own transaction, and the moves of rows that commit with it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast._core.table_spec import Key, RowOutcome
from holdfast._ports.table import RowFence
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.transactions import UserTransaction
from holdfast.rows.messages import undone_moves
from holdfast.rows.sqlite.statements import Statements

Question = tuple[str, tuple[Any, ...]]

IDLE = 10.0
"""Seconds for which it may be open: no other connection can write to the file in that time."""


class RowsBlock(UserTransaction):
    """A transaction without a check at its end: each move is judged by its rows, and no other connection writes until the end."""

    what, beside = "batch.transaction()", "together with the moves of its rows"

    def __init__(self, path: Path, statements: Statements, **how: Any) -> None:
        super().__init__(path, **how)
        self._statements, self.moved = statements, list[Key]()

    def at_the_end(self, connection: driver.Connection) -> None:
        if not self._has_gone_back:
            return
        with driver.plain_cursor(driver.owned(connection)) as cursor:
            for question in self._statements.undone(self.moved):
                ((count,),) = cursor.execute(*question).fetchall()
                if count:
                    raise undone_moves(self.what)


class Blocking:
    """The moves on a connection of ``sqlite3`` or ``apsw``."""

    def __init__(
        self, connection: Any, statements: Statements, fence: RowFence, now: Callable[[], float], block: RowsBlock
    ) -> None:
        self.connection, self._statements, self._fence, self._now = connection, statements, fence, now
        self._block = block

    def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        moved = self._moved(keys, end, reason, is_all=is_all)
        self._block.moved += moved
        return moved

    def _moved(self, keys: Sequence[Key], end: RowOutcome, reason: str, *, is_all: bool) -> list[Key]:
        if not keys:
            return []
        statements, how = self._statements, (end, reason, self._now)
        with driver.plain_cursor(self.connection) as cursor:
            if (
                is_all
                and statements.finds_fences
                and _have_all_moved(cursor, [statements.move_all(self._fence, *how)], len(keys))
            ):
                return list(keys)
            if _have_all_moved(cursor, [*statements.move(self._fence, keys, *how, returns_keys=False)], len(keys)):
                return list(keys)
            questions = statements.move(self._fence, keys, *how)
            return [tuple(row) for question in questions for row in cursor.execute(*question).fetchall()]


class Awaited:
    """The same for code that is awaited; its statements do not wait, because the lock is held already."""

    def __init__(self, blocking: Blocking) -> None:
        self.connection, self._blocking = blocking.connection, blocking

    async def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        return self._blocking.move(keys, end, reason, is_all=is_all)


def _have_all_moved(cursor: Any, questions: Sequence[Question], number: int) -> bool:
    """Return whether all have moved; if not, none has. It avoids the cost of RETURNING."""
    try:
        cursor.execute("SAVEPOINT holdfast_move")
    except Exception as error:
        if not driver.is_error(error):
            raise
        return False  # impossible while a cursor still reads a write's answer; any other error will come again
    moved = 0
    for question in questions:
        ((changed,),) = cursor.execute(*question).execute("SELECT changes()").fetchall()
        moved += changed
    if moved < number:
        cursor.execute("ROLLBACK TO holdfast_move")
    cursor.execute("RELEASE holdfast_move")
    return moved == number

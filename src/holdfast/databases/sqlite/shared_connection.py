"""A connection of ``sqlite3`` on which two threads may speak, one at a time.

SQLite has a lock of its own for that, but Python's module waits for it while it keeps all other threads from running, and a
thread that has it waits for Python as soon as SQLite asks an authorizer: then the whole process stands still for ever.
"""

import sqlite3
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any


class SharedConnection(sqlite3.Connection):
    """Its cursors wait for each other, whichever thread uses them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.turn = RLock()
        super().__init__(*arguments, **options)

    def cursor(self, factory: Any = None) -> Any:
        """``sqlite3``'s own."""
        return super().cursor(factory or SharedCursor)

    def execute(self, *arguments: Any) -> Any:
        """``sqlite3``'s own, which makes a cursor without asking ``cursor``."""
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        """``sqlite3``'s own."""
        return self.cursor().executemany(*arguments)

    def executescript(self, *arguments: Any) -> Any:
        """``sqlite3``'s own."""
        return self.cursor().executescript(*arguments)

    def commit(self) -> None:
        """``sqlite3``'s own."""
        with self.turn:
            super().commit()

    def rollback(self) -> None:
        """``sqlite3``'s own."""
        with self.turn:
            super().rollback()

    def close(self) -> None:
        """``sqlite3``'s own."""
        with self.turn:
            super().close()


class SharedCursor(sqlite3.Cursor):
    """Each call is a turn."""

    def execute(self, *arguments: Any) -> Any:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            return super().executemany(*arguments)

    def executescript(self, *arguments: Any) -> Any:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            return super().executescript(*arguments)

    def fetchone(self) -> Any:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            return super().fetchone()

    def fetchmany(self, *arguments: Any, **options: Any) -> Any:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            return super().fetchmany(*arguments, **options)

    def fetchall(self) -> Any:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            return super().fetchall()

    def __next__(self) -> Any:
        with turn_of(self.connection):
            return super().__next__()

    def close(self) -> None:
        """``sqlite3``'s own."""
        with turn_of(self.connection):
            super().close()


def turn_of(connection: sqlite3.Connection) -> AbstractContextManager[Any]:
    """To be held by who speaks to a connection otherwise than by its own cursors."""
    return connection.turn if isinstance(connection, SharedConnection) else nullcontext()

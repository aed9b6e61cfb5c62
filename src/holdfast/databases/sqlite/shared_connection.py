"""A connection of ``sqlite3`` that two threads may use, one at a time.

SQLite has a lock for that, but Python's module waits for it while holding the interpreter lock. The thread that has SQLite's lock
waits for the interpreter lock as soon as SQLite calls an authorizer. Then the whole process is deadlocked.
"""

import sqlite3
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any


class SharedConnection(sqlite3.Connection):
    """A ``sqlite3`` connection whose cursors wait for each other, in any thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.turn = RLock()
        super().__init__(*arguments, **options)

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(factory or SharedCursor)

    def execute(self, *arguments: Any) -> Any:
        """Override ``sqlite3``'s method, which would create a cursor without calling ``cursor``."""
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self.cursor().executemany(*arguments)

    def executescript(self, *arguments: Any) -> Any:
        return self.cursor().executescript(*arguments)

    def commit(self) -> None:
        with self.turn:
            super().commit()

    def rollback(self) -> None:
        with self.turn:
            super().rollback()

    def close(self) -> None:
        with self.turn:
            super().close()


class SharedCursor(sqlite3.Cursor):
    """A cursor each of whose calls waits for the connection's lock."""

    def execute(self, *arguments: Any) -> Any:
        with turn_of(self.connection):
            return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        with turn_of(self.connection):
            return super().executemany(*arguments)

    def executescript(self, *arguments: Any) -> Any:
        with turn_of(self.connection):
            return super().executescript(*arguments)

    def fetchone(self) -> Any:
        with turn_of(self.connection):
            return super().fetchone()

    def fetchmany(self, *arguments: Any, **options: Any) -> Any:
        with turn_of(self.connection):
            return super().fetchmany(*arguments, **options)

    def fetchall(self) -> Any:
        with turn_of(self.connection):
            return super().fetchall()

    def __next__(self) -> Any:
        with turn_of(self.connection):
            return super().__next__()

    def close(self) -> None:
        with turn_of(self.connection):
            super().close()


def turn_of(connection: sqlite3.Connection) -> AbstractContextManager[Any]:
    """Return the lock to hold while using a connection other than through its own cursors."""
    return connection.turn if isinstance(connection, SharedConnection) else nullcontext()

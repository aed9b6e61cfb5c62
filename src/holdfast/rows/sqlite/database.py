"""A SQLite file of the user's, for one thread: its settings stay as they are, and Holdfast makes nothing in it."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import Database
from holdfast.databases.sqlite.rights import lacking_right
from holdfast.databases.sqlite.values import micros
from holdfast.errors import ConfigurationError, HoldfastError

PASSING = 10_000
"""Reads of the clock until reserved stamps have passed, which takes microseconds: a clock that was set back is not waited for."""

Answer = TypeVar("Answer")
Rows = list[tuple[Any, ...]]


class StatementRefused(HoldfastError):
    """SQLite does not understand a statement, or a constraint forbids what it does; nothing happened."""


class RowsFile(Database):
    """Runs each statement as one transaction, and tries again while another connection has the lock."""

    _last = 0

    def stamp(self) -> float:
        """Read the wall clock, never twice the same microsecond."""
        self._last = max(micros(self._clock.wall()), self._last + 1)
        return self._last / 1e6

    def reserve(self, number: int) -> list[float]:
        """Return ``number`` stamps that no other process gets: the lock on the file is held until the clock has passed them."""

        def hold(_: driver.Connection) -> list[float]:
            stamps = [self.stamp() for _ in range(number)]
            for _try in range(PASSING):
                if micros(self._clock.wall()) > self._last:
                    break
            return stamps

        return self.at_once("stamps", hold)

    def ask(self, name: str, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> Rows:
        """Run a statement and return all its rows."""
        return self._use(name, lambda connection: connection.execute(sql, values).fetchall())

    def count(self, name: str, sql: str, values: Callable[[], dict[str, Any]]) -> int:
        """Return how many rows a statement changed; ``values`` is called once this connection has the lock."""
        return self._use(name, lambda connection: connection.execute(sql, values()).rowcount)

    def at_once(self, name: str, action: Callable[[driver.Connection], Answer]) -> Answer:
        """Run several statements as one transaction, and revert all if ``action`` raises or returns nothing."""

        def act(connection: driver.Connection) -> Answer:
            connection.execute("BEGIN IMMEDIATE")
            try:
                answer = action(connection)
                if answer:
                    connection.execute("COMMIT")
                return answer
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        return self._use(name, act)

    def all_of(self, name: str, sql: str, values: Sequence[Any], number: int) -> bool:
        """Return whether a statement has changed ``number`` rows; if not, it has changed none. It avoids the cost of RETURNING."""
        return self.at_once(name, lambda connection: connection.execute(sql, values).rowcount == number)

    def _use(self, name: str, action: Callable[[driver.Connection], Answer]) -> Answer:
        def use() -> Answer:
            connection = self._open(name)
            self._require_same_files(name, all_of_them=True)
            try:
                answer = action(connection)
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError) as error:
                raise StatementRefused(f"{name}: {self.path}: {error}") from error
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
                    raise
                raise StatementRefused(f"{name}: {self.path}: {error}") from error
            self._require_same_files(name)
            return answer

        return self._retry_while_busy(name, use)

    def _connect(self) -> driver.Connection:
        if not self.path.exists():
            raise ConfigurationError(
                [f"{self.path}: there is no such file, and rows are watched only in an existing one: name another"]
            )
        if (lacking := lacking_right(self.path)) is not None:
            raise ConfigurationError([f"{lacking.message}: {lacking.remedy}"])
        connection = driver.connect(self.path, use_apsw=self.use_apsw)
        try:
            connection.execute("PRAGMA foreign_keys = ON")  # what the user has declared holds for deletes of Holdfast too
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

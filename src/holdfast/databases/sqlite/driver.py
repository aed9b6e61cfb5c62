"""The SQLite library: the one Python was built with, or, with ``HOLDFAST_SQLITE=apsw``, the current one that apsw brings.

Both are used in the manner of ``sqlite3``: its calls, its exceptions, its error codes. apsw must be asked for: one process must not
open the same file by both libraries. Each library records only its own locks of the file, and POSIX releases all locks of a process
with the first close. A file opened by both was damaged within seconds. ``library_guard`` refuses that.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from holdfast._core.job import Json
from holdfast.databases.sqlite.library_guard import GUARD
from holdfast.databases.sqlite.shared_connection import SharedConnection, turn_of
from holdfast.errors import ConfigurationError, MissingExtra

try:
    import apsw
except ImportError:
    apsw = None  # type: ignore[assignment]

Row = tuple[Json, ...]


class Cursor(Protocol):
    """The answer to one statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement changed."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows of the answer."""
        ...

    def fetchone(self) -> Any:
        """Return the next row of the answer, or None."""
        ...


class Speaker(Protocol):
    """An object that runs statements: a connection, or a caller's cursor."""

    def execute(self, statement: str, values: Any = (), /) -> Cursor:
        """Run one statement and return its answer."""
        ...


class Connection(Speaker, Protocol):
    """One open file."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    @property
    def total_changes(self) -> int:
        """The number of rows changed since the connection was opened, including those changed by triggers."""
        ...

    def close(self) -> None: ...


def is_apsw(wanted: bool | None = None) -> bool:
    """Return whether apsw is used; ``wanted=None``: as ``HOLDFAST_SQLITE`` sets. ``MissingExtra`` if it is not installed."""
    if wanted is None:
        named = os.environ.get("HOLDFAST_SQLITE", "python")
        if named not in ("python", "apsw"):
            raise ConfigurationError([f"HOLDFAST_SQLITE={named!r}: use 'python' or 'apsw'"])
        wanted = named == "apsw"
    if wanted and apsw is None:
        raise MissingExtra("apsw", "apsw")
    return wanted


def version(*, use_apsw: bool) -> tuple[int, ...]:
    """Return the version of the SQLite library."""
    return tuple(map(int, apsw.sqlite_lib_version().split("."))) if use_apsw else sqlite3.sqlite_version_info


def connect(path: Path, *, use_apsw: bool, is_judged: bool = False) -> Connection:
    """Open the file; the driver neither waits nor begins transactions itself. ``is_judged``: two threads may use the connection, and no
    compiled statement is kept, because SQLite calls the authorizer only when it compiles one."""
    kept = 0 if is_judged else 100
    if use_apsw:
        return _Apsw(path, kept)
    kind = SharedConnection if is_judged else sqlite3.Connection
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=kept, factory=kind)


def kind_of(connection: object) -> Literal["sqlite3", "apsw"] | None:
    """Return the library that a connection belongs to, or None."""
    if isinstance(connection, sqlite3.Connection):
        return "sqlite3"
    return "apsw" if apsw is not None and isinstance(connection, apsw.Connection) else None


def is_constraint(error: BaseException) -> bool:
    """Return whether a constraint refused the write."""
    return isinstance(error, sqlite3.IntegrityError) or (apsw is not None and isinstance(error, apsw.ConstraintError))


def is_error(error: BaseException) -> bool:
    """Return whether one of the libraries raised the error."""
    return isinstance(error, sqlite3.Error) or (apsw is not None and isinstance(error, apsw.Error))


@contextmanager
def plain_cursor(connection: Any) -> Iterator[Any]:
    """Yield a cursor that returns tuples of plain values, also if the owner of the connection has set other row types."""
    if not isinstance(connection, sqlite3.Connection):
        cursor = connection.cursor()
        cursor.exec_trace = cursor.row_trace = None
        yield cursor
        return
    with turn_of(connection):
        text_factory, connection.text_factory = connection.text_factory, str
        try:
            yield sqlite3.Cursor(connection)
        finally:
            connection.text_factory = text_factory


def begin_implicitly(connection: Any) -> None:
    """Begin a transaction where ``sqlite3`` would do so by itself before a write."""
    if isinstance(connection, sqlite3.Connection) and not connection.in_transaction:
        is_legacy = getattr(connection, "autocommit", -1) == -1
        if is_legacy and connection.isolation_level is not None:
            with turn_of(connection):
                sqlite3.Cursor(connection).execute(f"BEGIN {connection.isolation_level}")


def back_up(source: Connection, target: Connection) -> None:
    """Copy all of a database in one step, as the open transaction of the source sees it."""
    if isinstance(source, _Apsw):
        with _translated(), owned(target).backup("main", source.library_connection, "main") as copying:
            copying.step()
    else:
        owned(source).backup(owned(target))


def keep_log(connection: Connection) -> None:
    """Have the connection leave the log unchanged when it is closed. Python before 3.12 has no call for that."""
    library = owned(connection)
    if isinstance(connection, _Apsw):
        library.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    elif sys.version_info >= (3, 12):
        library.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)


def owned(connection: Connection) -> Any:
    """Return the library's own connection object, for users."""
    return connection.library_connection if isinstance(connection, _Apsw) else connection


class _Apsw:
    def __init__(self, path: Path, kept: int) -> None:
        self.library_connection: apsw.Connection
        with _translated():
            self.library_connection, self._forget = GUARD.open(path, lambda: apsw.Connection(str(path), statementcachesize=kept))

    @property
    def in_transaction(self) -> bool:
        with _translated():
            return self.library_connection.in_transaction

    @property
    def total_changes(self) -> int:
        return self.library_connection.total_changes()

    def execute(self, statement: str, values: Any = (), /) -> "_Answered":
        with _translated():
            rows = self.library_connection.execute(statement, values).fetchall()
            return _Answered(rows, self.library_connection.changes())

    def close(self) -> None:
        with _translated():
            self.library_connection.close()
        self._forget()


class _Answered:
    def __init__(self, rows: list[Row], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def fetchall(self) -> list[Row]:
        return self._rows

    def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None


@contextmanager
def _translated() -> Iterator[None]:
    """Raise apsw's exceptions as those of ``sqlite3``, with their extended codes."""
    try:
        yield
    except apsw.Error as error:
        is_constraint = isinstance(error, apsw.ConstraintError)
        translated = sqlite3.IntegrityError(str(error)) if is_constraint else sqlite3.OperationalError(str(error))
        translated.sqlite_errorcode = getattr(error, "extendedresult", 0)
        raise translated from error

"""Which SQLite runs: the one Python was built with, or, with ``HOLDFAST_SQLITE=apsw``, the current one that apsw brings.

Both are used in the manner of ``sqlite3``: its calls, its exceptions, its error codes. It is asked for and not taken by
itself, because one process must not open the same file by both: each keeps the file's locks by its own books, POSIX gives
up all of a process's locks with the first close, and the file was damaged within seconds.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from holdfast._core.job import Json
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
        """How many rows it changed."""
        ...

    def fetchall(self) -> list[Any]:
        """All its rows."""
        ...

    def fetchone(self) -> Any:
        """Its first row."""
        ...


class Connection(Protocol):
    """One open file."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statement: str, values: Any = (), /) -> Cursor:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def is_apsw(wanted: bool | None = None) -> bool:
    """Whether apsw is used; ``wanted=None``: as ``HOLDFAST_SQLITE`` says. ``MissingExtra`` if it is not installed."""
    if wanted is None:
        named = os.environ.get("HOLDFAST_SQLITE", "python")
        if named not in ("python", "apsw"):
            raise ConfigurationError([f"HOLDFAST_SQLITE={named!r}: use 'python' or 'apsw'"])
        wanted = named == "apsw"
    if wanted and apsw is None:
        raise MissingExtra("apsw", "apsw")
    return wanted


def version(*, use_apsw: bool) -> tuple[int, ...]:
    """Of the SQLite library."""
    return tuple(map(int, apsw.sqlite_lib_version().split("."))) if use_apsw else sqlite3.sqlite_version_info


def connect(path: Path, *, use_apsw: bool) -> Connection:
    """Open the file without any waiting or transactions of the driver's own."""
    if use_apsw:
        return _Apsw(path)
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


class _Apsw:
    def __init__(self, path: Path) -> None:
        with _translated():
            self._connection = apsw.Connection(str(path))

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, values: Any = (), /) -> "_Answered":
        with _translated():
            rows = self._connection.execute(statement, values).fetchall()
            return _Answered(rows, self._connection.changes())

    def close(self) -> None:
        with _translated():
            self._connection.close()


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
    """apsw's exceptions as those of ``sqlite3``, with their extended codes."""
    try:
        yield
    except apsw.Error as error:
        is_constraint = isinstance(error, apsw.ConstraintError)
        translated = sqlite3.IntegrityError(str(error)) if is_constraint else sqlite3.OperationalError(str(error))
        translated.sqlite_errorcode = getattr(error, "extendedresult", 0)
        raise translated from error

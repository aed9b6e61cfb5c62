"""One connection and its statements, for one thread.

Every write is one statement in one step: no Python code runs between taking the file's lock and releasing it. So a process that
is busy, stopped or waiting for its interpreter lock blocks no other process. SQLite's own waiting starves processes, so this
module waits itself, for short random times.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TypeVar

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Json
from holdfast._ports.clock import Clock, Randomness
from holdfast._system.clock import blocking_sleep
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.file_location import require_local_disk
from holdfast.databases.sqlite.files import Files
from holdfast.databases.sqlite.values import Values, micros
from holdfast.errors import ConfigurationError, HoldfastError, StoreRefused, StoreUnavailable

OLDEST = (3, 35, 0)
FIRST_WITHOUT_RESET_RACE = (3, 51, 3)
BUSY_LIMIT = 5.0
_LOOK_AGAIN = 1_000_000  # microseconds
_LONGEST_PAUSE = 0.0006

Answer = TypeVar("Answer")


class Database(ABC):
    """A file, which the first statement opens; a subclass defines how. ``damaged``: the error of a file that cannot be read."""

    damaged: type[StoreUnavailable] = StoreUnavailable

    def __init__(
        self, path: Path, clock: Clock, chance: Randomness, process: ProcessIdentity, *, busy_limit: float, use_apsw: bool
    ) -> None:
        self.path = path
        self._clock = clock
        self._chance = chance
        self._process = process
        self._busy_limit = busy_limit
        self.use_apsw = use_apsw
        self._connection: driver.Connection | None = None
        self._files: Files | None = None
        self._seen_at = 0

    def __del__(self) -> None:
        """Close what an App that was dropped has left open: since Python 3.13 that is a ``ResourceWarning`` otherwise."""
        if (connection := getattr(self, "_connection", None)) is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def now(self) -> int:
        """Return the wall clock in microseconds."""
        return micros(self._clock.wall())

    def monotonic(self) -> int:
        """Return the clock of leases in microseconds."""
        return micros(self._clock.monotonic())

    def pragma(self, text: str) -> list[tuple[Json, ...]]:
        """Return the rows that a pragma answers."""
        return self._retry_while_busy(text, lambda: self._execute(text, f"PRAGMA {text}", {}).fetchall())

    def rehearse(self, action: Callable[[], Answer]) -> Answer:
        """Run an action, roll its statements back and return its result; other writers wait for as long as it takes."""
        return self.atomically("check", action, end="ROLLBACK")

    def atomically(self, name: str, action: Callable[[], Answer], *, end: str = "COMMIT") -> Answer:
        """Run an action, whose statements are one write, and return its result; other writers wait for as long as it takes.

        It is for what operators do, not for workers: Python runs while the file is locked.
        """
        return self._transact(name, "BEGIN IMMEDIATE", action, end)

    def in_snapshot(self, name: str, action: Callable[[], Answer]) -> Answer:
        """Run an action, whose statements read the file as it is at the first of them, and return its result; no writer waits."""
        return self._transact(name, "BEGIN", action, "COMMIT")

    def _transact(self, name: str, begin: str, action: Callable[[], Answer], end: str) -> Answer:
        connection = self._open(name)
        self._retry_while_busy(name, lambda: connection.execute(begin))
        try:
            answer = action()
            if end == "COMMIT" or self._connection is connection:  # else an error of the action has closed it
                self._retry_while_busy(name, lambda: connection.execute(end))
            return answer
        finally:
            if self._connection is connection and connection.in_transaction:
                connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; the next statement opens it again."""
        connection, self._connection, files, self._files = self._connection, None, self._files, None
        if files is not None and connection is not None:
            files.close(connection)

    def _commit(self, name: str, statement: str, values: Values) -> driver.Cursor:
        cursor = self._execute(name, statement, values)
        self._require_same_files(name)
        return cursor

    def _execute(self, name: str, statement: str, values: Values) -> driver.Cursor:
        # Read the clocks right before each try: a write that had to wait must not be decided by an older time.
        monotonic = self.monotonic()
        clocks = {"wall": self.now(), "monotonic": monotonic, "boot": self._process.boot, "clock": self._process.clock}
        connection = self._open(name)
        if not 0 <= monotonic - self._seen_at < _LOOK_AGAIN:
            self._require_same_files(name, all_of_them=True)
            self._seen_at = monotonic
        return connection.execute(statement, {**values, **clocks})

    def _require_same_files(self, name: str, *, all_of_them: bool = False) -> None:
        try:
            if self._files is not None:
                self._files.require(name, all_of_them=all_of_them)
        except StoreUnavailable:
            self._give_up()
            raise

    def _retry_while_busy(self, name: str, action: Callable[[], Answer]) -> Answer:
        slept, has_made_room = 0.0, False
        while True:
            try:
                return action()
            except sqlite3.IntegrityError as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_TRIGGER:
                    raise StoreRefused(
                        f"{name}: {self.path}: {error}: a trigger of the file refuses: drop or correct it"
                    ) from error
                raise HoldfastError(f"{name}: {error}; each job needs its own id") from error
            except sqlite3.Error as error:
                if _code_of(error) == sqlite3.SQLITE_FULL and not has_made_room:
                    has_made_room = True
                    self._truncate_log()
                    continue
                if not is_busy(error):
                    kind = self.damaged if _code_of(error) == sqlite3.SQLITE_CORRUPT and not self._is_lost() else StoreUnavailable
                    self._give_up()
                    remedy = remedy_of(error) or _passing(self.path, error)
                    raise kind(f"{name}: {self.path}: {error}" + (f": {remedy}" if remedy else "")) from error
                if slept >= self._busy_limit:
                    held = f"check that no program keeps a transaction open: `fuser {quote(str(self.path))}` lists those with the file"
                    raise StoreUnavailable(f"{name}: {self.path}: busy for {slept:.1f} s: {_name_of(error)}: {held}") from error
            slept += pause(self._chance)

    def _truncate_log(self) -> None:
        # On a small disk the write-ahead log itself may have taken all the space.
        try:
            if self._connection is not None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            pass  # then the second try raises the reason

    def _is_lost(self) -> bool:
        """Return whether the file was replaced: then what is open is not what the next statement opens."""
        return self._files is not None and self._files.lost() is not None

    def _give_up(self) -> None:
        try:
            self.close()
        except sqlite3.Error:
            pass  # a broken connection may fail to close; the next statement opens another one

    def _open(self, name: str) -> driver.Connection:
        if self._connection is None:
            require_version(driver.version(use_apsw=self.use_apsw))
            require_local_disk(self.path)
            self._connection = self._begin(name, self._connect)
            self._files, self._seen_at = Files(self.path), self.monotonic()
        return self._connection

    def _begin(self, name: str, connect: Callable[[], Answer]) -> Answer:
        try:
            return self._retry_while_busy(name, connect)
        except StoreUnavailable as unavailable:
            error = unavailable.__cause__
            if isinstance(error, sqlite3.Error) and (remedy := remedy_of(error)):
                raise ConfigurationError([f"{self.path}: {error}: {remedy}"]) from error
            raise

    @abstractmethod
    def _connect(self) -> driver.Connection:
        """Open the file and return the connection, set up for the statements."""


def require_version(version: tuple[int, ...]) -> None:
    """Raise ``ConfigurationError`` for a SQLite too old for the queries."""
    if version < OLDEST:
        names = ".".join(map(str, version)), ".".join(map(str, OLDEST))
        raise ConfigurationError(
            [
                "SQLite {} is too old, {} is needed: `pip install apsw` and `export HOLDFAST_SQLITE=apsw`, or use a newer Python".format(
                    *names
                )
            ]
        )


_NAMED = "`holdfast check` names the user and what it may not use"
_HOPELESS = {
    sqlite3.SQLITE_NOTADB: "name another file; this one is no SQLite database",
    sqlite3.SQLITE_CORRUPT: "restore a backup; the file is damaged",
    sqlite3.SQLITE_READONLY: f"{_NAMED}; or name a file that may be written, in a folder that may be written",
    sqlite3.SQLITE_CANTOPEN: f"{_NAMED}; or name a file that may be read and written, in a folder that may be written",
}
"""The remedy for each error of a file that waiting does not end, by SQLite's code."""


def remedy_of(error: sqlite3.Error) -> str | None:
    """Return what helps against an error that waiting does not end; None if the error may pass."""
    return _HOPELESS.get(_code_of(error))


def _passing(path: Path, error: sqlite3.Error) -> str:
    """Return what helps against an error of the disk; empty for any other. A full one also refuses the log's shared memory."""
    is_of_disk = _code_of(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return f"check that its disk is neither full nor broken: `df {quote(str(path.parent))}`" if is_of_disk else ""


def pause(chance: Randomness) -> float:
    """Sleep for a short random time, so that other writers go first; return its seconds."""
    seconds = _LONGEST_PAUSE * (1.0 + chance.jitter()) / 2
    blocking_sleep(seconds)
    return seconds


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection has the lock."""
    return _code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _name_of(error: sqlite3.Error) -> str:
    """Return the error with its extended code, which distinguishes the kinds of busy."""
    return f"{error} ({getattr(error, 'sqlite_errorname', 'unknown code')})"


def _code_of(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF

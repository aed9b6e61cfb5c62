"""The files of one open connection, and the check that they are still the ones at their paths.

A commit counts only if the log that it went to is the one that every other process will read.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.file_location import identity_of
from holdfast.databases.sqlite.log_guards import GUARDS
from holdfast.errors import StoreUnavailable


class Files:
    """The database, its log and the log's shared memory, as they are when a connection has read from the database."""

    def __init__(self, path: Path) -> None:
        beside = os.path.realpath(path)  # a link may lead to the database, and SQLite keeps the log beside the database itself
        database, log, memory = found = [identity_of(name) for name in (path, f"{beside}-wal", f"{beside}-shm")]
        self._seen = [each for each in zip((str(path), f"{beside}-wal", f"{beside}-shm"), found, strict=True) if each[1]]
        self._guarded = None if database is None or log is None or memory is None else (database, memory)
        if self._guarded is not None:
            GUARDS.take(*self._guarded)

    def lost(self, *, all_of_them: bool = True) -> str | None:
        """Return the first file that was deleted or replaced since, or None. The shared memory is checked only with ``all_of_them``:
        each check costs 2 µs, and what was written to the log does not depend on it."""
        for name, seen in self._seen if all_of_them else self._seen[:2]:
            if identity_of(name) != seen:
                return name
        return None

    def require(self, what: str, *, all_of_them: bool = True) -> None:
        """Raise ``StoreUnavailable`` if a file was deleted or replaced: what the connection has just written may be lost."""
        if (name := self.lost(all_of_them=all_of_them)) is not None:
            raise StoreUnavailable(
                f"{what}: {name} was deleted or replaced while it was open. What was written to it is lost; from "
                "now on the file at this path is used. To move or restore it, stop all processes that use it first; "
                "to copy it, use `holdfast backup copy.db`"
            )

    def has_write_lock(self) -> bool:
        """Return whether this process still has the lock of the transaction that it has begun."""
        return self._guarded is None or GUARDS.has_write_lock(*self._guarded)

    def close(self, connection: driver.Connection) -> None:
        """Close the connection; leave its log as it is if one of the files was deleted or replaced.

        SQLite copies the log into the database when its last user closes it. A lost log would overwrite what other processes have
        written to the database since.
        """
        if is_lost := self.lost() is not None:
            with suppress(sqlite3.Error):
                driver.keep_log(connection)
        if self._guarded is not None:
            guarded, self._guarded = self._guarded, None
            GUARDS.give(*guarded, is_lost=is_lost)
        connection.close()

"""An unused connection, opened ahead: a transaction of a few rows waited longer for its connection than for its commit."""

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast._forks import Forked, Lock, register
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.connection_thread import INHERITED
from holdfast.databases.sqlite.file_location import identity_of
from holdfast.databases.sqlite.files import Files

Opened = tuple[driver.Connection, Files]


class SpareConnection(Forked):
    """The spare connection of one file. ``settings``: the first statements of each connection. Each one serves one transaction: code
    that keeps it for longer reaches no other transaction."""

    _lock: threading.RLock
    _is_wanted: bool
    _has_log: bool
    _spare: Opened | None

    def __init__(self, path: Path, *settings: str, use_apsw: bool) -> None:
        self._path, self._settings, self._use_apsw = path, ("PRAGMA synchronous = FULL", *settings), use_apsw
        self._forget()
        register(self)

    def __del__(self) -> None:
        """Close the spare connection of an App that was dropped, as ``Database`` closes its own."""
        if (spare := getattr(self, "_spare", None)) is not None:
            with suppress(sqlite3.Error):
                spare[0].close()

    def connect(self) -> Opened:
        """Open a new connection. ``sqlite3.Error`` also while another process recovers the file."""
        connection = driver.connect(self._path, use_apsw=self._use_apsw, is_judged=True)
        try:
            for setting in self._settings:
                connection.execute(setting)
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # reads the schema ahead of the first statement
        except BaseException:
            connection.close()
            raise
        return connection, Files(self._path)

    def take(self) -> Opened | None:
        """Return the spare connection if it is ready and its files still exist, else None; never wait."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            spare, self._spare, self._is_wanted = self._spare, None, True
        finally:
            self._lock.release()
        if spare is None:
            return None
        connection, files = spare
        if files.lost() is None:
            return spare
        files.close(connection)
        return None

    def refill(self) -> None:
        """Open the next spare connection, in a thread that may wait for the disk; else the next transaction opens its own.

        Open none of a file without a write-ahead log. There a new connection may first have to undo the writes of a killed process,
        and a reader keeps writers from committing.
        """
        with self._lock, suppress(sqlite3.Error):
            identity = identity_of(self._path)
            if not self._is_wanted or not self._has_log or self._spare is not None or identity is None:
                return
            self._spare = self.connect()
            connection, files = self._spare
            try:
                self._has_log = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
                is_good = self._has_log and identity_of(self._path) == identity and files.lost() is None
            except BaseException:
                self._close()
                raise
            if not is_good:
                self._close()

    def close(self) -> None:
        """Close the spare connection; the next transaction asks for one again."""
        with self._lock:
            self._is_wanted, self._has_log = False, True
            self._close()

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def before_fork(self) -> None:
        """Close the spare connection: no connection crosses a fork."""
        super().before_fork()
        self._close()

    def after_fork_in_child(self) -> None:
        INHERITED.extend(each for each in (self._spare,) if each is not None)
        self._forget()

    def _forget(self) -> None:
        self._lock, self._is_wanted, self._has_log, self._spare = threading.RLock(), False, True, None

    def _close(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            connection, files = spare
            with suppress(sqlite3.Error):
                files.close(connection)

"""The one thread that touches a store's connection, so that no event loop waits for a disk.

No connection crosses a fork. SQLite keeps its own record of the locks that a process holds. A child inherits that record, but the
kernel gives it none of the locks. So a parent believed that no other process used the file and removed the log, and the child's
writes in it were lost. A child forked while another thread was inside SQLite waits indefinitely for that thread to release a mutex.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from holdfast._forks import Forked, Lock, register
from holdfast.databases.call_thread import CallThread, Closed


class Closing(Protocol):
    """An owner of a connection, which can close it."""

    def close(self) -> None:
        """Close the file; the next statement opens it again."""
        ...


Kept = TypeVar("Kept", bound=Closing)
Result = TypeVar("Result")

# Connections inherited by a fork that no hook preceded, made by code that is not Python: the child may neither use nor close them.
INHERITED: list[object] = []


class ConnectionThread(Generic[Kept], Forked):
    """A connection and its thread. Both start with the first call, from any event loop, and start again in a forked child."""

    _database: Kept | None
    _thread: CallThread | None
    _starting: threading.Lock
    _using: threading.Lock

    def __init__(self, connect: Callable[[], Kept]) -> None:
        self._connect = connect
        self._forget_connection()
        register(self)

    async def run(self, action: Callable[[Kept], Result]) -> Result:
        """Run the action in the thread and return its result."""
        while True:
            thread, database = self._ready()
            try:
                return await thread.run(lambda: self._use(action, database))  # noqa: B023 - it is awaited here
            except Closed:
                pass  # by another thread in the meantime: start again

    async def close(self) -> None:
        """Close the connection and end the thread; the next call starts both again."""
        with self._starting:
            thread, database, self._thread, self._database = self._thread, self._database, None, None
        if thread is not None and database is not None:
            await thread.run(lambda: self._use(_close, database), is_last=True)
            thread.close()

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._starting, self._using)

    def before_fork(self) -> None:
        """Wait until no thread is inside SQLite, and close; the next call opens again, in the parent and in the child."""
        super().before_fork()
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()

    def after_fork_in_child(self) -> None:
        INHERITED.extend(each for each in (self._database, self._thread) if each is not None)
        self._forget_connection()

    def _forget_connection(self) -> None:
        self._database, self._thread = None, None
        self._starting, self._using = threading.Lock(), threading.Lock()

    def _use(self, action: Callable[[Kept], Result], database: Kept) -> Result:
        with self._using:
            return action(database)

    def _ready(self) -> tuple[CallThread, Kept]:
        with self._starting:
            if self._thread is None or self._database is None:
                self._thread = CallThread("holdfast-sqlite")
                self._database = self._connect()
            return self._thread, self._database


def _close(database: Closing) -> None:
    database.close()

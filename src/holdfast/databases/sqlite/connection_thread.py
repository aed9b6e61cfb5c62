"""The one thread that touches a store's connection, so that no event loop waits for a disk.

No connection crosses a fork. SQLite keeps its own account of the locks a process holds, which a child would inherit and the
kernel would not know of: the child's writes were lost with a log that its parent, thinking itself alone, had removed. And
a child that was forked while another thread was inside SQLite waits for ever for that thread to let go of a mutex.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from holdfast._forks import Forked, Lock, register
from holdfast.databases.sqlite.call_thread import CallThread, Closed


class Closing(Protocol):
    """What has a connection."""

    def close(self) -> None:
        """Let go of the file; the next statement opens it again."""
        ...


Kept = TypeVar("Kept", bound=Closing)
Result = TypeVar("Result")

# Of a fork that nobody announced, by a program that is not Python: its child may neither use nor close what it got.
INHERITED: list[object] = []


class ConnectionThread(Generic[Kept], Forked):
    """Starts with the first call, from whatever event loop, and starts afresh in a forked child."""

    _database: Kept | None
    _thread: CallThread | None
    _starting: threading.Lock
    _using: threading.Lock

    def __init__(self, connect: Callable[[], Kept]) -> None:
        self._connect = connect
        self._start_afresh()
        register(self)

    async def run(self, action: Callable[[Kept], Result]) -> Result:
        """What the action answers, run in the thread."""
        while True:
            thread, database = self._ready()
            try:
                return await thread.run(lambda: self._use(action, database))  # noqa: B023 - it is awaited here
            except Closed:
                pass  # by another thread, since we asked

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
        """Before a fork: wait until nobody is inside SQLite, and close; the next call opens again, here and in the child."""
        super().before_fork()
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()

    def after_fork_in_child(self) -> None:
        """After the fork, in the child."""
        INHERITED.extend(each for each in (self._database, self._thread) if each is not None)
        self._start_afresh()

    def _start_afresh(self) -> None:
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

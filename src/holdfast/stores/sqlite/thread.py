"""The one thread that touches a store's connection, so that no event loop waits for a disk."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.stores.sqlite.database import Database

Result = TypeVar("Result")

# A forked child may neither use nor close what it inherited: closing would let go of locks its parent relies on.
_INHERITED: list[object] = []


class OwnThread:
    """Starts with the first call and, in a forked child, afresh."""

    def __init__(self, connect: Callable[[], Database]) -> None:
        self._connect = connect
        self._database: Database | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._process = 0

    async def run(self, action: Callable[[Database], Result]) -> Result:
        """What the action answers, run in the thread."""
        thread, database = self._ready()
        return await asyncio.get_running_loop().run_in_executor(thread, action, database)

    async def close(self) -> None:
        """Close the connection and end the thread; the next call starts both again."""
        if self._thread is None or self._process != os.getpid():
            return
        thread, database = self._ready()
        self._thread = self._database = None
        await asyncio.get_running_loop().run_in_executor(thread, database.close)
        thread.shutdown()

    def _ready(self) -> tuple[ThreadPoolExecutor, Database]:
        if self._thread is None or self._database is None or self._process != os.getpid():
            _INHERITED.extend(each for each in (self._database, self._thread) if each is not None)
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-sqlite")
            self._database, self._process = self._connect(), os.getpid()
        return self._thread, self._database

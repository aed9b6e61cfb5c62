"""SQLite itself: the same row, on disk, with nothing around it. What the driver of a queue costs is measured against this."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from bench.peers import Place
from holdfast.stores.sqlite import schema

WARM_UP = 50
INSERT = """
INSERT INTO holdfast_jobs (id, task, queue, priority, state, created_at, available_at, policy, payload)
VALUES (?, 'noop', 'default', 0, 'available', ?, ?, '{"max_attempts":3,"max_crashes":3}', ?)
"""


class Raw:
    """``sqlite3`` and one INSERT, in the caller's thread: an event loop would stand still in that time."""

    name = "raw"
    is_threaded = False

    def __init__(self, place: Place) -> None:
        self.place = place
        self._connection = sqlite3.connect(place.file(".db"), isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA journal_mode = WAL")
        schema.migrate(self._connection)
        self._thread = ThreadPoolExecutor(1)

    @classmethod
    def settings(cls) -> str:
        where = "each awaited in a thread" if cls.is_threaded else "blocking its caller"
        return f"SQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL; one INSERT per commit into Holdfast's table, {where}"

    @classmethod
    async def on(cls, place: Place) -> Self:
        peer = cls(place)
        for n in range(WARM_UP):
            peer._insert(n)
        return peer

    async def enqueue_one_by_one(self, count: int) -> None:
        for n in range(count):
            if self.is_threaded:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._insert, n)
            else:
                self._insert(n)

    async def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()

    def _insert(self, n: int) -> None:
        now = time.time_ns() // 1000
        key = time.time_ns().to_bytes(8) + os.urandom(8)
        self._connection.execute(INSERT, (key, now, now, b'{"n":%d}' % n))


class RawInThread(Raw):
    """The same from an event loop that must not stand still."""

    name = "raw in a thread"
    is_threaded = True

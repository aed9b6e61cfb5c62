"""huey on SQLite. It has no call for many jobs, and deletes a job before it runs it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Self

from huey import SqliteHuey  # type: ignore[import-untyped]

from bench.peers import Command, Place
from bench.peers.huey_tasks import huey_on, jobs_of

WARM_UP = 50
CONSUMER = ["--workers", "1", "--worker-type", "thread", "--delay", "0.01", "--max-delay", "0.01", "--no-periodic", "--quiet"]


class Huey:
    """Through its decorated tasks."""

    name = "huey"
    share = 1.0

    def __init__(self, place: Place) -> None:
        self.place = place
        self._huey: SqliteHuey = huey_on(str(place.file(".db")))
        self._noop, self._ping = jobs_of(self._huey)
        self._file = sqlite3.connect(place.file(".db"), isolation_level=None, timeout=30)

    @classmethod
    def settings(cls) -> str:
        return (
            f"{version('huey')}, SQLite {sqlite3.sqlite_version}, WAL, fsync=True (synchronous=FULL), no results stored; "
            f"huey_consumer {' '.join(CONSUMER)}"
        )

    @classmethod
    async def on(cls, place: Place) -> Self:
        peer = cls(place)
        await peer.enqueue_one_by_one(WARM_UP)
        return peer

    async def enqueue_one_by_one(self, count: int) -> None:
        self._enqueue(count)

    async def enqueue_together(self, count: int, callers: int) -> None:
        with ThreadPoolExecutor(callers) as threads:
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(threads, self._enqueue, count // callers) for _ in range(callers)))

    async def enqueue_in_bulk(self, count: int) -> None:
        self._enqueue(count)

    async def ping(self) -> None:
        self._ping(time.monotonic())

    def worker(self, reports: Path | None = None) -> Command:
        arguments = [sys.executable, "-m", "huey.bin.huey_consumer", "bench.peers.huey_tasks.huey", *CONSUMER]
        return Command(arguments, {"BENCH_FILE": str(self.place.file(".db")), "BENCH_REPORTS": str(reports)})

    def waiting(self) -> int:
        (row,) = self._file.execute("SELECT count(*) FROM task").fetchall()
        return int(row[0])

    def first(self) -> object:
        (row,) = self._file.execute("SELECT min(id) FROM task").fetchall()
        return row[0]

    def has_begun(self, first: object) -> bool:
        return self._file.execute("SELECT 1 FROM task WHERE id = ?", (first,)).fetchall() == []

    def is_drained(self) -> bool:
        return self._file.execute("SELECT 1 FROM task LIMIT 1").fetchall() == []

    async def close(self) -> None:
        self._file.close()
        self._huey.storage.close()

    def _enqueue(self, count: int) -> None:
        for n in range(count):
            self._noop(n)

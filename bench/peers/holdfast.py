"""Holdfast on SQLite: ``holdfast worker --concurrency 100`` as it comes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Self

from bench.peers import BULK, Command
from bench.peers.holdfast_tasks import jobs_of
from holdfast import App
from holdfast._core.job import State
from holdfast._ports.clock import compose_uuid7

WARM_UP = 50
CONCURRENCY = 100

_DUE = (
    "FROM holdfast_jobs WHERE state = 'available' AND task = 'noop' AND queue = 'default' AND priority = 0 AND available_at < ?"
)
_COUNT = f"SELECT count(*) {_DUE}"
_WAITING = f"SELECT 1 {_DUE} LIMIT 1"
_IS_AVAILABLE = "SELECT 1 FROM holdfast_jobs WHERE id = ? AND state = 'available'"
_ACTIVE = "SELECT 1 FROM holdfast_jobs WHERE state IN ('claimed', 'running') LIMIT 1"
_FIRST = """
SELECT id FROM holdfast_jobs WHERE state = 'available' AND task = 'noop' ORDER BY queue, priority, available_at, id LIMIT 1
"""

_SEED = """
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < :count)
INSERT INTO holdfast_jobs (
    id, task, queue, priority, state, claim, number, worker, attempt, created_at, available_at, claimed_at, started_at,
    finished_at, forget_at, policy, result, payload
)
SELECT
    key_of(:now + n),
    iif(:state = 'available' AND n % 2, 'unknown', 'noop'),
    'default', 0, :state,
    iif(:state = 'completed', randomblob(16), NULL),
    iif(:state = 'completed', n, 0),
    iif(:state = 'completed', 'host:1234:abcdef', NULL),
    iif(:state = 'completed', 1, 0),
    :now + n,
    :now + n + iif(:state = 'available' AND n % 2 = 0, 86400000000, 0),
    iif(:state = 'completed', :now + n, NULL),
    iif(:state = 'completed', :now + n, NULL),
    iif(:state = 'completed', :now + n, NULL),
    iif(:state = 'completed', :now + n + 604800000000, NULL),
    '{"max_attempts":3,"max_crashes":3}',
    iif(:state = 'completed', CAST('null' AS BLOB), NULL),
    CAST(printf('{"n":%d}', n) AS BLOB)
FROM series
"""
_SEED_RECEIPTS = """
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < :count)
INSERT INTO holdfast_receipts (call, received_at) SELECT randomblob(16), :now + n FROM series
"""


class Holdfast:
    """Our driver, through the front door."""

    name = "holdfast"

    def __init__(self, database: Path) -> None:
        self.database = database
        self._url = f"sqlite:///{database.absolute()}"
        self._app = App(self._url)
        self._noop, self._ping = jobs_of(self._app)
        self._file = sqlite3.connect(database, isolation_level=None, timeout=30)

    @classmethod
    def settings(cls) -> str:
        return (
            f"{version('holdfast')}, SQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL (it has no other setting); "
            f"holdfast worker --concurrency {CONCURRENCY} --log-level warning"
        )

    @classmethod
    async def on(cls, database: Path) -> Self:
        peer = cls(database)
        await peer._app.amigrate()
        await peer.enqueue_one_by_one(WARM_UP)
        return peer

    async def enqueue_one_by_one(self, count: int) -> None:
        for n in range(count):
            await self._noop.aenqueue(n)

    async def enqueue_together(self, count: int, callers: int) -> None:
        await asyncio.gather(*(self.enqueue_one_by_one(count // callers) for _ in range(callers)))

    async def enqueue_in_bulk(self, count: int) -> None:
        for start in range(0, count, BULK):
            await self._noop.aenqueue_many([{"n": n} for n in range(start, min(start + BULK, count))])

    async def ping(self) -> None:
        await self._ping.aenqueue(time.monotonic())

    def worker(self, reports: Path | None = None) -> Command:
        options = ["--concurrency", str(CONCURRENCY), "--log-level", "warning"]
        arguments = [sys.executable, "-m", "holdfast.cli", "worker", "bench.peers.holdfast_tasks:app", *options]
        return Command(arguments, {"HOLDFAST_URL": self._url, "BENCH_REPORTS": str(reports)})

    def waiting(self) -> int:
        (row,) = self._file.execute(_COUNT, (time.time_ns() // 1000,)).fetchall()
        return int(row[0])

    def first(self) -> object:
        (row,) = self._file.execute(_FIRST).fetchall()
        return row[0]

    def has_begun(self, first: object) -> bool:
        return self._file.execute(_IS_AVAILABLE, (first,)).fetchall() == []

    def is_drained(self) -> bool:
        now = time.time_ns() // 1000
        return not (self._file.execute(_WAITING, (now,)).fetchall() or self._file.execute(_ACTIVE).fetchall())

    async def close(self) -> None:
        self._file.close()
        await self._app.aclose()

    def seed(self, state: State, count: int) -> None:
        """So many jobs that nobody will run now: finished; or waiting, half for tomorrow, half for an unknown task.

        Each has been enqueued by a call of its own.
        """
        self._file.create_function("key_of", 1, _key_of)
        self._file.execute("PRAGMA synchronous = OFF")
        values = {"count": count, "state": state, "now": time.time_ns() // 1000 - count}
        self._file.execute(_SEED, values)
        self._file.execute(_SEED_RECEIPTS, values)
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _key_of(microseconds: int) -> bytes:
    """A UUIDv7 made then: new jobs sort behind it."""
    return compose_uuid7(microseconds // 1000, microseconds % 1000 << 62).bytes

"""Holdfast on SQLite."""

from __future__ import annotations

import sqlite3
import time
from typing import Self

from bench.peers import Place
from bench.peers.holdfast import Holdfast
from holdfast._core.job import State
from holdfast._system.clock import compose_uuid7

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
    id, task, queue, priority, state, claim_id, claim_number, worker, attempt, created_at, available_at, claimed_at, started_at,
    finished_at, delete_after, policy, result, payload
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


class HoldfastOnSqlite(Holdfast):
    """A file."""

    def __init__(self, place: Place) -> None:
        database = place.file(".db").absolute()
        super().__init__(place, f"sqlite:///{database}")
        self._file = sqlite3.connect(database, isolation_level=None, timeout=30)

    @classmethod
    def settings(cls) -> str:
        return cls.about(f"SQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL (it has no other setting)")

    @classmethod
    async def on(cls, place: Place) -> Self:
        return await cls(place).prepare()

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
        await super().close()

    def seed(self, state: State, count: int) -> None:
        """Write ``count`` jobs that no worker will run now: finished; or waiting, half for tomorrow, half for an unknown task.

        Each has been enqueued by a separate call.
        """
        self._file.create_function("key_of", 1, _key_of)
        self._file.execute("PRAGMA synchronous = OFF")
        values = {"count": count, "state": state, "now": time.time_ns() // 1000 - count}
        self._file.execute(_SEED, values)
        self._file.execute(_SEED_RECEIPTS, values)
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _key_of(microseconds: int) -> bytes:
    """Make the key of a UUIDv7 made then: new jobs sort behind it."""
    return compose_uuid7(microseconds // 1000, microseconds % 1000 << 62).bytes

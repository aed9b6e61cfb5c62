"""The driver itself: one INSERT for each job into Holdfast's table, and nothing around it."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from typing import Any

import asyncpg
from line_protocol import Driver, run  # type: ignore[import-not-found, unused-ignore]

from bench.peers.raw_postgres import INSERT
from bench.peers.raw_sqlite import INSERT as INSERT_IN_FILE
from holdfast import App
from holdfast._system.clock import SystemRandomness


class Raw(Driver):  # type: ignore[misc, unused-ignore]
    """``one`` awaits a prepared statement of asyncpg, awaits SQLite in a thread, or blocks its caller."""

    async def open(self) -> None:
        app = App(self.url)
        await app.amigrate()
        await app.aclose()
        if self.url.startswith("sqlite"):
            self._file = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA synchronous = FULL")
            self.one = self._row if self.kind == "def" else self._row_in_thread
            return
        self._random = SystemRandomness()
        connection = await asyncpg.connect(self.url)
        self._insert = await connection.prepare(INSERT)
        self.one = self._row_awaited

    def _row(self, task: str, payload: dict[str, Any]) -> None:
        now = time.time_ns()
        key = now.to_bytes(8) + os.urandom(8)
        self._file.execute(INSERT_IN_FILE, (key, now // 1000, now // 1000, json.dumps(payload).encode()))

    async def _row_in_thread(self, task: str, payload: dict[str, Any]) -> None:
        await asyncio.to_thread(self._row, task, payload)

    async def _row_awaited(self, task: str, payload: dict[str, Any]) -> None:
        await self._insert.fetch(self._random.uuid7(), json.dumps(payload).encode())


if __name__ == "__main__":
    run(Raw)

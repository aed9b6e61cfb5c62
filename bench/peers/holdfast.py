"""Holdfast through its front door, on any store; the two files beside this one inspect its rows."""

from __future__ import annotations

import asyncio
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Self

from bench.peers import BULK, Command, Place
from bench.peers.holdfast_tasks import jobs_of
from holdfast import App

WARM_UP = 50


class Holdfast:
    """``holdfast worker`` as it comes, but for its concurrency."""

    name = "holdfast"
    share = 1.0
    concurrency = 100

    def __init__(self, place: Place, url: str) -> None:
        self.place = place
        self._url = url
        self._app = App(url)
        self._noop, self._ping = jobs_of(self._app)

    @classmethod
    def about(cls, store: str) -> str:
        """Return version and settings."""
        return f"{version('holdfast')}, {store}; holdfast worker --concurrency {cls.concurrency} --log-level warning"

    async def prepare(self) -> Self:
        """Tables, connections and caches are there."""
        await self._app.amigrate()
        await self.enqueue_one_by_one(WARM_UP)
        return self

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
        options = ["--concurrency", str(self.concurrency), "--log-level", "warning"]
        arguments = [sys.executable, "-m", "holdfast.cli", "worker", "bench.peers.holdfast_tasks:app", *options]
        return Command(arguments, {"HOLDFAST_URL": self._url, "BENCH_REPORTS": str(reports)})

    async def close(self) -> None:
        await self._app.aclose()

"""procrastinate on psycopg."""

from __future__ import annotations

import asyncio
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Self

from procrastinate.types import JSONValue

from bench.peers import BULK, Command, Place
from bench.peers.looking import Looking
from bench.peers.procrastinate_tasks import CONCURRENCY, CONNECTIONS, app_on

WARM_UP = 50
_WAITS = "FROM procrastinate_jobs WHERE task_name = 'noop' AND status = 'todo'"


class Procrastinate:
    """Through its decorated tasks. It keeps finished jobs, as Holdfast does."""

    name = "procrastinate"
    share = 0.03

    def __init__(self, place: Place) -> None:
        self.place = place
        self._app = app_on(place.url)
        self._looking = Looking(place.url)

    @classmethod
    def settings(cls) -> str:
        return (
            f"{version('procrastinate')}, psycopg {version('psycopg')} (C), a pool of {CONNECTIONS}; worker: uvloop, "
            f"concurrency={CONCURRENCY} (1 to 100 hardly differ here); 3 % of the jobs of the others"
        )

    @classmethod
    async def on(cls, place: Place) -> Self:
        peer = cls(place)
        await peer._app.open_async()
        await peer._app.schema_manager.apply_schema_async()
        await peer.enqueue_one_by_one(WARM_UP)
        return peer

    async def enqueue_one_by_one(self, count: int) -> None:
        for n in range(count):
            await self._app.tasks["noop"].defer_async(n=n)

    async def enqueue_together(self, count: int, callers: int) -> None:
        await asyncio.gather(*(self.enqueue_one_by_one(count // callers) for _ in range(callers)))

    async def enqueue_in_bulk(self, count: int) -> None:
        for start in range(0, count, BULK):
            some: list[dict[str, JSONValue]] = [{"n": n} for n in range(start, min(start + BULK, count))]
            await self._app.tasks["noop"].batch_defer_async(*some)

    async def ping(self) -> None:
        await self._app.tasks["ping"].defer_async(sent=time.monotonic())

    def worker(self, reports: Path | None = None) -> Command:
        arguments = [sys.executable, "-m", "bench.peers.procrastinate_tasks"]
        return Command(arguments, {"BENCH_URL": self.place.url, "BENCH_REPORTS": str(reports)})

    def waiting(self) -> int:
        return int(self._looking.ask(f"SELECT count(*) {_WAITS}"))

    def first(self) -> object:
        return self._looking.ask(f"SELECT min(id) {_WAITS}")

    def has_begun(self, first: object) -> bool:
        return not self._looking.ask(f"SELECT EXISTS (SELECT {_WAITS} AND id = %s)", first)

    def is_drained(self) -> bool:
        return not self._looking.ask("SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))")

    async def close(self) -> None:
        self._looking.close()
        await self._app.close_async()

"""pgqueuer on asyncpg, tuned as its guide advises: an asyncpg pool, large batches, its autovacuum settings, uvloop."""

from __future__ import annotations

import asyncio
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Self

import asyncpg
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench.peers import BULK, Command, Place
from bench.peers.looking import Looking
from bench.peers.pgqueuer_tasks import BATCH, CONNECTIONS, payload_of

WARM_UP = 50
_EXISTS = "SELECT EXISTS (SELECT FROM pgqueuer"


class PgQueuer:
    """Through its ``Queries``."""

    name = "pgqueuer"
    share = 1.0

    def __init__(self, place: Place, pool: asyncpg.Pool) -> None:
        self.place = place
        self._pool = pool
        self._queries = Queries(AsyncpgPoolDriver(pool))
        self._looking = Looking(place.url)

    @classmethod
    def settings(cls) -> str:
        return (
            f"{version('pgqueuer')}, asyncpg {version('asyncpg')}; durable tables, pgq autovac; worker: uvloop, "
            f"AsyncpgPoolDriver of {CONNECTIONS}, batch_size={BATCH} (the fastest of 10 to 2000 and of 1 to 8 connections here)"
        )

    @classmethod
    async def on(cls, place: Place) -> Self:
        pool = await asyncpg.create_pool(place.url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        peer = cls(place, pool)
        await peer._queries.install()
        await peer._queries.optimize_autovacuum()
        await peer.enqueue_one_by_one(WARM_UP)
        return peer

    async def enqueue_one_by_one(self, count: int) -> None:
        for n in range(count):
            await self._queries.enqueue("noop", payload_of(n))

    async def enqueue_together(self, count: int, callers: int) -> None:
        await asyncio.gather(*(self.enqueue_one_by_one(count // callers) for _ in range(callers)))

    async def enqueue_in_bulk(self, count: int) -> None:
        for start in range(0, count, BULK):
            some = range(start, min(start + BULK, count))
            await self._queries.enqueue(["noop"] * len(some), [payload_of(n) for n in some], [0] * len(some))

    async def ping(self) -> None:
        await self._queries.enqueue("ping", str(time.monotonic()).encode())

    def worker(self, reports: Path | None = None) -> Command:
        arguments = [sys.executable, "-m", "bench.peers.pgqueuer_tasks"]
        return Command(arguments, {"BENCH_URL": self.place.url, "BENCH_REPORTS": str(reports)})

    def waiting(self) -> int:
        return int(self._looking.ask("SELECT count(*) FROM pgqueuer"))

    def first(self) -> object:
        return self._looking.ask("SELECT id FROM pgqueuer WHERE status = 'queued' ORDER BY priority DESC, id LIMIT 1")

    def has_begun(self, first: object) -> bool:
        return not self._looking.ask(f"{_EXISTS} WHERE id = %s AND status = 'queued')", first)

    def is_drained(self) -> bool:
        return not self._looking.ask(f"{_EXISTS})")

    async def close(self) -> None:
        self._looking.close()
        await self._pool.close()

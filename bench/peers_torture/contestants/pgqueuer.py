"""pgqueuer on asyncpg."""

from __future__ import annotations

import asyncio

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, Order, numbers

BATCH = 5
"""It wants no more than half of the concurrency."""


def prepare(order: Order) -> None:
    asyncio.run(_prepare(order))


def enqueue(order: Order, count: int) -> None:
    asyncio.run(_enqueue(order, count))


def work(order: Order) -> None:
    asyncio.run(_work(order))


async def _prepare(order: Order) -> None:
    async with asyncpg.create_pool(order.url, min_size=1, max_size=4) as pool:
        await PgQueuer(AsyncpgPoolDriver(pool)).qm.queries.install()


async def _enqueue(order: Order, count: int) -> None:
    async with asyncpg.create_pool(order.url, min_size=1, max_size=4) as pool:
        queries = PgQueuer(AsyncpgPoolDriver(pool)).qm.queries
        for job in numbers(count):
            await queries.enqueue("torture", str(job).encode())


async def _work(order: Order) -> None:
    async with asyncpg.create_pool(order.url, min_size=2, max_size=4) as pool:
        worker = PgQueuer(AsyncpgPoolDriver(pool))

        @worker.entrypoint("torture")
        async def torture(job: Job) -> None:
            await journal.work(int(job.payload or b"0"))

        journal.say_up()
        await worker.run(batch_size=BATCH, max_concurrent_tasks=CONCURRENCY)

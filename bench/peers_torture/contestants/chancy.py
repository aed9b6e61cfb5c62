"""chancy, its jobs on the event loop of its worker."""

from __future__ import annotations

import asyncio

from chancy import Chancy, Queue, Worker, job  # type: ignore[import-not-found, unused-ignore]

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, Order, numbers


async def torture(*, job: int) -> None:
    """Do the work of all contestants."""
    await journal.work(job)


TORTURE = job()(torture)


def prepare(order: Order) -> None:
    asyncio.run(_prepare(order))


def enqueue(order: Order, count: int) -> None:
    asyncio.run(_enqueue(order, count))


def work(order: Order) -> None:
    asyncio.run(_work(order))


async def _prepare(order: Order) -> None:
    async with Chancy(order.url) as app:
        await app.migrate()
        await app.declare(Queue("default", concurrency=CONCURRENCY, executor=Chancy.Executor.Async))


async def _enqueue(order: Order, count: int) -> None:
    async with Chancy(order.url) as app:
        for number in numbers(count):
            await app.push(TORTURE.job.with_kwargs(job=number))


async def _work(order: Order) -> None:
    async with Chancy(order.url) as app, Worker(app) as worker:
        journal.say_up()
        await worker.wait_for_shutdown()

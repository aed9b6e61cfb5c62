"""Oban for Python, embedded as its guide shows; it needs Python 3.12."""

from __future__ import annotations

import asyncio
from typing import Any

from oban import Oban, worker  # type: ignore[import-not-found, unused-ignore]
from oban.schema import install  # type: ignore[import-not-found, unused-ignore]

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, Order, numbers

LIFELINES: dict[str, dict[str, Any]] = {"defaults": {}, "lifeline every 30 s": {"interval": 30}}


class Torture:
    """The work of all contestants."""

    async def process(self, job: Any) -> None:
        """Do the work, as Oban calls it."""
        await journal.work(job.args["job"])


TORTURE: Any = worker(queue="default")(Torture)


def prepare(order: Order) -> None:
    asyncio.run(_prepare(order))


def enqueue(order: Order, count: int) -> None:
    asyncio.run(_enqueue(order, count))


def work(order: Order) -> None:
    asyncio.run(_work(order))


async def _prepare(order: Order) -> None:
    async with await Oban.create_pool(order.url) as pool:
        await install(pool)


async def _enqueue(order: Order, count: int) -> None:
    async with await Oban.create_pool(order.url) as pool, Oban(pool=pool) as client:
        for job in numbers(count):
            await client.enqueue(TORTURE.new({"job": job}))


async def _work(order: Order) -> None:
    pool = await Oban.create_pool(order.url)
    async with Oban(pool=pool, queues={"default": CONCURRENCY}, lifeline=LIFELINES[order.setting]):
        journal.say_up()
        await asyncio.Event().wait()

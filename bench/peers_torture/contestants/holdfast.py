"""Holdfast, through its front door."""

from __future__ import annotations

import asyncio
import os
import sys

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, SETTING, Order, numbers
from holdfast import App

_IS_ISOLATED = os.environ.get(SETTING) in ("as on two machines", "on MongoDB")

app = App(os.environ.get("HOLDFAST_URL", "memory://"), reconcile="off" if _IS_ISOLATED else "process")


@app.task
async def torture(job: int) -> None:
    """Do the work of all contestants."""
    await journal.work(job)


def prepare(order: Order) -> None:
    asyncio.run(_with_app(0))


def enqueue(order: Order, count: int) -> None:
    asyncio.run(_with_app(count))


def work(order: Order) -> None:
    """Run ``holdfast worker``; it reports that it is up from the process that imports the tasks."""
    target = "bench.peers_torture.contestants.holdfast_worker:app"
    options = ["--concurrency", str(CONCURRENCY), "--log-level", "warning"]
    os.execv(sys.executable, [sys.executable, "-m", "holdfast.cli", "worker", target, *options])


async def _with_app(count: int) -> None:
    await app.amigrate()
    for job in numbers(count):
        await torture.aenqueue(job)
    await app.aclose()

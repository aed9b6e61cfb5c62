"""Jobs that are lost or doubled when writes land without an answer, and when the broker stands still for a while."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.objects import load
from bench.objects.by_hand import OneObject
from bench.objects.queues import Queue
from bench.objects.sites import NAMES, Site
from bench.objects.slow_bucket import Link

LATENCY, LOST = 0.005, 0.05
CALLERS, WORKERS, CONCURRENCY = 10, 2, 5
ASKS_NEXT = 1.0
"""Seconds after which a caller asks the other broker."""


async def measure(jobs: int, console: Console) -> None:
    """Print a row for each fault and queue."""
    columns = ("jobs", "ran once", "ran more than once", "not run when no worker found a job any more")
    table = Table("fault", "queue", *columns, title="jobs under faults")
    for name in NAMES:
        table.add_row(f"{LOST:.0%} of all writes land without an answer", name, *await _lost(name, jobs))
    table.add_row(
        f"the broker stands still; its callers ask another one after {ASKS_NEXT:g} s", "broker by hand", *await _stopped(jobs)
    )
    console.print(table)


async def _lost(name: str, jobs: int) -> list[str]:
    site = Site(Link(LATENCY, lost=LOST))
    await site.prepare()
    producer, consumers = site.open(name), [site.open(name) for _ in range(WORKERS)]
    if name == "broker by hand":
        consumers = [producer] * WORKERS  # all call the broker
    await load.fill(producer, jobs, CALLERS)
    return _row(jobs, await _run(consumers))


async def _stopped(jobs: int) -> list[str]:
    """Stop the broker between the composing of a write and its sending."""
    site = Site(Link(LATENCY))
    await site.prepare()
    leader, standby = (OneObject(site.bucket(), is_only_writer=True) for _ in range(2))
    leader.runs.clear()

    async def call(number: int) -> None:
        try:
            await asyncio.wait_for(leader.enqueue(number), ASKS_NEXT)
        except TimeoutError:
            await standby.enqueue(number)

    await asyncio.gather(*(call(number) for number in range(jobs)))
    leader.runs.set()
    await leader.close()
    return _row(jobs, await _run([standby]))


async def _run(queues: Sequence[Queue]) -> Counter[int]:
    """Run all jobs that workers get, and count how often each ran."""
    ran = Counter[int]()

    async def work(queue: Queue) -> None:
        worker = await queue.worker(CONCURRENCY)
        while jobs := await worker.exchange():
            ran.update(jobs)

    await asyncio.gather(*(work(queue) for queue in queues))
    for queue in dict.fromkeys(queues):
        await queue.close()
    return ran


def _row(jobs: int, ran: Counter[int]) -> list[str]:
    once, more = sum(times == 1 for times in ran.values()), sum(times > 1 for times in ran.values())
    return [str(jobs), str(once), str(more), str(jobs - once - more)]

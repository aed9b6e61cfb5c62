"""Processes that write to one bucket without a broker: who gets how many commits, and how long the slowest waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.objects.queues import HoldfastQueue
from bench.objects.sites import Site
from bench.objects.slow_bucket import Link

CALLERS = 16
"""Of each writer."""
BEAT = 0.5
"""Seconds between two heartbeats of the process that only beats."""


class Share(Struct):
    """What one writer got done, and its longest wait in seconds."""

    done: int = 0
    longest: float = 0.0


async def measure(latencies: list[float], writers: list[int], seconds: float, console: Console) -> None:
    """Print a row for each latency and number of writers."""
    columns = ("enqueues /s", "commits /s", "PUTs per commit", "slowest : fastest", "longest wait s", "longest beat s")
    table = Table("bucket", "writers", *columns, title=f"writers without a broker, {CALLERS} callers each")
    for latency in latencies:
        for count in writers:
            table.add_row(f"{latency * 1000:g} ms", str(count), *await _row(latency, count, seconds))
    console.print(table)


async def _row(latency: float, count: int, seconds: float) -> list[str]:
    site = Site(Link(latency))
    await site.prepare()
    queues = [_open(site) for _ in range(count)]
    beating = _open(site)
    worker = await beating.worker(1)
    shares, beats, end = [Share() for _ in queues], Share(), time.perf_counter() + seconds
    began, wrote, version = time.perf_counter(), site.writes, await site.version()
    calls = [_call(queue, share, end) for queue, share in zip(queues, shares, strict=True) for _ in range(CALLERS)]
    await asyncio.gather(_beat(worker.beat, beats, end), *calls)
    took = time.perf_counter() - began
    commits = await site.version() - version
    for queue in (*queues, beating):
        await queue.close()
    fastest = max(share.done for share in shares)
    return [
        f"{sum(share.done for share in shares) / took:,.0f}",
        f"{commits / took:.1f}",
        f"{(site.writes - wrote) / commits:.1f}",
        f"{min(share.done for share in shares) / fastest:.0%}",
        f"{max(share.longest for share in shares):.1f}",
        f"{beats.longest:.2f}",
    ]


def _open(site: Site) -> HoldfastQueue:
    queue = site.open("holdfast")
    assert isinstance(queue, HoldfastQueue)
    return queue


async def _call(queue: HoldfastQueue, share: Share, end: float) -> None:
    while (asked := time.perf_counter()) < end:
        await queue.enqueue(share.done)
        share.done += 1
        share.longest = max(share.longest, time.perf_counter() - asked)


async def _beat(beat: Callable[[], Awaitable[None]], beats: Share, end: float) -> None:
    while (asked := time.perf_counter()) < end:
        await beat()
        beats.done += 1
        beats.longest = max(beats.longest, time.perf_counter() - asked)
        await asyncio.sleep(BEAT)

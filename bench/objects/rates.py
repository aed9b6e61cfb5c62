"""Operations and writes of one process that writes single, in this process: Holdfast, and the designs by hand."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.objects import load
from bench.objects.prices import dollars
from bench.objects.sites import NAMES, Site
from bench.objects.slow_bucket import Link

CONCURRENCY = 100


async def measure(latencies: list[float], seconds: float, backlog: int, console: Console) -> None:
    """Print a row for each latency and queue."""
    columns = ("1 caller /s", "p50 ms", "100 callers /s", "p50 ms", "1 worker, jobs/s", "writes per 1,000 jobs: enqueue", "run")
    table = Table("bucket", "queue", *columns, "$ per million jobs", title=f"one process, beside {backlog:,} waiting")
    for latency in latencies:
        for name in NAMES:
            table.add_row(f"{latency * 1000:g} ms", name, *await _row(name, latency, seconds, backlog))
    console.print(table)


async def _row(name: str, latency: float, seconds: float, backlog: int) -> list[str]:
    single = await _enqueue(name, latency, 1, seconds, backlog)
    together = await _enqueue(name, latency, 100, seconds, backlog)
    site = Site(Link(latency))
    await site.prepare()
    queue = site.open(name)
    await load.fill(queue, round(seconds * min(5_000, 80 / latency)))
    worker = await queue.worker(CONCURRENCY)
    wrote, read = site.writes, site.reads
    ran = await load.drain([worker], seconds)
    run = (site.writes - wrote) / ran.done, (site.reads - read) / ran.done
    await queue.close()
    price = dollars(writes=together[1] + run[0], reads=together[2] + run[1])
    return [
        f"{single[0].rate:,.0f}",
        f"{single[0].usual * 1000:,.0f}",
        f"{together[0].rate:,.0f}",
        f"{together[0].usual * 1000:,.0f}",
        f"{ran.rate:,.0f}",
        f"{together[1] * 1000:.1f}",
        f"{run[0] * 1000:.1f}",
        f"{price * 1e6:.2f}",
    ]


async def _enqueue(name: str, latency: float, callers: int, seconds: float, backlog: int) -> tuple[load.Throughput, float, float]:
    """Return the pace, and the writes and reads of each job."""
    site = Site(Link(latency))
    await site.prepare()
    queue = site.open(name)
    await load.fill(queue, backlog)
    wrote, read = site.writes, site.reads
    pace = await load.enqueue(queue, callers, seconds)
    found = pace, (site.writes - wrote) / pace.done, (site.reads - read) / pace.done
    await queue.close()
    return found

"""How soon the pages of a large store are there, and what people who watch or act take from its workers."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import asyncpg

from bench.races import SERVER
from bench.watched.claims import measure_retry
from bench.watched.drains import Way, drain, fill
from bench.watched.large_store import furnish
from bench.watched.viewers import dashboard, get, watching
from holdfast.testing.servers import PostgresServer

PAGES = (
    "/", "/jobs", "/jobs?state=failed", "/jobs?state=completed", "/jobs?task=broken&state=completed", "/jobs?text=nowhere",
    "/errors", "/queues", "/workers", "/schedules", "/workflows", "/limits", "/audit",
)  # fmt: skip
WATCHED = ("/", "/jobs", "/queues", "/workers", "/errors")
DAY = 86_400.0
READS = 30
CLAIMED = 300_000
RUNNING = Way("neither")


def run(options: argparse.Namespace) -> None:
    """Fill a store, and print each figure."""
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-watched-") as folder,
        PostgresServer(is_durable=True, settings=SERVER, data=Path(folder) / "data") as server,
    ):
        url = server.create_database()
        asyncio.run(furnish(url, options.completed, options.failed, DAY))
        print(f"{options.completed:,} completed and {options.failed:,} failed jobs", flush=True)
        with dashboard(url, Path(folder) / "log") as port:
            with draining(url, options.jobs):
                measure_pages(port)
            measure_watched(url, port, options)
        asyncio.run(fill(url, CLAIMED))
        asyncio.run(measure_retry(url))


@contextmanager
def draining(url: str, jobs: int) -> Iterator[None]:
    """Have a worker drain jobs beside what is measured."""
    asyncio.run(fill(url, jobs, "brief"))
    worker = threading.Thread(target=drain, args=(url, RUNNING))
    worker.start()
    yield
    print(f"the worker was {'still' if worker.is_alive() else 'no longer'} draining", flush=True)
    worker.join()


def measure_pages(port: int) -> None:
    """Read each page again and again, and print how long that took."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        for path in PAGES:
            reads = [get(connection, path) for _ in range(READS)]
            took = sorted(seconds * 1000 for seconds, _ in reads)
            p50, p95, size = statistics.median(took), took[int(0.95 * READS)], reads[-1][1] / 1024
            print(f"{path:<42} p50 {p50:6.0f} ms   p95 {p95:6.0f} ms   {size:5.0f} KiB")
    sys.stdout.flush()


def measure_watched(url: str, port: int, options: argparse.Namespace) -> None:
    """Drain jobs while five people watch, and without them, in turns."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(options.rounds):
        for is_watched in (number % 2 == 0, number % 2 == 1):
            asyncio.run(fill(url, options.jobs))
            if is_watched:
                with watching(port, WATCHED) as took:
                    drain(url, RUNNING)
                print(f"{len(took)} readings, p50 {statistics.median(took) * 1000:.0f} ms", flush=True)
            else:
                drain(url, RUNNING)
            rates[is_watched].append(asyncio.run(_latest_rate(url, options.jobs)))
            print(
                f"round {number + 1}: {'watched' if is_watched else 'unwatched'}: {rates[is_watched][-1]:,.0f} jobs/s", flush=True
            )
    ratios = [one / other for one, other in zip(rates[True], rates[False], strict=True)]
    print(f"watched / unwatched: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


_LATEST = """
SELECT extract(
    epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY finished_at) - percentile_disc(0.05) WITHIN GROUP (ORDER BY finished_at)
) AS seconds
FROM (SELECT finished_at FROM holdfast.finished ORDER BY id DESC LIMIT $1) AS latest
"""


async def _latest_rate(url: str, jobs: int) -> float:
    connection = await asyncpg.connect(url)
    (row,) = await connection.fetch(_LATEST, jobs)
    await connection.close()
    return jobs * 0.9 / float(row["seconds"])

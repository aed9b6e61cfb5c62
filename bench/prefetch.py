"""``python -m bench.prefetch``: how fast workers drain short jobs that they claim ahead, and how evenly two workers end.

Each round fills a database on PostgreSQL and drains it with each setting, one after the other; a ratio is the median of the rounds'
ratios. The rate is that of the finish times of the jobs, so that the start of a process does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from bench.prefetch_tasks import define
from bench.races import SERVER
from holdfast import App
from holdfast.testing.servers import PostgresServer

SETTINGS = {"default": [], "no prefetch": ["--prefetch", "0"], "1000 slots": ["--concurrency", "1000"]}
BULK = 5000
TRIM = 0.05
"""Share of the jobs that is left out at both ends: the claims of the first and the last are not full."""
_FINISHED = """
SELECT
    percentile_disc($1::float8) WITHIN GROUP (ORDER BY finished_at) AS begun,
    percentile_disc($2::float8) WITHIN GROUP (ORDER BY finished_at) AS ended,
    count(*) AS jobs, max(attempt) AS attempt
FROM holdfast.finished
"""
_LAST = "SELECT worker, max(finished_at) AS ended, count(*) AS jobs FROM holdfast.finished GROUP BY worker"


async def fill(url: str, jobs: int) -> None:
    """Enqueue that many jobs in an empty store."""
    app = App(url)
    await app.amigrate()
    task = define(app)
    for start in range(0, jobs, BULK):
        await task.aenqueue_many([{"number": number} for number in range(start, min(start + BULK, jobs))])
    await app.aclose()


def drain(url: str, words: Sequence[str]) -> None:
    """Run ``holdfast worker`` until nothing is left."""
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.prefetch_tasks:app", "--until-empty", *words]
    subprocess.run([*command, "--log-level", "error"], env={**os.environ, "HOLDFAST_URL": url}, check=True)


async def rate(url: str) -> float:
    """Return the jobs per second between the first and the last twentieth."""
    connection = await asyncpg.connect(url)
    (row,) = await connection.fetch(_FINISHED, TRIM, 1 - TRIM)
    await connection.close()
    assert row["attempt"] == 1
    return float(row["jobs"] * (1 - 2 * TRIM) / (row["ended"] - row["begun"]).total_seconds())


async def apart(url: str) -> float:
    """Return the seconds between the last job of the first worker that ended and the last one of all."""
    connection = await asyncpg.connect(url)
    ends = [row["ended"] for row in await connection.fetch(_LAST)]
    await connection.close()
    return float((max(ends) - min(ends)).total_seconds()) if len(ends) > 1 else float("inf")


async def run(options: argparse.Namespace, folder: Path) -> None:
    """Measure each setting in each round, and print the medians."""
    rates: dict[str, list[float]] = {name: [] for name in SETTINGS}
    gaps = []
    with PostgresServer(is_durable=True, settings=SERVER, data=folder / "data") as server:
        for number in range(options.rounds):
            order = list(SETTINGS)[number % 3 :] + list(SETTINGS)[: number % 3]
            for name in order:
                url = server.create_database()
                await fill(url, options.jobs)
                drain(url, SETTINGS[name])
                rates[name].append(await rate(url))
                print(f"round {number + 1}: {name}: {rates[name][-1]:,.0f} jobs/s", flush=True)
            url = server.create_database()
            await fill(url, options.jobs)
            drain(url, ["--processes", "2"])
            gaps.append(await apart(url))
            print(f"round {number + 1}: two workers ended {gaps[-1]:.3f} s apart", flush=True)
    for name, base in (("no prefetch", "default"), ("1000 slots", "default")):
        ratios = [one / other for one, other in zip(rates[base], rates[name], strict=True)]
        print(f"{base} / {name}: {statistics.median(ratios):.2f}")
    print(f"two workers end at most {max(gaps):.3f} s apart")


def main(arguments: Sequence[str]) -> int:
    """Measure and print; a benchmark measures, and a test judges."""
    parser = argparse.ArgumentParser("python -m bench.prefetch", description="Drain short jobs.")
    parser.add_argument("--jobs", type=int, default=100_000, help="in each drain [100000]")
    parser.add_argument("--rounds", type=int, default=3, help="[3]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-prefetch-") as folder:
        asyncio.run(run(options, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

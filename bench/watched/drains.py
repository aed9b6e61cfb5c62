"""How much slower a worker drains empty jobs with metrics and with traces than with neither."""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing

import asyncpg
from msgspec import Struct

from bench.lanes import databases
from bench.watched.tasks import define, trace
from holdfast import App

BULK = 5000
TRIM = 0.05
"""Share of the jobs that is left out at both ends: the start of the process does not count."""


class Way(Struct, frozen=True):
    """How the worker is started, and whether it and its enqueues make spans."""

    name: str
    words: Sequence[str] = ()
    is_traced: bool = False


WAYS = (
    Way("neither"),
    Way("metrics", ("--metrics", "127.0.0.1:0")),
    Way("traces", is_traced=True),
)


def run(options: argparse.Namespace) -> None:
    """Measure each way in each round, in changing order, and print the medians of the ratios."""
    rates: dict[str, list[float]] = {way.name: [] for way in WAYS}
    with databases(options) as urls:
        for number in range(options.rounds):
            for place in range(len(WAYS)):
                way = WAYS[(number + place) % len(WAYS)]
                url = next(urls)
                asyncio.run(fill(url, options.jobs, is_traced=way.is_traced))
                drain(url, way)
                rates[way.name].append(asyncio.run(rate(url)))
                print(f"round {number + 1}: {way.name}: {rates[way.name][-1]:,.0f} jobs/s", flush=True)
    for way in WAYS[1:]:
        ratios = [one / other for one, other in zip(rates[way.name], rates["neither"], strict=True)]
        median = statistics.median(ratios)
        print(f"{options.store}: {way.name} / neither: {median:.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


async def fill(url: str, jobs: int, task: str = "nothing", *, is_traced: bool = False) -> None:
    """Enqueue that many jobs."""
    app = App(url)
    await app.amigrate()
    tasks = define(app)
    if is_traced:
        trace(app)
    for start in range(0, jobs, BULK):
        await tasks[task].aenqueue_many([{"number": number} for number in range(start, min(start + BULK, jobs))])
    await app.aclose()


def drain(url: str, way: Way) -> None:
    """Run ``holdfast worker`` until nothing is left."""
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.watched.tasks:app", "--until-empty", *way.words]
    environment = {**os.environ, "HOLDFAST_URL": url, "BENCH_TRACED": "1" if way.is_traced else ""}
    subprocess.run([*command, "--log-level", "error"], env=environment, check=True)


async def rate(url: str) -> float:
    """Return the jobs per second between the first and the last twentieth."""
    ends = await _ends(url)
    few = int(len(ends) * TRIM)
    return (len(ends) - 2 * few) / (ends[-few - 1] - ends[few])


async def _ends(url: str) -> list[float]:
    """Return when each job finished, in seconds, in order."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return [at / 1e6 for (at,) in file.execute("SELECT finished_at FROM holdfast_jobs ORDER BY finished_at")]
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT extract(epoch FROM finished_at)::float8 FROM holdfast.finished ORDER BY 1")
    await connection.close()
    return [at for (at,) in rows]

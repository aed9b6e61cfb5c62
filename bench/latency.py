"""``python -m bench.latency``: where the milliseconds between an enqueue and the first line of its handler go, in an idle worker.

The worker has default settings. Jobs come one after the other, at a rate at which the worker is idle in between. ``enqueue``: until
the worker has its hint, so the store's commit is part of it. ``look``: until the worker sends its claim. ``claim``: until the store has
answered. ``start``: until the handler runs. A job whose claim was sent before its hint came, by a look of the worker's own, has
no time for ``look``.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import environ
from pathlib import Path

from bench.figures import until
from bench.handlers import places
from bench.latency_tasks import ping
from holdfast import App

STAGES = ("enqueue", "look", "claim", "start")
WARM_UP = 20
END = 20.0
STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 50.0, float("inf"))
"""Upper ends of the bars of the histogram, in milliseconds."""

Way = Mapping[str, float]


def way_of(line: str) -> Way:
    """Return the milliseconds of each stage of one job."""
    sent, hint, claim, answer, began = map(float, line.split())
    hint = min(max(hint, sent), claim)
    times = (hint - sent, claim - hint, answer - claim, began - answer)
    return {name: seconds * 1000 for name, seconds in (*zip(STAGES, times, strict=True), ("all", began - sent))}


@contextmanager
def worker(url: str, reports: Path) -> Iterator[None]:
    """Run one worker at default settings."""
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.latency_tasks:app", "--log-level", "error"]
    process = subprocess.Popen(command, env={**environ, "HOLDFAST_URL": url, "BENCH_REPORTS": str(reports)})
    try:
        yield
    finally:
        process.terminate()
        process.wait(END)


async def measure(url: str, reports: Path, jobs: int, rate: float) -> list[Way]:
    """Enqueue the jobs one after the other, and return the way of each but the first few."""
    app = App(url)
    await app.amigrate()
    with worker(url, reports):
        for number in range(jobs + WARM_UP):
            await app.aenqueue(ping.name, sent=time.monotonic())
            await asyncio.sleep((0.5 + number * 0.618 % 1) / rate)  # never in step with anything that runs at a fixed pace
            if number == 0:
                await until_there(reports, 1)
        await until_there(reports, jobs + WARM_UP)
    await app.aclose()
    return [way_of(line) for line in lines(reports)[WARM_UP:]]


async def until_there(reports: Path, count: int) -> None:
    """Wait until the reports have that many lines."""
    await until(lambda: len(lines(reports)) >= count)


def lines(reports: Path) -> list[str]:
    """Return what the handler has written so far."""
    return reports.read_text().splitlines() if reports.exists() else []


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    return sorted(values)[int(len(values) * share)]


def show(ways: Sequence[Way]) -> None:
    """Print the quantiles of each stage, the slowest jobs and a histogram."""
    print(f"{'ms':8} {'p50':>7} {'p90':>7} {'p99':>7} {'most':>7}")
    for name in (*STAGES, "all"):
        found = [way[name] for way in ways]
        print(
            f"{name:8} {statistics.median(found):7.2f} {quantile(found, 0.9):7.2f} {quantile(found, 0.99):7.2f} {max(found):7.2f}"
        )
    slowest = sorted(ways, key=lambda way: -way["all"])[: max(1, len(ways) // 100)]
    print(
        f"the slowest {len(slowest)}: "
        + ", ".join(f"{name} {statistics.mean(way[name] for way in slowest):.2f}" for name in STAGES)
    )
    low = 0.0
    for high in STEPS:
        count = sum(low <= way["all"] < high for way in ways)
        print(f"{low:5.1f} ms {count:6} {'█' * round(60 * count / len(ways)) or '·' * (count > 0)}")
        low = high


def main(arguments: Sequence[str]) -> int:
    """Measure and print; a benchmark measures, and a test judges."""
    parser = argparse.ArgumentParser("python -m bench.latency", description="Time the way of a job to an idle worker, by stage.")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--jobs", type=int, default=2000, help="[2000]")
    parser.add_argument("--rate", type=float, default=50.0, help="jobs per second [50]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-latency-") as folder,
        places(options.store, Path(folder)) as urls,
    ):
        show(asyncio.run(measure(next(urls), Path(folder, "reports"), options.jobs, options.rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

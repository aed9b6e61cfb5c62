"""``python -m bench.many_queues``: how fast one default worker drains jobs that do nothing, by the number of queues they are spread over.

The worker serves all queues, and the jobs were enqueued round robin. Each round drains each number of queues once, one after the other;
a ratio is the median of the rounds' ratios to the first number. The rate is that of the finish times of the jobs.
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

from bench.handler_tasks import on_loop
from bench.handlers import places, rate_in_file
from bench.prefetch import rate
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._system.clock import SystemRandomness
from holdfast.opening import open_store
from holdfast.settings import Settings

BULK = 5000


async def fill(url: str, queues: int, jobs: int) -> None:
    """Enqueue that many jobs in an empty store, to one queue after the other."""
    store, chance = open_store(Settings.of(url)), SystemRandomness()
    try:
        await store.migrate()
        for start in range(0, jobs, BULK):
            numbers = range(start, min(start + BULK, jobs))
            await store.enqueue(chance.uuid4(), [_job(chance, number, queues) for number in numbers])
    finally:
        await store.close()


def _job(chance: SystemRandomness, number: int, queues: int) -> NewJob:
    payload, queue = b'{"number":%d}' % number, f"q{number % queues:05}"
    return NewJob(id=chance.uuid7(), task=on_loop.name, queue=queue, key="", priority=0, payload=payload, policy=Policy())


def measure(url: str, queues: int, jobs: int) -> float:
    """Return the rate of one drain."""
    asyncio.run(fill(url, queues, jobs))
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.handler_tasks:loop_app", "--until-empty"]
    environment = {**os.environ, "HOLDFAST_URL": url}
    subprocess.run([*command, "--log-level", "error"], env=environment, check=True, capture_output=True)
    return rate_in_file(Path(url.removeprefix("sqlite:///"))) if url.startswith("sqlite") else asyncio.run(rate(url))


def main(arguments: Sequence[str]) -> int:
    """Measure and print; a benchmark measures, and a test judges."""
    parser = argparse.ArgumentParser("python -m bench.many_queues", description="Drain jobs that are spread over queues.")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--queues", type=_numbers, default=[1, 1000, 5000], help="how many, several with commas [1,1000,5000]")
    parser.add_argument("--jobs", type=int, default=100_000, help="in each drain [100000]")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    rates: dict[int, list[float]] = {queues: [] for queues in options.queues}
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-queues-") as folder,
        places(options.store, Path(folder)) as urls,
    ):
        for number in range(options.rounds):
            for queues, found in rates.items():
                found.append(measure(next(urls), queues, options.jobs))
                print(f"round {number + 1}: {queues:,} queues: {found[-1]:,.0f} jobs/s", flush=True)
    for queues, found in rates.items():
        ratios = [one / base for one, base in zip(found, rates[options.queues[0]], strict=True)]
        print(
            f"{queues:,} queues: {statistics.median(found):,.0f} jobs/s, {statistics.median(ratios):.2f} × {options.queues[0]:,}"
        )
    return 0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

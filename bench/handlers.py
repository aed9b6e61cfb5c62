"""``python -m bench.handlers``: how fast a worker drains jobs that do nothing, by the kind of their handlers, at default settings.

Each round drains each kind once, one after the other; a ratio is the median of the rounds' ratios. The rate is that of the finish times
of the jobs, so that the start of a process does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.prefetch import TRIM, rate
from bench.races import SERVER
from holdfast.testing.servers import PostgresServer

KINDS = {
    "async def": ("loop_app", "on_loop"),
    "def": ("thread_app", "in_thread"),
    "def in an App that has async def, too": ("mixed_app", "beside_others"),
    "process=True": ("process_app", "in_process"),
}
BULK = 5000
_FILL = """
import sys
import bench.handler_tasks
bench.handler_tasks.loop_app.migrate()
task = getattr(bench.handler_tasks, sys.argv[1])
for start in range(0, int(sys.argv[2]), {bulk}):
    task.enqueue_many([{{"number": number}} for number in range(start, start + {bulk})])
"""


def fill(url: str, task: str, jobs: int) -> None:
    """Make the tables, and enqueue jobs in bulk."""
    command = [sys.executable, "-c", _FILL.format(bulk=BULK), task, str(jobs)]
    subprocess.run(command, env={**os.environ, "HOLDFAST_URL": url}, check=True)


def drain(url: str, app: str, task: str, jobs: int) -> None:
    """Fill an empty store, and run ``holdfast worker`` until nothing is left."""
    fill(url, task, jobs)
    environment = {**os.environ, "HOLDFAST_URL": url}
    command = [sys.executable, "-m", "holdfast.cli", "worker", f"bench.handler_tasks:{app}", "--until-empty"]
    subprocess.run([*command, "--log-level", "error"], env=environment, check=True, capture_output=True)


def rate_in_file(path: Path) -> float:
    """Return the jobs per second between the first and the last twentieth; the file has their finish times in microseconds."""
    with sqlite3.connect(path) as connection:
        times = [at for (at,) in connection.execute("SELECT finished_at FROM holdfast_jobs ORDER BY finished_at")]
    left_out = int(len(times) * TRIM)
    return float((len(times) - 2 * left_out) / (times[-left_out - 1] - times[left_out]) * 1e6)


@contextmanager
def places(store: str, folder: Path) -> Iterator[Iterator[str]]:
    """Yield URLs of empty stores of one kind."""
    if store == "sqlite":
        yield (f"sqlite:///{folder}/{number}.db" for number in range(10_000))
        return
    with PostgresServer(is_durable=True, settings=SERVER, data=folder / "data") as server:
        yield (server.create_database() for _ in range(10_000))


def measure(url: str, app: str, task: str, jobs: int) -> float:
    """Return the rate of one drain."""
    drain(url, app, task, jobs)
    return rate_in_file(Path(url.removeprefix("sqlite:///"))) if url.startswith("sqlite") else asyncio.run(rate(url))


def main(arguments: Sequence[str]) -> int:
    """Measure and print; a benchmark measures, and a test judges."""
    parser = argparse.ArgumentParser("python -m bench.handlers", description="Drain jobs of each kind of handler.")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--only", nargs="*", choices=[*KINDS], default=[*KINDS], metavar="KIND", help="of handlers [all]")
    parser.add_argument("--jobs", type=int, default=50_000, help="in each drain; a tenth in processes [50000]")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    rates: dict[str, list[float]] = {kind: [] for kind in options.only}
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-handlers-") as folder,
        places(options.store, Path(folder)) as urls,
    ):
        for number in range(options.rounds):
            for kind in options.only:
                app, task = KINDS[kind]
                jobs = options.jobs if kind != "process=True" else max(BULK, options.jobs // 10 // BULK * BULK)
                rates[kind].append(measure(next(urls), app, task, jobs))
                print(f"round {number + 1}: {kind}: {rates[kind][-1]:,.0f} jobs/s", flush=True)
    for kind, found in rates.items():
        ratios = [one / base for one, base in zip(found, rates[options.only[0]], strict=True)]
        print(f"{kind}: {statistics.median(found):,.0f} jobs/s, {statistics.median(ratios):.2f} × {options.only[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

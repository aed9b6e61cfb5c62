"""``python -m bench.costs``: what idle workers and what jobs cost a PostgreSQL server and the machine: CPU, write-ahead log, memory.

Each number of workers runs under one supervisor at default settings, and nothing is enqueued; CPU is a share of one core. Then jobs that do
nothing are enqueued in bulk, and one worker runs them; CPU and log are those of one job.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from bench.figures import until
from bench.handlers import fill, places

WARM_UP, LOOK, TIMEOUT = 30.0, 0.2, 300.0
END = 60.0
_IS_BUSY = "SELECT EXISTS (SELECT FROM holdfast.pending) OR EXISTS (SELECT FROM holdfast.active)"
_FACTS = """
SELECT xact_commit AS commits, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections
FROM pg_stat_database WHERE datname = current_database()
"""


def below(pid: int) -> list[int]:
    """List a process and all below it."""
    try:
        children = [int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []
    return [pid, *(each for child in children for each in below(child))]


def threads_of(pid: int) -> list[Path]:
    """List the threads of a process; none if it has ended."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return []


def cpu_seconds(root: int) -> float:
    """Return the CPU time that a process and all below it have used so far, those that have ended included."""
    ended = sum(map(int, Path(f"/proc/{root}/stat").read_text().rpartition(")")[2].split()[13:15])) / os.sysconf("SC_CLK_TCK")
    threads = [thread for pid in below(root) for thread in threads_of(pid)]
    return ended + sum(map(nanoseconds, threads)) / 1e9


def nanoseconds(thread: Path) -> int:
    """Return the CPU time of a thread; 0 if it has ended in this moment."""
    try:
        return int((thread / "schedstat").read_text().split()[0])
    except FileNotFoundError:
        return 0


def megabytes(pids: Sequence[int]) -> float:
    """Return the memory of these processes, with what they share divided among them."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


@contextmanager
def crew(url: str, workers: int) -> Iterator[int]:
    """Run one supervisor with that many workers, and yield its process id."""
    command = [sys.executable, "-m", "holdfast.cli", "worker", "bench.handler_tasks:loop_app", "--log-level", "error"]
    process = subprocess.Popen(
        [*command, "--processes", str(workers)], env={**os.environ, "HOLDFAST_URL": url}, stderr=subprocess.DEVNULL
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(END)


class Meter:
    """What a server and the processes of a crew have used since this was made."""

    def __init__(self, connection: asyncpg.Connection, facts: Mapping[str, int], postmaster: int, supervisor: int) -> None:
        self._connection, self._facts, self._roots = connection, facts, (postmaster, supervisor)
        self._began, self._cpu = time.perf_counter(), [cpu_seconds(root) for root in self._roots]

    @classmethod
    async def start(cls, connection: asyncpg.Connection, supervisor: int) -> Meter:
        """Return a meter that starts now."""
        folder = await connection.fetchval("SHOW data_directory")
        postmaster = int(await asyncio.to_thread(lambda: Path(folder, "postmaster.pid").read_text().split()[0]))
        return cls(connection, await facts(connection), postmaster, supervisor)

    async def read(self) -> tuple[float, dict[str, float]]:
        """Return the seconds, and what was used in them."""
        seconds = time.perf_counter() - self._began
        server, ours = (cpu_seconds(root) - before for root, before in zip(self._roots, self._cpu, strict=True))
        now = await facts(self._connection)
        used = {name: float(now[name] - self._facts[name]) for name in ("commits", "wal")}
        return seconds, {
            **used,
            "server": server,
            "ours": ours,
            "connections": now["connections"],
            "MB": megabytes(below(self._roots[1])),
        }


async def facts(connection: asyncpg.Connection) -> Mapping[str, int]:
    """Return the server's counters."""
    return dict(await connection.fetchrow(_FACTS) or {})


async def idle(url: str, workers: int, seconds: float) -> str:
    """Return a line with what that many idle workers cost."""
    await asyncio.to_thread(fill, url, "on_loop", 0)
    connection = await asyncpg.connect(url)
    with crew(url, workers) as supervisor:
        await until(lambda: len(below(supervisor)) > workers)
        await asyncio.sleep(WARM_UP)
        meter = await Meter.start(connection, supervisor)
        await asyncio.sleep(seconds)
        passed, used = await meter.read()
    await connection.close()
    shares = f"{workers:7} {used['server'] / passed:8.2%} {used['ours'] / passed:8.2%} {used['commits'] / passed:10.1f}"
    return f"{shares} {used['wal'] / passed / 1000:10.1f} {used['connections']:12.0f} {used['MB']:8.0f}"


async def busy(url: str, jobs: int) -> str:
    """Return a line with what one job costs, once many are enqueued in bulk and run by one worker."""
    await asyncio.to_thread(fill, url, "on_loop", 0)
    connection = await asyncpg.connect(url)
    meter = await Meter.start(connection, os.getpid())
    await asyncio.to_thread(fill, url, "on_loop", jobs)
    _, put = await meter.read()
    with crew(url, 1) as supervisor:
        meter = await Meter.start(connection, supervisor)
        async with asyncio.timeout(TIMEOUT):
            while await connection.fetchval(_IS_BUSY):  # noqa: ASYNC110 - what changes is in the database
                await asyncio.sleep(LOOK)
        _, run = await meter.read()
    await connection.close()
    parts = [
        f"{name} {used['server'] / jobs * 1e6:.1f} µs of the server, {used['wal'] / jobs:.0f} bytes of log"
        for name, used in (("enqueue", put), ("run", run))
    ]
    return f"a job: {'; '.join(parts)}, {run['ours'] / jobs * 1e6:.1f} µs of supervisor and worker"


def main(arguments: Sequence[str]) -> int:
    """Measure and print; a benchmark measures, and a test judges."""
    parser = argparse.ArgumentParser("python -m bench.costs", description="What idle workers and jobs cost.")
    parser.add_argument("--workers", default="1,8,64", help="numbers of workers [1,8,64]")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each number [30]")
    parser.add_argument("--jobs", type=int, default=50_000, help="that are enqueued and run [50000]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    print("workers   server  workers  commits/s     KB/s log  connections       MB")
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-costs-") as folder,
        places("postgres", Path(folder)) as urls,
    ):
        for workers in map(int, options.workers.split(",")):
            print(asyncio.run(idle(next(urls), workers, options.seconds)), flush=True)
        print(asyncio.run(busy(next(urls), options.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

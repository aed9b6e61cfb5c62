"""``python -m bench.schedules``: many schedules on supervisors whose clocks are wrong and that are killed; is it one job a tick?

Each supervisor is a separate process that only fires ticks, on a real PostgreSQL server. Every two seconds one of them is killed with
SIGKILL and replaced. In the end the stored jobs are compared with the ticks: the id of a tick's job follows from the tick.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from bench.races import SERVER
from holdfast import App, every
from holdfast._core.requests import JobFilter
from holdfast._core.schedule import Schedule
from holdfast._core.ticks import job_of, upcoming
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._engine.store_defaults import scheduling
from holdfast._engine.supervisor.scheduler import Scheduler
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import StoreUnavailable
from holdfast.opening import open_store, open_transport
from holdfast.settings import Settings
from holdfast.testing.servers import PostgresServer

PAGE = 1000
KILL_EVERY = 2.0
SKEW = 3600.0
"""Seconds by which the clocks of supervisors are wrong, at most."""


class WrongClock(SystemClock):
    """The machine's clocks, of which the wall clock is wrong by ``skew`` seconds."""

    def __init__(self, skew: float) -> None:
        self._skew = skew

    def wall(self) -> float:
        """Read the wall clock, wrong."""
        return super().wall() + self._skew


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return 1 if a tick has no job, or more than one."""
    options = _parser().parse_args(arguments)
    if options.supervise is not None:
        asyncio.run(_supervise(options.supervise, options.skew))
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-bench-") as folder,
        PostgresServer(is_durable=True, settings=SERVER, data=Path(folder) / "data") as server,
    ):
        return asyncio.run(_measure(server.create_database(), options))


async def _measure(url: str, options: argparse.Namespace) -> int:
    app = App(url)
    await app.amigrate()

    @app.task
    async def tick() -> None: ...

    for number in range(options.schedules):
        when = every(timedelta(seconds=options.every))
        await app.schedules.aset(f"{number:06}", when, tick.bind(), overlap="queue", catch_up="all")
    kills = await asyncio.to_thread(_fire, url, options)
    await app.aclose()
    store = open_store(Settings.of(url))
    try:
        known = (await scheduling(store).schedules()).found
        return _report(known, await _jobs(store), kills, options)
    finally:
        await store.close()


def _fire(url: str, options: argparse.Namespace) -> int:
    """Run supervisors for so long, and kill one of them again and again; return how many were killed."""
    running, kills, end = [_start(url) for _ in range(options.supervisors)], 0, time.monotonic() + options.seconds
    try:
        while time.monotonic() < end:
            time.sleep(KILL_EVERY)
            place = random.randrange(len(running))
            running[place].kill()
            running[place].wait()
            running[place] = _start(url)
            kills += 1
    finally:
        for process in running:
            process.kill()
            process.wait()
    return kills


def _start(url: str) -> subprocess.Popen[bytes]:
    skew = random.uniform(-SKEW, SKEW)
    return subprocess.Popen([sys.executable, "-m", "bench.schedules", "--supervise", url, "--skew", f"{skew:.0f}"])


async def _supervise(url: str, skew: float) -> None:
    settings = Settings.of(url)
    store, transport = open_store(settings), open_transport(settings)
    scheduler = Scheduler(Environment(store, transport, WrongClock(skew), SystemRandomness(), Events()), longest=5.0)
    while True:
        wait = 1.0
        with suppress(StoreUnavailable):
            wait = await scheduler.step()
        await asyncio.sleep(wait)


async def _jobs(store: Store) -> dict[UUID, datetime]:
    """Return when each job was stored."""
    found, before = dict[UUID, datetime](), None
    while page := await store.list(JobFilter(limit=PAGE, before=before)):
        found |= {row.id: row.created_at for row in page}
        before = page[-1].id
    return found


def _report(known: Sequence[Schedule], jobs: dict[UUID, datetime], kills: int, options: argparse.Namespace) -> int:
    ticks = {job_of(each.name, at, each.plan.edition): at for each in known for at in _fired(each)}
    late = sorted((jobs[job] - at).total_seconds() for job, at in ticks.items() if job in jobs)
    missing, extra = len(ticks.keys() - jobs.keys()), len(jobs.keys() - ticks.keys())
    print(f"{len(known)} schedules on {options.supervisors} supervisors with clocks ± {SKEW / 3600:g} h, {kills} killed")
    print(f"{len(ticks)} ticks, {len(jobs)} jobs; ticks without a job {missing}, jobs without a tick {extra}")
    print(
        f"a job is stored after its tick: p50 {_at(late, 0.5):.3f} s, p99 {_at(late, 0.99):.3f} s, slowest {_at(late, 1.0):.3f} s"
    )
    return int(bool(missing or extra))


def _fired(schedule: Schedule) -> list[datetime]:
    """Return all ticks up to the last one that the schedule was moved on from."""
    if schedule.last_tick is None:
        return []
    anchor, found = schedule.plan.anchor, list[datetime]()
    while not found or found[-1] < schedule.last_tick:
        found += upcoming(schedule.definition.when, anchor, found[-1] if found else anchor, 1)
    return found


def _at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.schedules", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many schedules; default 1000")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between the ticks of each; default 10")
    parser.add_argument("--supervisors", type=int, default=8, help="how many supervisors; default 8")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long; default 60")
    parser.add_argument("--folder", type=Path, help="where the server's data is; default: the temporary folder")
    parser.add_argument("--supervise", help=argparse.SUPPRESS)
    parser.add_argument("--skew", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

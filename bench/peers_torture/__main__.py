"""``python -m bench.peers_torture``: hold all trials side by side, print the table, leave it in ``bench/results``."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

from rich.console import Console

from bench.mongo import npm
from bench.peers_torture import report
from bench.peers_torture.catalogue import SETTINGS, Setting
from bench.peers_torture.redis import RedisServer
from bench.peers_torture.sight import MongoSight, RedisSight, Sight, TableSight
from bench.peers_torture.trial import JOBS, Fault, Place, Timing, Trial
from bench.peers_torture.verdict import Finding
from holdfast.testing.servers import MongoSet, PostgresServer, ServerMissing

RESULTS = Path(__file__).parents[1] / "results"
FAULTS: tuple[Fault, ...] = get_args(Fault)
STARTS = 4
Running = TypeVar("Running")
SERVER = {"max_connections": "1000"}


class Ground:
    """The servers, and a folder."""

    def __init__(self, folder: Path, postgres: PostgresServer, redis: RedisServer | None, mongo: MongoSet | None) -> None:
        self._folder = folder
        self._postgres = postgres
        self._redis = redis
        self._mongo = mongo

    def about(self) -> dict[str, str]:
        """Describe the machine and the servers."""
        return {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "postgres": self._postgres.sql("SHOW server_version"),
            "redis": self._redis.version() if self._redis else "not installed",
            "mongo": self._mongo.members[0].command("buildInfo")["version"] if self._mongo else "not installed",
        }

    def trial(self, setting: Setting, fault: Fault, pace: Timing) -> Trial:
        """Make a trial with a separate database."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        if setting.completed:
            url = self._postgres.create_database()
            look: Callable[[], Sight] = partial(TableSight, url, setting.completed, JOBS)
        elif setting.documents:
            assert self._mongo is not None
            url = self._mongo.create_database()
            look = partial(MongoSight, url, setting.documents)
        else:
            assert self._redis is not None
            url = self._redis.create_database()
            look = partial(RedisSight, url, JOBS)
        return Trial(setting, fault, Place(folder, url), pace, look)

    def can_hold(self, setting: Setting) -> bool:
        """Return whether what it needs is installed."""
        server = self._postgres if setting.completed else self._mongo if setting.documents else self._redis
        return setting.versions() is not None and server is not None


def main(arguments: Sequence[str]) -> int:
    """Hold the trials; return 0 for every finding: this reports, it does not judge. 1 if a trial could not be held."""
    options = _parser().parse_args(arguments)
    pace = Timing(steps=options.steps, window=options.window, settling=options.settling)
    settings = [each for each in SETTINGS if not options.only or {each.peer, each.title} & set(options.only)]
    console = Console(width=160 if not sys.stdout.isatty() else None)
    if any(each.npm for each in settings) and (problem := npm.install()):
        console.print(f"no peers of Node.js: {problem}")
    with _ground() as ground:
        about = ground.about() | {
            "jobs": f"{JOBS} of {pace.steps * pace.step:g} s on two workers",
            "window": f"{pace.window:g} s",
        }
        trials = [ground.trial(each, fault, pace) for each in settings if ground.can_hold(each) for fault in options.faults]
        found = asyncio.run(_hold(trials, Console(stderr=True)))
    findings = {each.title: {one.fault: one for one in found if one.setting == each.title} for each in settings}
    for name, text in about.items():
        console.print(f"{name:10} {text}", highlight=False)
    console.print(report.table(report.rows(settings, findings)))
    for path in report.write(options.results, about, settings, findings):
        console.print(f"written: {os.path.relpath(path)}", soft_wrap=True)
    return int(any(each.error for each in found))


async def _hold(trials: Sequence[Trial], log_line: Console) -> list[Finding]:
    """Hold all at once, but for their starts, which would starve each other; print a line about each that is over."""
    starts = asyncio.Semaphore(STARTS)

    async def hold(trial: Trial) -> Finding:
        found = await trial.run(starts)
        log_line.print(f"{found.fault:7} {found.setting}: {found.error or 'over'}", style="red" if found.error else "dim")
        return found

    return await asyncio.gather(*(hold(trial) for trial in trials))


@contextmanager
def _ground() -> Iterator[Ground]:
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-peers-") as folder,
        PostgresServer(is_durable=True, settings=SERVER) as postgres,
        _if_there(RedisServer) as redis,
        _if_there(MongoSet) as mongo,
    ):
        yield Ground(Path(folder), postgres, redis, mongo)


@contextmanager
def _if_there(kind: Callable[[], AbstractContextManager[Running]]) -> Iterator[Running | None]:
    try:
        server = kind()
    except ServerMissing:
        yield None
        return
    with server as running:
        yield running


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench.peers_torture", description="Kill and freeze workers of Holdfast and its peers."
    )
    peers = sorted({each.peer for each in SETTINGS})
    known = [*peers, *(each.title for each in SETTINGS)]
    help_of_only = f"any of {', '.join(peers)}, or the title of a row [all]"
    parser.add_argument("--only", nargs="*", metavar="PEER", choices=known, help=help_of_only)
    parser.add_argument("--faults", nargs="*", choices=FAULTS, default=FAULTS, help="[both]")
    parser.add_argument("--window", type=float, default=360.0, help="seconds in which jobs may begin again [360]")
    parser.add_argument("--steps", type=int, default=20, help="seconds that each job takes [20]")
    parser.add_argument("--settling", type=float, default=6.0, help="seconds that workers are left alone at first [6]")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures go [bench/results]")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

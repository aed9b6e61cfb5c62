"""The processes of a peer: one that calls, and its workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.compare.catalogue import Entry, Peer
from bench.compare.environments import DRIVERS

ROOT = Path(__file__).parents[2]
TIMEOUT = 90.0


class Stuck(Exception):
    """A process did not do what it was asked for; the end of its log."""


class Site(Struct, frozen=True):
    """One entry in a fresh, empty store."""

    peer: Peer
    entry: Entry
    command: tuple[str, ...]
    url: str
    folder: Path

    @property
    def reports(self) -> Path:
        """The file of the latencies."""
        return self.folder / "reports"

    def start(self, verb: str, *, processes: int = 1, number: int = 1) -> subprocess.Popen[str]:
        """Start a driver. The leader of a session, so that all that belongs to it can be killed."""
        order = {
            "url": self.url,
            "setting": self.entry.setting,
            "kind": self.entry.kind,
            "processes": processes,
            "number": number,
        }
        environment = {**os.environ, "BENCH_URL": self.url, "BENCH_SETTING": self.entry.setting, "BENCH_KIND": self.entry.kind}
        environment["BENCH_REPORTS"] = str(self.reports)
        if self.peer.packages:
            environment.pop("PYTHONPATH", None)
        else:
            environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
        program, *folders = self.command
        drivers = Path(folders[0]) if folders else DRIVERS
        words = [program, str(drivers / self.peer.driver), verb, json.dumps(order)]
        with (self.folder / f"{verb}{number}.log").open("ab") as log:
            pipe = subprocess.PIPE if verb == "call" else subprocess.DEVNULL
            return subprocess.Popen(
                words, cwd=drivers, env=environment, stdin=pipe, stdout=pipe, stderr=log, text=True, start_new_session=True
            )

    def log(self) -> str:
        """Return the ends of all its logs."""
        return "\n".join(each.read_text(errors="replace")[-600:] for each in sorted(self.folder.glob("*.log")))


class Caller:
    """The process that enqueues."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._process = site.start("call")
        self._answer()

    def act(self, act: str, **order: Any) -> float:
        """Ask for an act. Return the seconds that it took."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"act": act, **order}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        end(self._process, signal.SIGKILL)

    def _answer(self) -> float:
        assert self._process.stdout is not None
        alarm = threading.Timer(TIMEOUT, self._process.kill)
        alarm.start()
        try:
            for line in self._process.stdout:
                if line.startswith('{"bench"'):
                    return float(json.loads(line)["bench"])
        finally:
            alarm.cancel()
        raise Stuck(f"the caller ended:\n{self._site.log()}")


@contextmanager
def calling(site: Site) -> Iterator[Caller]:
    """Have a process that enqueues."""
    caller = Caller(site)
    try:
        yield caller
    finally:
        caller.close()


@contextmanager
def working(site: Site, processes: int) -> Iterator[list[int]]:
    """Have as many worker processes; their ids."""
    if site.peer.scales:
        workers = [site.start("work", processes=processes)]
    else:
        workers = [site.start("work", number=number + 1) for number in range(processes)]
    try:
        yield [worker.pid for worker in workers]
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            end(worker)


def stop(workers: list[int]) -> None:
    """Stop workers and all processes below them where they are."""
    for process in _tree(workers):
        _signal(process, signal.SIGSTOP)


def go_on(workers: list[int]) -> None:
    """Continue stopped workers, the children first, so that no parent misses them."""
    for process in reversed(_tree(workers)):
        _signal(process, signal.SIGCONT)


def _tree(roots: list[int]) -> list[int]:
    """Return processes and all their descendants, parents first."""
    parents: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = each.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(each.parent.name))
    found = list(roots)
    for process in found:
        found += parents.get(process, [])
    return found


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass  # it has ended


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> None:
    """Wait for the end of a process, not for long, and kill what is left of its session."""
    process.send_signal(number)
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the whole session has ended
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()

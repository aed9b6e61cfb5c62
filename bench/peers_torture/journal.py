"""What handlers write down: a line when a run begins, after each step of work, and when it ends.

Times are the machine's monotonic clock, which is the same for all its processes.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

FILE, WORKER, STEPS, STEP = "PEERS_JOURNAL", "PEERS_WORKER", "PEERS_STEPS", "PEERS_STEP"


class Run(Struct):
    """One run of a job by one process: ``end`` is how it ended, ``None`` is not at all."""

    job: int
    name: str
    worker: str
    pid: int
    start: float
    last: float
    end: str | None = None


async def work(job: int) -> None:
    """Work in steps of equal length, for handlers that are coroutines."""
    with _written(job) as step:
        for _ in range(_steps()):
            await asyncio.sleep(_seconds())
            step()


def work_blocking(job: int) -> None:
    """Do the same work in handlers that are functions."""
    with _written(job) as step:
        for _ in range(_steps()):
            time.sleep(_seconds())
            step()


def say_up() -> None:
    """Write that this worker has loaded its code."""
    _write("up", 0, "-")


@contextmanager
def _written(job: int) -> Iterator[Callable[[], None]]:
    name = secrets.token_hex(4)
    _write("start", job, name)
    try:
        yield lambda: _write("step", job, name)
    except BaseException:
        _write("stopped", job, name)
        raise
    _write("done", job, name)


def _write(event: str, job: int, name: str) -> None:
    line = f"{time.monotonic():.6f} {event} {job} {name} {os.environ[WORKER]} {os.getpid()}\n"
    file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())  # one write, so that lines of several processes never mix
    os.close(file)


def _steps() -> int:
    return int(os.environ[STEPS])


def _seconds() -> float:
    return float(os.environ[STEP])


def workers_up(file: Path) -> set[str]:
    """Return which workers have loaded their code."""
    return {words[4] for words in _lines(file) if words[1] == "up"}


def runs_in(file: Path) -> list[Run]:
    """Return every run, in the order in which they began."""
    runs: dict[str, Run] = {}
    for at, event, job, name, worker, pid in _lines(file):
        if event == "start":
            runs[name] = Run(int(job), name, worker, int(pid), float(at), float(at))
        elif event != "up":
            runs[name].last = float(at)
            runs[name].end = event if event in ("done", "stopped") else None
    return list(runs.values())


def _lines(file: Path) -> Iterator[list[str]]:
    if file.exists():
        text = file.read_text(encoding="ascii")
        yield from (line.split() for line in text[: text.rfind("\n") + 1].splitlines())

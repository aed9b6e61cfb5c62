"""What is measured: each figure is one act on one peer, timed from outside, the same for all."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from bench.peers import Command, Peer, Queue, Runner

ROOT = Path(__file__).parents[1]
POLL = 0.005
TIMEOUT = 120.0


class Sizes(Struct, frozen=True, kw_only=True):
    """How many jobs each figure takes; all of them are drained."""

    one_by_one: int = 500
    together: int = 2_000
    callers: int = 100
    bulk: int = 10_000
    pings: int = 50

    def part(self, share: float) -> Sizes:
        """Reduce the size for a figure that would take too long over all of it, or for a quick look."""
        return Sizes(
            one_by_one=max(1, round(self.one_by_one * share)),
            together=max(self.callers, round(self.together * share)),
            bulk=max(1, round(self.bulk * share)),
            pings=max(2, round(self.pings * share)),
        )


Figures = dict[str, float]


async def rate_of(count: int, act: Awaitable[None]) -> float:
    """Return the jobs per second."""
    started = time.perf_counter()
    await act
    return count / (time.perf_counter() - started)


async def enqueues(peer: Peer, sizes: Sizes) -> Figures:
    """Measure enqueues one by one; what comes after it is for whole queues."""
    return {"one by one": await rate_of(sizes.one_by_one, peer.enqueue_one_by_one(sizes.one_by_one))}


async def crowds(peer: Queue, sizes: Sizes) -> Figures:
    """Many callers, and many jobs of one."""
    return {
        "together": await rate_of(sizes.together, peer.enqueue_together(sizes.together, sizes.callers)),
        "bulk": await rate_of(sizes.bulk, peer.enqueue_in_bulk(sizes.bulk)),
    }


async def drain(peer: Runner, pause: float = POLL) -> Figures:
    """Measure one worker process, from the moment its first job waits no more to the one when all have run: not its start."""
    first, count = peer.first(), peer.waiting()
    async with running(peer):
        return await timed_drain(peer, first, count, pause)


async def timed_drain(peer: Runner, first: object, count: int, pause: float = POLL) -> Figures:
    """Measure workers that run already; ``pause``: the seconds between two looks."""
    await until(lambda: peer.has_begun(first))
    started = time.perf_counter()
    await until(peer.is_drained, pause)
    return {"drain": count / (time.perf_counter() - started)}


async def latencies(peer: Runner, sizes: Sizes) -> Figures:
    """Measure from the call of enqueue to the first line of the handler in an idle worker; in milliseconds."""
    reports = peer.place.file(".reports")
    await peer.ping()
    async with running(peer, reports):
        await until(lambda: len(_lines(reports)) == 1)
        os.sync()  # no figure includes the disk writes of what was before
        for n in range(sizes.pings):
            await asyncio.sleep(0.01 + 0.02 * (n * 0.618 % 1))  # never in step with a peer's polling
            await peer.ping()
        await until(lambda: len(_lines(reports)) > sizes.pings)
    found = sorted(float(line) * 1000 for line in _lines(reports)[1:])
    return {"p50": statistics.median(found), "p99": found[int(len(found) * 0.99)]}


def _lines(reports: Path) -> list[str]:
    return reports.read_text().splitlines() if reports.exists() else []


@asynccontextmanager
async def running(peer: Runner, reports: Path | None = None) -> AsyncIterator[None]:
    """Run one worker process of the peer; its output is shown if something goes wrong."""
    command, output = peer.worker(reports), peer.place.file(".log")
    with output.open("wb") as log:
        worker = _start(command, log)
    try:
        yield
    except TimeoutError as error:
        raise TimeoutError(f"{error}; the end of the worker's log:\n{output.read_text()[-4000:]}") from None
    finally:
        worker.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(worker.wait, 20)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _start(command: Command, log: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **command.environment}
    return subprocess.Popen(command.arguments, cwd=ROOT, env=environment, stdout=log, stderr=log)


async def until(is_so: Callable[[], bool], pause: float = POLL) -> None:
    """Look often, but not so often that it costs the worker."""
    timeout = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > timeout:
            raise TimeoutError(f"nothing for {TIMEOUT:g} s")
        await asyncio.sleep(pause)

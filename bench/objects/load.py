"""Callers and workers for a number of seconds, and what they got done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import count

from msgspec import Struct

from bench.objects.queues import Queue, Worker


class Throughput(Struct, frozen=True):
    """What was done in how many seconds. ``waits``: the seconds of each call, sorted."""

    done: int
    seconds: float
    waits: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The operations a second."""
        return self.done / self.seconds

    @property
    def usual(self) -> float:
        """The wait that half of the calls did not exceed."""
        return self.waits[len(self.waits) // 2]


async def enqueue(queue: Queue, callers: int, seconds: float) -> Throughput:
    """Let callers enqueue one job after the other."""
    numbers, waits, began = count(), list[float](), time.perf_counter()

    async def call() -> None:
        while (asked := time.perf_counter()) < began + seconds:
            await queue.enqueue(next(numbers))
            waits.append(time.perf_counter() - asked)

    await asyncio.gather(*(call() for _ in range(callers)))
    return Throughput(len(waits), time.perf_counter() - began, tuple(sorted(waits)))


async def fill(queue: Queue, jobs: int, callers: int = 500) -> None:
    """Enqueue this number of jobs."""
    numbers = iter(range(jobs))

    async def call() -> None:
        for number in numbers:
            await queue.enqueue(number)

    await asyncio.gather(*(call() for _ in range(callers)))


async def drain(workers: Sequence[Worker], seconds: float) -> Throughput:
    """Let workers run no-op jobs until there is none, or the time is over."""
    done, waits, began = 0, list[float](), time.perf_counter()

    async def work(worker: Worker) -> None:
        nonlocal done
        while (asked := time.perf_counter()) < began + seconds and (jobs := await worker.exchange()):
            done += len(jobs)
            waits.append(time.perf_counter() - asked)

    await asyncio.gather(*(work(each) for each in workers))
    return Throughput(done, time.perf_counter() - began, tuple(sorted(waits)))

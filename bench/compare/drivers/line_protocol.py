"""What every Python driver has in common. Only the standard library: each driver runs in its peer's environment.

    python run_NAME.py call ORDER     opens the queue, then answers each JSON line of stdin with one: the seconds that the act took
    python run_NAME.py work ORDER     is a worker until SIGTERM

ORDER is a JSON object: url, setting, kind, processes, number. Handlers report latencies to the file ``BENCH_REPORTS``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

BULK = 1000
HERE = Path(__file__).parent


class Driver:
    """One peer. ``one`` and ``many`` may be coroutine functions or plain ones, as its callers would call it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.url: str = order["url"]
        self.is_best: bool = order["setting"] == "best"
        self.kind: str = order["kind"]
        self.processes: int = order["processes"]
        self.number: int = order["number"]

    async def open(self) -> None:
        """Make the tables, and be ready to enqueue."""

    one: Callable[[str, dict[str, Any]], Any]
    """Enqueue one job of a task with this payload; durable when it returns."""

    many: Callable[[str, list[dict[str, Any]]], Any]
    """Enqueue as many as the peer takes in one call; a peer without such a call enqueues one after the other."""

    def work(self) -> None:
        """Run one worker until SIGTERM."""


@lru_cache
def _reports() -> IO[str]:
    return open(os.environ["BENCH_REPORTS"], "a", buffering=1, encoding="ascii")


def report(sent: float) -> None:
    """Write how long a job took to get to its handler."""
    _reports().write(f"{time.monotonic() - sent}\n")


def run(kind: type[Driver]) -> None:
    """Be the program that the arguments ask for."""
    driver = kind(json.loads(sys.argv[2]))
    if sys.argv[1] == "work":
        driver.work()
    else:
        asyncio.run(_call(driver))


def execute(*words: str) -> None:
    """Become the peer's command line, which imports its tasks from this folder."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.execv(sys.executable, [sys.executable, *words])


def payloads(count: int, size: int) -> Iterator[dict[str, Any]]:
    """Yield ``{"n": 0}`` and so on, padded to about that many bytes."""
    pad = {"pad": "x" * size} if size else {}
    return ({"n": n, **pad} for n in range(count))


async def _call(driver: Driver) -> None:
    await driver.open()
    acts: dict[str, Callable[..., Awaitable[None]]] = {"enqueue": _enqueue, "bulk": _bulk, "ping": _ping}
    answer(0.0)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        act = acts[order.pop("act")]
        began = time.monotonic()
        await act(driver, **order)
        answer(time.monotonic() - began)
    os._exit(0)


def answer(seconds: float) -> None:
    """Answer on stdout, where libraries may print, too: the reader looks for the first key."""
    print(json.dumps({"bench": seconds}), flush=True)


async def _enqueue(driver: Driver, *, count: int, callers: int, size: int = 0) -> None:
    source = payloads(count, size)
    if inspect.iscoroutinefunction(driver.one):

        async def call() -> None:
            for payload in source:
                await driver.one("noop", payload)

        await asyncio.gather(*(call() for _ in range(callers)))
    elif callers == 1:
        for payload in source:
            driver.one("noop", payload)
    else:
        parts = [payloads(count // callers, size) for _ in range(callers)]
        with ThreadPoolExecutor(callers) as threads:
            list(threads.map(lambda part: [driver.one("noop", each) for each in part], parts))


async def _bulk(driver: Driver, *, count: int, size: int = 0) -> None:
    source = list(payloads(count, size)) if not size else None
    for start in range(0, count, BULK):
        some = source[start : start + BULK] if source else list(payloads(min(BULK, count - start), size))
        done = driver.many("noop", some)
        if inspect.isawaitable(done):
            await done


async def _ping(driver: Driver, *, count: int, rate: float) -> None:
    """Send at times that are in step with no peer's polling; a call that takes long does not delay the next one of an async peer."""
    due, calls = time.monotonic(), []
    for n in range(count):
        due += (0.5 + n * 0.618 % 1) / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        sent = driver.one("ping", {"sent": time.monotonic()})
        if inspect.isawaitable(sent):
            calls.append(asyncio.ensure_future(sent))
    await asyncio.gather(*calls)

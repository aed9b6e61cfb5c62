"""chancy on psycopg."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import uvloop  # type: ignore[import-not-found, unused-ignore]
from chancy import Chancy as Library  # type: ignore[import-not-found, unused-ignore]
from chancy import Queue, Worker, job  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, report, run  # type: ignore[import-not-found, unused-ignore]

LOG = logging.getLogger("chancy")  # warnings and errors, as of all others


def _noop(*, n: int, pad: str = "") -> None:
    pass


def _ping(*, sent: float) -> None:
    report(sent)


async def _noop_on_loop(*, n: int, pad: str = "") -> None:
    pass


async def _ping_on_loop(*, sent: float) -> None:
    report(sent)


for _each in (_noop, _ping, _noop_on_loop, _ping_on_loop):
    _each.__module__ = "run_chancy"  # as its processes import them
PLAIN: dict[str, Any] = {"noop": job()(_noop), "ping": job()(_ping)}
ON_LOOP: dict[str, Any] = {"noop": job()(_noop_on_loop), "ping": job()(_ping_on_loop)}


class Chancy(Driver):  # type: ignore[misc, unused-ignore]
    """Its awaited calls."""

    async def open(self) -> None:
        self._app = Library(self.url)
        await self._app.__aenter__()
        await self._app.migrate()
        executors = {
            "async": {"executor": Library.Executor.Async, "concurrency": 1000, "eager_polling": True},
            "def": {"executor": Library.Executor.Threaded, "concurrency": 10, "eager_polling": True},
            "process": {},
        }
        await self._app.declare(Queue("default", **executors[self.kind]))
        self._tasks = ON_LOOP if self.kind == "async" else PLAIN

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await self._app.push(self._tasks[task].job.with_kwargs(**payload))

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        jobs = [self._tasks[task].job.with_kwargs(**each) for each in payloads]
        async for _ in self._app.push_many(jobs):
            pass

    def work(self) -> None:
        if self.is_best:
            uvloop.run(self._work())
        else:
            asyncio.run(self._work())

    async def _work(self) -> None:
        async with Library(self.url, log=LOG) as app, Worker(app) as worker:
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    run(Chancy)

"""Oban for Python, embedded as its guide shows."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, report, run  # type: ignore[import-not-found, unused-ignore]
from oban import Oban as Library  # type: ignore[import-not-found, unused-ignore]
from oban import worker  # type: ignore[import-not-found, unused-ignore]
from oban.schema import install  # type: ignore[import-not-found, unused-ignore]


class Noop:
    """Does nothing."""

    async def process(self, job: Any) -> None:
        pass


class Ping:
    """Reports how long the job took to get here."""

    async def process(self, job: Any) -> None:
        report(job.args["sent"])


TASKS: dict[str, Any] = {"noop": worker(queue="default")(Noop), "ping": worker(queue="default")(Ping)}


class Oban(Driver):  # type: ignore[misc, unused-ignore]
    """Its awaited calls."""

    async def open(self) -> None:
        pool = await Library.create_pool(self.url)
        await install(pool)
        self._client = Library(pool=pool)
        await self._client.__aenter__()

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await self._client.enqueue(TASKS[task].new(payload))

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        await self._client.enqueue_many([TASKS[task].new(each) for each in payloads])

    def work(self) -> None:
        if self.is_best:
            uvloop.run(self._work())
        else:
            asyncio.run(self._work())

    async def _work(self) -> None:
        pool = await Library.create_pool(self.url)
        async with Library(pool=pool, queues={"default": 100 if self.is_best else 10}):
            await asyncio.Event().wait()


if __name__ == "__main__":
    run(Oban)

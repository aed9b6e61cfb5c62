"""SAQ on PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, report, run  # type: ignore[import-not-found, unused-ignore]
from saq import Queue, Worker  # type: ignore[import-not-found, unused-ignore]


async def _noop(context: Any, *, n: int, pad: str = "") -> None:
    pass


async def _ping(context: Any, *, sent: float) -> None:
    report(sent)


class Saq(Driver):  # type: ignore[misc, unused-ignore]
    """Its awaited calls. It has no call for many jobs."""

    async def open(self) -> None:
        self._queue = Queue.from_url(self.url)
        await self._queue.connect()

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await self._queue.enqueue(task, **payload)

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        for payload in payloads:
            await self._queue.enqueue(task, **payload)

    def work(self) -> None:
        if self.is_best:
            uvloop.run(self._work())
        else:
            asyncio.run(self._work())

    async def _work(self) -> None:
        queue = Queue.from_url(self.url)
        await queue.connect()
        more = {"concurrency": 100} if self.is_best else {}
        await Worker(queue, [("noop", _noop), ("ping", _ping)], **more).start()


if __name__ == "__main__":
    run(Saq)

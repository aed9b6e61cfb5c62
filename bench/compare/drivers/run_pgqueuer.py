"""pgqueuer on asyncpg."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import asyncpg
import uvloop  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, report, run  # type: ignore[import-not-found, unused-ignore]
from pgqueuer import PgQueuer as Library
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

CONNECTIONS, BATCH = 4, 1000


def _plain_noop(job: Any) -> None:
    json.loads(job.payload)


async def _noop(job: Any) -> None:
    json.loads(job.payload)


async def _noop_in_thread(job: Any) -> None:
    await asyncio.to_thread(_plain_noop, job)  # so its error message advises


async def _ping(job: Any) -> None:
    report(json.loads(job.payload)["sent"])


class PgQueuer(Driver):  # type: ignore[misc, unused-ignore]
    """Through its ``Queries``, awaited."""

    async def open(self) -> None:
        pool = await asyncpg.create_pool(self.url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        self._queries = Queries(AsyncpgPoolDriver(pool))
        await self._queries.install()
        if self.is_best:
            await self._queries.optimize_autovacuum()

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await self._queries.enqueue(task, json.dumps(payload).encode())

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        count = len(payloads)
        await self._queries.enqueue([task] * count, [json.dumps(each).encode() for each in payloads], [0] * count)

    def work(self) -> None:
        if self.is_best:
            uvloop.run(self._work())
        else:
            asyncio.run(self._work())

    async def _work(self) -> None:
        if self.is_best:
            pool = await asyncpg.create_pool(self.url, min_size=CONNECTIONS, max_size=CONNECTIONS)
            worker = Library(AsyncpgPoolDriver(pool))
        else:
            worker = Library(AsyncpgDriver(await asyncpg.connect(self.url)))
        noop = _noop_in_thread if self.kind == "def" else _noop
        for name, handler in (("noop", noop), ("ping", _ping)):
            entrypoint: Any = worker.entrypoint(name)
            entrypoint(handler)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.shutdown.set)
        await (worker.run(batch_size=BATCH) if self.is_best else worker.run())


if __name__ == "__main__":
    run(PgQueuer)

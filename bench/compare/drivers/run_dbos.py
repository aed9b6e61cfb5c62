"""DBOS: a queue of workflows without steps."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, cast

from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, report, run  # type: ignore[import-not-found, unused-ignore]

QUEUE = "bench"


async def _noop(n: int, pad: str = "") -> None:
    pass


async def _ping(sent: float) -> None:
    report(sent)


TASKS: dict[str, Any] = {"noop": DBOS.workflow(name="noop")(_noop), "ping": DBOS.workflow(name="ping")(_ping)}


class Dbos(Driver):  # type: ignore[misc, unused-ignore]
    """Its awaited calls. It has no call for many workflows."""

    def _launch(self, *, listens: bool) -> None:
        where = {"name": "bench", "system_database_url": self.url, "application_version": "1", "log_level": "ERROR"}
        DBOS(config=cast(Any, where))
        if not listens:
            DBOS.listen_queues([])
        DBOS.launch()
        best: dict[str, Any] = {"worker_concurrency": 100, "polling_interval_sec": 0.1} if self.is_best else {}
        DBOS.register_queue(QUEUE, **best)

    async def open(self) -> None:
        await asyncio.to_thread(self._launch, listens=False)

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await DBOS.enqueue_workflow_async(QUEUE, TASKS[task], **payload)

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        for payload in payloads:
            await DBOS.enqueue_workflow_async(QUEUE, TASKS[task], **payload)

    def work(self) -> None:
        self._launch(listens=True)
        signal.pause()


if __name__ == "__main__":
    run(Dbos)

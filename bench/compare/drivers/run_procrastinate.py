"""procrastinate on psycopg."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, report, run  # type: ignore[import-not-found, unused-ignore]
from procrastinate import App, PsycopgConnector


def _noop(n: int, pad: str = "") -> None:
    pass


def _ping(sent: float) -> None:
    report(sent)


async def _noop_on_loop(n: int, pad: str = "") -> None:
    pass


async def _ping_on_loop(sent: float) -> None:
    report(sent)


class Procrastinate(Driver):  # type: ignore[misc, unused-ignore]
    """Its awaited calls."""

    def _app(self) -> Any:
        sizes: dict[str, Any] = {"min_size": 10, "max_size": 10} if self.is_best else {}
        app = App(connector=PsycopgConnector(conninfo=self.url, **sizes))
        noop, ping = (_noop, _ping) if self.kind == "def" else (_noop_on_loop, _ping_on_loop)
        for name, handler in (("noop", noop), ("ping", ping)):
            task: Any = app.task(name=name)
            task(handler)
        return app

    async def open(self) -> None:
        self._opened = self._app()
        await self._opened.open_async()
        await self._opened.schema_manager.apply_schema_async()

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await self._opened.tasks[task].defer_async(**payload)

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        await self._opened.tasks[task].batch_defer_async(*payloads)

    def work(self) -> None:
        if self.is_best:
            uvloop.run(self._work())
        else:
            asyncio.run(self._work())

    async def _work(self) -> None:
        app = self._app()
        async with app.open_async():
            await app.run_worker_async(**({"concurrency": 20} if self.is_best else {}))


if __name__ == "__main__":
    run(Procrastinate)

"""Holdfast through its front door; its workers import this file."""

from __future__ import annotations

import os
from typing import Any

from line_protocol import Driver, execute, report, run  # type: ignore[import-not-found, unused-ignore]

from holdfast import App

app = App(os.environ.get("BENCH_URL", "memory://"))


async def _noop(n: int, pad: str = "") -> None:
    pass


async def _ping(sent: float) -> None:
    report(sent)


def _plain_noop(n: int, pad: str = "") -> None:
    pass


def _plain_ping(sent: float) -> None:
    report(sent)


_KIND = os.environ.get("BENCH_KIND", "async")
_HANDLERS: tuple[Any, Any] = (_noop, _ping) if _KIND == "async" else (_plain_noop, _plain_ping)
noop, ping = (
    app.task(name=name, process=_KIND == "process")(each) for name, each in zip(("noop", "ping"), _HANDLERS, strict=True)
)
_TASKS: dict[str, Any] = {"noop": noop, "ping": ping}


class Holdfast(Driver):  # type: ignore[misc, unused-ignore]
    """Its awaited calls."""

    async def open(self) -> None:
        await app.amigrate()

    async def one(self, task: str, payload: dict[str, Any]) -> None:
        await _TASKS[task].aenqueue(**payload)

    async def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        await _TASKS[task].aenqueue_many(payloads)

    def work(self) -> None:
        more = ["--concurrency", "1000"] if self.is_best else []
        words = ["worker", "run_holdfast:app", "--log-level", "warning", "--processes", str(self.processes)]
        execute("-m", "holdfast.cli", *words, *more)


if __name__ == "__main__":
    run(Holdfast)

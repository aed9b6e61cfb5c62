"""huey on SQLite; its consumer imports this file."""

from __future__ import annotations

import os
from typing import Any

from huey import SqliteHuey  # type: ignore[import-untyped, unused-ignore]
from line_protocol import Driver, execute, report, run  # type: ignore[import-not-found, unused-ignore]

IS_BEST = os.environ.get("BENCH_SETTING") == "best"
huey: Any = SqliteHuey(
    "bench",
    filename=os.environ.get("BENCH_URL", ":memory:").removeprefix("sqlite:///"),
    fsync=True,
    timeout=30,
    results=not IS_BEST,
)


def _noop(n: int, pad: str = "") -> None:
    pass


def _ping(sent: float) -> None:
    report(sent)


_noop.__module__ = _ping.__module__ = "run_huey"  # as the consumer imports them: it is in their names
TASKS: dict[str, Any] = {"noop": huey.task(name="noop")(_noop), "ping": huey.task(name="ping")(_ping)}


class Huey(Driver):  # type: ignore[misc, unused-ignore]
    """Its calls block."""

    def one(self, task: str, payload: dict[str, Any]) -> None:
        TASKS[task](**payload)

    def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        for payload in payloads:
            TASKS[task](**payload)

    def work(self) -> None:
        best = ["--delay", "0.01", "--max-delay", "0.01", "--no-periodic"] if self.is_best else []
        kind = ["--worker-type", "process", "--workers", "2"] if self.kind == "process" else []
        execute("-m", "huey.bin.huey_consumer", "run_huey.huey", "--quiet", *best, *kind)


if __name__ == "__main__":
    run(Huey)

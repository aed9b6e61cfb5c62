"""Dramatiq on Redis; its workers import this file."""

from __future__ import annotations

import os
from typing import Any

import dramatiq  # type: ignore[import-not-found, unused-ignore]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found, unused-ignore]
from line_protocol import Driver, execute, report, run  # type: ignore[import-not-found, unused-ignore]

dramatiq.set_broker(RedisBroker(url=os.environ.get("BENCH_URL")))


def _noop(n: int, pad: str = "") -> None:
    pass


def _ping(sent: float) -> None:
    report(sent)


TASKS: dict[str, Any] = {
    "noop": dramatiq.actor(_noop, actor_name="noop"),
    "ping": dramatiq.actor(_ping, actor_name="ping"),
}


class Dramatiq(Driver):  # type: ignore[misc, unused-ignore]
    """Its calls block."""

    def one(self, task: str, payload: dict[str, Any]) -> None:
        TASKS[task].send(**payload)

    def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        for payload in payloads:
            TASKS[task].send(**payload)

    def work(self) -> None:
        if self.is_best:
            os.environ["dramatiq_queue_prefetch"] = "1000"  # noqa: SIM112 - so its documentation spells it
        execute("-m", "dramatiq", "run_dramatiq", "--processes", str(self.processes), "--threads", "8")


if __name__ == "__main__":
    run(Dramatiq)

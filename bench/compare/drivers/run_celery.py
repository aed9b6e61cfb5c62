"""Celery on Redis; its workers import this file."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery as Library  # type: ignore[import-untyped, import-not-found, unused-ignore]
from line_protocol import Driver, execute, report, run  # type: ignore[import-not-found, unused-ignore]

app: Any = Library("bench", broker=os.environ.get("BENCH_URL"))
app.conf.broker_connection_retry_on_startup = True
if os.environ.get("BENCH_SETTING") == "best":
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=128)


def _noop(n: int, pad: str = "") -> None:
    pass


def _ping(sent: float) -> None:
    report(sent)


TASKS: dict[str, Any] = {"noop": app.task(name="noop")(_noop), "ping": app.task(name="ping")(_ping)}


class Celery(Driver):  # type: ignore[misc, unused-ignore]
    """Its calls block."""

    def one(self, task: str, payload: dict[str, Any]) -> None:
        TASKS[task].apply_async(kwargs=payload)

    def many(self, task: str, payloads: list[dict[str, Any]]) -> None:
        for payload in payloads:
            TASKS[task].apply_async(kwargs=payload)

    def work(self) -> None:
        more = ["--without-gossip", "--without-mingle", "--without-heartbeat"] if self.is_best else []
        pool = ["--pool", "threads", "--concurrency", "8"] if self.kind == "def" else []
        words = ["-A", "run_celery", "worker", "--loglevel", "ERROR", "-n", f"worker{self.number}@%h"]
        execute("-m", "celery", *words, *more, *pool)


if __name__ == "__main__":
    run(Celery)

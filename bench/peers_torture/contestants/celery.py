"""Celery on Redis, its workers with pool processes."""

from __future__ import annotations

from typing import Any

from celery import Celery  # type: ignore[import-untyped, import-not-found, unused-ignore]
from celery.signals import worker_ready  # type: ignore[import-untyped, import-not-found, unused-ignore]

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, Order, numbers

_TIMEOUT = 60
_LATE: dict[str, Any] = {"task_acks_late": True, "task_reject_on_worker_lost": True, "worker_prefetch_multiplier": 1}
_SHORT: dict[str, Any] = {
    "broker_transport_options": {"visibility_timeout": _TIMEOUT},
    "result_backend_transport_options": {"visibility_timeout": _TIMEOUT},
    "visibility_timeout": _TIMEOUT,
}
SETTINGS: dict[str, dict[str, Any]] = {"defaults": {}, "acks_late": _LATE, "acks_late, visibility 60 s": {**_LATE, **_SHORT}}


def prepare(order: Order) -> None:
    """Do nothing: Redis needs no tables."""


def enqueue(order: Order, count: int) -> None:
    task = _app_of(order).tasks["torture"]
    for job in numbers(count):
        task.apply_async(args=[job], task_id=f"job-{job}")


def work(order: Order) -> None:
    app = _app_of(order)
    worker_ready.connect(_say_up)
    app.worker_main(["worker", f"--concurrency={CONCURRENCY}", f"--hostname={order.worker}@%h", "--loglevel=WARNING"])


def _say_up(**_: object) -> None:
    journal.say_up()


def _app_of(order: Order) -> Any:
    app = Celery("torture", broker=order.url, backend=order.url)
    app.conf.update(SETTINGS[order.setting])
    app.task(name="torture")(journal.work_blocking)
    return app

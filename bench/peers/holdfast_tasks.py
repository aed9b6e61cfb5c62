"""Holdfast's jobs, as its worker processes import them."""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine
from typing import Any

from holdfast import App, Task

Jobs = tuple[Task[[int | str], Coroutine[Any, Any, None], [int | str]], Task[[float], Coroutine[Any, Any, None], [float]]]


def jobs_of(app: App) -> Jobs:
    """Register the same two tasks on any App: ``noop`` and ``ping``."""

    @app.task
    async def noop(n: int | str) -> None:
        """Do nothing and return."""

    @app.task
    async def ping(sent: float) -> None:
        """Say how long it took to get here."""
        latency = time.monotonic() - sent
        with open(os.environ["BENCH_REPORTS"], "a", encoding="ascii") as reports:  # noqa: ASYNC230 - one line
            reports.write(f"{latency}\n")

    return noop, ping


app = App(os.environ.get("HOLDFAST_URL", "memory://"))
jobs_of(app)

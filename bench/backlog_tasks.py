"""The job of ``bench.backlog``, as its worker processes import it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from typing import Any

from holdfast import App, Job, Task


def define(app: App) -> Task[[Job, float], Coroutine[Any, Any, None], [float]]:
    """Add the task to an App: it reports its start, waits, and reports its end."""

    @app.task(max_crashes=20)
    async def wait(job: Job, seconds: float) -> None:
        report("start", job)
        await asyncio.sleep(seconds)
        report("end", job)

    return wait


def report(what: str, job: Job) -> None:
    """Append one line: what happened, when, in which process, to which job and attempt."""
    with open(os.environ["BENCH_REPORTS"], "a", encoding="ascii") as reports:
        reports.write(f"{what} {time.monotonic()} {os.getpid()} {job.id} {job.attempt}\n")


app = App(os.environ.get("HOLDFAST_URL", "memory://"))
define(app)

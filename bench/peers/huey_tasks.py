"""huey's jobs, as its consumer imports them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from huey import SqliteHuey  # type: ignore[import-untyped]


def huey_on(database: str) -> SqliteHuey:
    """Safe against a loss of power, as every peer is measured."""
    return SqliteHuey("bench", filename=database, fsync=True, timeout=30)


def jobs_of(queue: SqliteHuey) -> tuple[Callable[[int], object], Callable[[float], object]]:
    """Register the same two tasks on any file: ``noop`` and ``ping``."""

    def noop(n: int) -> None:
        """Do nothing and return."""

    def ping(sent: float) -> None:
        """Say how long it took to get here."""
        latency = time.monotonic() - sent
        with open(os.environ["BENCH_REPORTS"], "a", encoding="ascii") as reports:
            reports.write(f"{latency}\n")

    return queue.task(name="noop")(noop), queue.task(name="ping")(ping)


huey = huey_on(os.environ["BENCH_FILE"]) if "BENCH_FILE" in os.environ else None
if huey is not None:
    jobs_of(huey)

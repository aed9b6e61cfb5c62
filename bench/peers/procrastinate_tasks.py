"""procrastinate's jobs, and its worker: ``python -m bench.peers.procrastinate_tasks``."""

from __future__ import annotations

import os
import time

import uvloop
from procrastinate import App, PsycopgConnector

CONCURRENCY = 20
CONNECTIONS = 10


def app_on(url: str) -> App:
    """Register the same two tasks on any database: ``noop`` and ``ping``."""
    app = App(connector=PsycopgConnector(conninfo=url, min_size=CONNECTIONS, max_size=CONNECTIONS))

    @app.task(name="noop")
    async def noop(n: int) -> None:
        """Do nothing and return."""

    @app.task(name="ping")
    async def ping(sent: float) -> None:
        """Say how long it took to get here."""
        latency = time.monotonic() - sent
        with open(os.environ["BENCH_REPORTS"], "a", encoding="ascii") as reports:  # noqa: ASYNC230 - one line
            reports.write(f"{latency}\n")

    return app


async def main() -> None:
    """Work until a signal comes."""
    app = app_on(os.environ["BENCH_URL"])
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


if __name__ == "__main__":
    uvloop.run(main())

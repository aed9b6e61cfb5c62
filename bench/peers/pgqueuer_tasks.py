"""pgqueuer's jobs, and its worker: ``python -m bench.peers.pgqueuer_tasks``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job

BATCH = 1000
CONNECTIONS = 4


def payload_of(n: int) -> bytes:
    """Decode the payload that every peer has."""
    return json.dumps({"n": n}, separators=(",", ":")).encode()


async def main() -> None:
    """Work until a signal comes."""
    pool = await asyncpg.create_pool(os.environ["BENCH_URL"], min_size=CONNECTIONS, max_size=CONNECTIONS)
    worker = PgQueuer(AsyncpgPoolDriver(pool))

    @worker.entrypoint("noop")
    async def noop(job: Job) -> None:
        """Decode the payload, and do nothing with it."""
        json.loads(job.payload or b"")

    @worker.entrypoint("ping")
    async def ping(job: Job) -> None:
        """Say how long it took to get here."""
        latency = time.monotonic() - float(job.payload or b"")
        with open(os.environ["BENCH_REPORTS"], "a", encoding="ascii") as reports:  # noqa: ASYNC230 - one line
            reports.write(f"{latency}\n")

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.shutdown.set)
    await worker.run(batch_size=BATCH)


if __name__ == "__main__":
    uvloop.run(main())

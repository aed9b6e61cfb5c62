"""The jobs of ``runner_jobs``, and some that meet faults of the machine. Their processes may be armed with faults themselves."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from holdfast import Backoff, Job, SyncJob
from tests.e2e import failpoints, wrong_clocks
from tests.e2e.jobs_app import FOLDER, count
from tests.e2e.runner_jobs import app, journal

__all__ = ["app"]

MEGABYTE = 1 << 20

if hasattr(sys.modules["__main__"], "RunnerCell"):
    failpoints.arm_runner()
wrong_clocks.arm("worker")


@app.task
def eat(job: SyncJob) -> None:
    """Take memory until the kernel ends it; where it sets no limit, end as if it had."""
    journal.write(job, "start")
    _eat()


@app.task(process=True)
def eat_in_runner(job: SyncJob) -> None:
    """The same in a process of its own."""
    journal.write(job, "start")
    _eat()


def _eat() -> None:
    counter = os.environ.get("E2E_MEMORY_KILLS")
    if counter is not None:
        # In the order of the kernel: it counts, then it kills.
        Path(counter).write_text(f"oom_kill {int(Path(counter).read_text().split()[1]) + 1}\n")
        os.kill(os.getpid(), signal.SIGKILL)
    taken = []
    while True:
        taken.append(b"x" * MEGABYTE)


@app.task(process=True, max_crashes=1000, backoff=Backoff.fixed("0.05s"))
def labour_in_runner(job: SyncJob) -> str:
    """Say everything that a runner says."""
    journal.write(job, "start")
    job.progress(fraction=0.5, message=str(job.token))
    job.checkpoint({"by": str(job.token)})
    job.enqueue(count, number=1)
    return str(job.token)


@app.task(max_crashes=20, max_attempts=20)
async def keep_writing(job: Job, gate: str) -> str:
    """Write into a file of its own inside one transaction after the other."""
    journal.write(job, "start")
    while not (FOLDER / gate).exists():
        async with job.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS rows (token TEXT)")
            connection.execute("INSERT INTO rows VALUES (?)", (str(job.token),))
        await asyncio.sleep(0.01)
    return str(job.token)


@app.task
def stop_inside_a_transaction(job: SyncJob) -> str:
    """Be frozen by somebody while nobody else can write, the first time."""
    journal.write(job, "start")
    with job.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS rows (token TEXT)")
        connection.execute("INSERT INTO rows VALUES (?)", (str(job.token),))
        if job.attempt == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
    return str(job.token)

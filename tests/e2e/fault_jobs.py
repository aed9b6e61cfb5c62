"""The jobs of ``runner_jobs``, and some that meet faults of the machine; their processes may be armed with failpoints."""

import os
import signal
import sys
import threading
from pathlib import Path

from holdfast import Backoff, SyncJob
from tests.e2e import failpoints, wrong_clocks
from tests.e2e.jobs_app import count
from tests.e2e.runner_jobs import app, journal

__all__ = ["app"]

MEGABYTE = 1 << 20

if hasattr(sys.modules["__main__"], "SystemWorkerLink"):
    failpoints.arm_runner()
wrong_clocks.arm("worker")


@app.task
def eat(job: SyncJob) -> None:
    """Allocate memory until the kernel kills the process; without a limit, end as if the kernel had killed it."""
    journal.write(job, "start")
    _eat()


@app.task(process=True)
def eat_in_runner(job: SyncJob) -> None:
    """Allocate all memory in a separate process."""
    journal.write(job, "start")
    _eat()


def _eat() -> None:
    counter = os.environ.get("E2E_MEMORY_KILLS")
    if counter is not None:
        # The kernel counts first, and then kills.
        Path(counter).write_text(f"oom_kill {int(Path(counter).read_text().split()[1]) + 1}\n")
        os.kill(os.getpid(), signal.SIGKILL)
    # Without the score the kernel may kill another process of the group, such as the supervisor.
    Path("/proc/self/oom_score_adj").write_text("1000")
    taken = []
    while True:
        taken.append(b"x" * MEGABYTE)


@app.task(process=True, max_crashes=1000, backoff=Backoff.fixed("0.05s"))
def labour_in_runner(job: SyncJob) -> str:
    """Send every message that a runner sends."""
    journal.write(job, "start")
    job.progress(fraction=0.5, message=str(job.token))
    job.checkpoint({"by": str(job.token)})
    job.enqueue(count, number=1)
    return str(job.token)


@app.task
def stop_inside_a_transaction(job: SyncJob) -> str:
    """Freeze inside a write transaction in the first attempt."""
    return _write_and_stop(job)


@app.task(process=True)
def stop_inside_a_transaction_of_a_runner(job: SyncJob) -> str:
    """Freeze inside a write transaction of a separate process in the first attempt."""
    return _write_and_stop(job)


def _write_and_stop(job: SyncJob) -> str:
    journal.write(job, "start")
    with job.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS written (token TEXT)")
        connection.execute("INSERT INTO written VALUES (?)", (str(job.token),))
        if job.attempt == 1:
            # A signal to the whole process may stop another thread first, and this one late.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    return str(job.token)


@app.task
async def count_on_the_loop(number: int) -> int:
    """Return at once, on the event loop, where a mistake would cost every job."""
    return number


@app.task(process=True)
def count_in_runner(number: int) -> int:
    """Return at once, in a separate process."""
    return number


@app.task(max_attempts=1)
def print_a_lot() -> None:
    """Print more than any buffer can contain."""
    for stream in (sys.stdout, sys.stderr):
        for _ in range(100):
            print("x" * 1000, file=stream, flush=True)

"""The jobs of ``jobs_app``, and some that run in separate processes."""

import os
import signal
import subprocess
import sys
import time

from holdfast import SyncJob
from tests.e2e.jobs_app import FOLDER, app, journal

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]

__all__ = ["app"]


@app.task(process=True)
def compute(job: SyncJob, number: int) -> dict[str, object]:
    """Report everything that a handler can report."""
    job.progress(stage="half", fraction=0.5, message="so far")
    job.checkpoint({"number": number})
    started = {"pid": os.getpid(), "group": os.getpgid(0), "session": os.getsid(0), "stdin": os.readlink("/proc/self/fd/0")}
    return {"number": number, "saved": job.checkpoint_value, **started}


@app.task(process=True, max_attempts=1)
def object_to_it(job: SyncJob) -> None:
    """Raise an error at once."""
    raise ValueError("not like this")


@app.task(process=True, max_crashes=20)
def spin(job: SyncJob) -> None:
    """Compute endlessly, without looking at cancellation."""
    journal.write(job, "start", session=os.getsid(0))
    while True:
        pass


@app.task(process=True, max_crashes=20)
def wait_in_runner(job: SyncJob, gate: str) -> str:
    """Run until the gate opens, or until cancelled."""
    journal.write(job, "start", session=os.getsid(0))
    while not (FOLDER / gate).exists():
        if job.is_cancelled:
            journal.write(job, "cancelled")
            return None  # type: ignore[return-value]
        time.sleep(0.01)
    return str(job.token)


@app.task(process=True, max_crashes=20)
def insist_in_runner(job: SyncJob, gate: str) -> str:
    """Keep writing until refused."""
    journal.write(job, "start", session=os.getsid(0))
    while not (FOLDER / gate).exists():
        try:
            job.progress(message=str(job.token))
            job.checkpoint({"by": str(job.token)})
        except BaseException as error:
            journal.write(job, "refused", error=type(error).__name__)
            raise
        time.sleep(0.01)
    return str(job.token)


@app.task(process=True, max_crashes=20)
def breed(job: SyncJob) -> None:
    """Leave children of every kind behind, and hang."""
    forked = os.fork()
    if forked == 0:
        time.sleep(600)
        os._exit(0)
    children = [forked, subprocess.Popen(SLEEP).pid]
    journal.write(job, "start", session=os.getsid(0), children=children)
    while True:
        pass


@app.task(process=True, max_crashes=20)
def stumble(job: SyncJob, how: str) -> str:
    """End the process in the first attempt."""
    journal.write(job, "start", session=os.getsid(0))
    if job.crashes == 0:
        match how:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(3)
    return str(job.token)


@app.task(process=True)
def parent(job: SyncJob) -> str:
    """Enqueue a child under the token."""
    return str(job.enqueue(compute, number=7).id)

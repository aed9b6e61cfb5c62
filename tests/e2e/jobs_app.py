"""Jobs for real workers. Their code writes what it does into a journal that only grows, so that tests can count it.

Set by the environment: E2E_FOLDER (journal and gates), E2E_URL, E2E_TRANSPORT, E2E_TTL, E2E_RECOVERY, E2E_POLL, E2E_GRACE.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import App, Backoff, Job, SyncJob
from holdfast._engine.events import Event
from holdfast._system.host import identify
from tests.e2e import failpoints
from tests.e2e.journal import Journal
from tests.e2e.records import record_of

FOLDER = Path(os.environ["E2E_FOLDER"])

URL = os.environ.get("E2E_URL", f"sqlite:///{FOLDER}/jobs.db")

app = App(
    URL,
    transport=os.environ.get("E2E_TRANSPORT"),
    ttl=os.environ["E2E_TTL"],
    recovery_interval=os.environ["E2E_RECOVERY"],
    poll_interval=os.environ["E2E_POLL"],
    grace=os.environ["E2E_GRACE"],
)
journal, record = Journal(FOLDER), record_of(URL, FOLDER)
OURS = identify(os.getpid())
WITHIN = 0.5 * float(os.environ["E2E_TTL"].removesuffix("s"))

if failpoints.POINTS and hasattr(worker := sys.modules["__main__"], "open_store"):
    worker.open_store = failpoints.arm(worker.open_store, "worker")


@app.on("job.rescued")
def tell_rescue(event: Event) -> None:
    """Write to a file which job was rescued, and which worker received the event."""
    with (FOLDER / "rescues").open("a") as file:
        file.write(f"{event.fields['job']} {event.fields['reason']} {os.getpid()}\n")


@app.task(max_crashes=20)
async def wait(job: Job, gate: str) -> str:
    """Run until the gate opens."""
    journal.write(job, "start")
    try:
        while not (FOLDER / gate).exists():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(0.01)
    except BaseException as error:
        journal.write(job, "cut", error=type(error).__name__)
        raise
    journal.write(job, "end")
    return str(job.token)


@app.task(max_crashes=20)
def wait_in_thread(job: SyncJob, gate: str) -> str:
    """Run until the gate opens, in a thread that nothing can interrupt."""
    journal.write(job, "start")
    while not (FOLDER / gate).exists():
        time.sleep(0.01)
    journal.write(job, "end")
    return str(job.token)


@app.task(max_crashes=20)
def insist(job: SyncJob, gate: str) -> str:
    """Keep writing until refused."""
    journal.write(job, "start")
    while not (FOLDER / gate).exists():
        try:
            job.progress(message=str(job.token))
            job.checkpoint({"by": str(job.token)})
        except BaseException as error:
            journal.write(job, "refused", error=type(error).__name__)
            raise
        time.sleep(0.01)
    journal.write(job, "end")
    return str(job.token)


@app.task
async def block_the_loop(job: Job, seconds: float) -> str:
    """Block the event loop of this process."""
    journal.write(job, "start")
    time.sleep(seconds)  # noqa: ASYNC251 - the point of it
    journal.write(job, "end")
    return str(job.token)


@app.task
def hold_the_gil(job: SyncJob, seconds: float) -> str:
    """Block all threads in one call of a C function: a regular expression that backtracks."""
    hard = "a" * 14 + "b"
    began = time.thread_time()
    re.search(r"(a+)+c", hard * 40)
    took = time.thread_time() - began
    text = hard * round(1.3 * 40 * seconds / took)
    journal.write(job, "start")
    re.search(r"(a+)+c", text)
    journal.write(job, "end")
    return str(job.token)


@app.task(max_crashes=20)
async def ignore_cancellation(job: Job, gate: str) -> str:
    """Ignore every cancellation until the gate opens."""
    journal.write(job, "start")
    while not (FOLDER / gate).exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            journal.write(job, "ignored")
    journal.write(job, "end")
    return str(job.token)


@app.task(max_crashes=20)
def start_children(job: SyncJob, gate: str) -> str:
    """Start a process, and one in a separate group."""
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    children = [subprocess.Popen(sleep), subprocess.Popen(sleep, process_group=0)]
    journal.write(job, "start", children=[child.pid for child in children])
    while not (FOLDER / gate).exists():
        time.sleep(0.01)
    for child in children:
        child.kill()
        child.wait()
    return str(job.token)


@app.task(max_crashes=20)
def start_daemon(job: SyncJob, gate: str) -> str:
    """Leave a process behind that has left the session and has every descriptor of this one open."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        journal.write(job, "daemon")
        time.sleep(600)
        os._exit(0)
    journal.write(job, "start")
    while not (FOLDER / gate).exists():
        time.sleep(0.01)
    return str(job.token)


@app.task(max_crashes=1000, max_attempts=1000, backoff=Backoff.fixed("0.05s"))
async def labour(job: Job, seconds: float) -> str:
    """Work, and write every step into the history."""
    with recorded(job):
        for step in range(5):
            await job.progress(fraction=step / 5, message=str(job.token))
            await asyncio.sleep(seconds / 5)
        await job.checkpoint({"by": str(job.token)})
    return str(job.token)


@app.task(max_crashes=1000, max_attempts=1000, backoff=Backoff.fixed("0.05s"))
def labour_in_thread(job: SyncJob, seconds: float) -> str:
    """Work in a thread, and write every step into the history."""
    with recorded(job):
        for step in range(5):
            job.progress(fraction=step / 5, message=str(job.token))
            time.sleep(seconds / 5)
        job.checkpoint({"by": str(job.token)})
    return str(job.token)


@app.task(max_crashes=1000, max_attempts=1000, backoff=Backoff.fixed("0.05s"))
def copy_the_file(job: SyncJob, seconds: float) -> str:
    """Copy the jobs' file and log in the process that works on them. Not the -shm: closing it releases the lock of a write."""
    with recorded(job):
        for number in range(5):
            for end in ("", "-wal"):
                shutil.copy(FOLDER / f"jobs.db{end}", FOLDER / f"copied-{job.id}{end}")
            job.progress(fraction=number / 5, message=str(job.token))
            time.sleep(seconds / 5)
        job.checkpoint({"by": str(job.token)})
    return str(job.token)


@contextmanager
def recorded(job: Job | SyncJob) -> Iterator[None]:
    """Write to the history when this code starts and ends."""
    record.tell("handler.start", job.id, job.token, OURS)
    try:
        yield
    finally:
        record.tell("handler.end", job.id, job.token, OURS)


@app.task
def count(number: int) -> int:
    """Return the number at once."""
    return number


@app.task(max_crashes=2)
def die(job: SyncJob) -> None:
    """Kill the worker process."""
    journal.write(job, "start")
    os.abort()


@app.task
async def kill_the_worker(job: Job) -> None:
    """Kill the worker process, with all jobs that run beside this one."""
    journal.write(job, "start")
    await asyncio.sleep(0.1)  # until the others run too
    os.abort()


@app.task
async def be_innocent(job: Job) -> str:
    """Run for a moment beside the jobs that run there."""
    journal.write(job, "start")
    await asyncio.sleep(0.3)
    return str(job.token)


@app.task(progress_within=WITHIN, max_attempts=1)
async def stand_still(job: Job) -> None:
    """Report no progress, but stop when cancelled."""
    journal.write(job, "start")
    await asyncio.sleep(600)


@app.task(progress_within=WITHIN, max_attempts=1)
async def move_slowly(job: Job, seconds: float) -> str:
    """Run for long, and report progress."""
    journal.write(job, "start")
    for _ in range(round(seconds / 0.3)):
        await asyncio.sleep(0.3)
        await job.alive()
    return str(job.token)


@app.task(timeout="1s", max_attempts=1)
def overstay(job: SyncJob, gate: str) -> None:
    """Pass the limit in a thread that cannot be stopped."""
    journal.write(job, "start")
    while not (FOLDER / gate).exists():
        time.sleep(0.01)


@app.task(timeout="1s", max_attempts=1)
async def overstay_on_the_loop(job: Job) -> None:
    """Pass the limit while nothing else in this process can run."""
    journal.write(job, "start")
    time.sleep(600)  # noqa: ASYNC251 - the point of it


@app.task
async def book(job: Job, fails: bool) -> None:
    """Write a row and the end of the attempt's right to write it, in one commit."""
    async with job.transaction() as connection:
        connection.execute("INSERT INTO ledger VALUES (?, ?)", (str(job.id), str(job.token)))
        if fails and job.attempt == 1:
            raise ValueError("no")


@app.task
def book_in_thread(job: SyncJob, fails: bool) -> None:
    """Write a row and the end of the attempt's right to write it, in a thread."""
    with job.transaction() as connection:
        connection.execute("INSERT INTO ledger VALUES (?, ?)", (str(job.id), str(job.token)))
        if fails and job.attempt == 1:
            raise ValueError("no")


@app.task(process=True)
def book_in_process(job: SyncJob, fails: bool) -> None:
    """Write a row and the end of the attempt's right to write it, in a separate process."""
    with job.transaction() as connection:
        connection.execute("INSERT INTO ledger VALUES (?, ?)", (str(job.id), str(job.token)))
        if fails and job.attempt == 1:
            raise ValueError("no")


@app.task
async def have_children(job: Job, many: int) -> list[str]:
    """Enqueue children one after another: each exists when its enqueue returns."""
    return [str((await job.enqueue(count, number)).id) for number in range(many)]


REPORTS = {
    1: (("clone", 0.05), ("analyze", 0.52)),
    2: (("analyze", 0.6), ("analyze", 0.71)),
    3: (("analyze", 0.8), ("chart", 1.0)),
}
"""What each attempt of ``narrate`` reports before it waits for its gate."""


@app.task
async def narrate(job: Job) -> dict[str, int]:
    """Report progress, and run until the gate of this attempt opens."""
    for stage, fraction in REPORTS[job.attempt]:
        await job.progress(stage=stage, fraction=fraction)
        await job.checkpoint(fraction)  # it is durable together with the progress
    journal.write(job, "reported")
    while not (FOLDER / f"gate-{job.attempt}").exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(0.01)
    journal.write(job, "end")
    return {"commits": 400}

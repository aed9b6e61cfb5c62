"""Jobs for workers under torture; most of them only work, some are faults themselves.

Set by the environment as the jobs of all real workers are: see ``tests/e2e/jobs_app.py``. The import stays small,
because a worker that is killed each few seconds is started as often.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from holdfast import App, Backoff, Batch, Job, SyncJob
from holdfast._engine.events import Event
from holdfast._system.host import identify
from proof.checker.process_log import ProcessEvent
from proof.checker.process_log import tell as tell_deed
from tests.e2e.records import PROCESS_LOG, REFUSED, UP, record_of
from tests.e2e.torture import table

FOLDER = Path(os.environ["E2E_FOLDER"])
URL = os.environ.get("E2E_URL", f"sqlite:///{FOLDER}/jobs.db")
OURS = identify(os.getpid())

app = App(
    URL,
    transport=os.environ.get("E2E_TRANSPORT"),
    ttl=os.environ["E2E_TTL"],
    recovery_interval=os.environ["E2E_RECOVERY"],
    poll_interval=os.environ["E2E_POLL"],
    grace=os.environ["E2E_GRACE"],
)
record = record_of(URL, FOLDER)
steadfast = partial(app.task, max_crashes=1000, max_attempts=1000, backoff=Backoff.fixed("0.05s"))
"""Budgets of jobs that complete under all faults of their workers."""
forking = threading.Lock()
"""Taken to start a process: a child forked during the start of another would delay that start for as long as it lives."""
BALLAST = "much to remember " * 200
"""So much that a bucket keeps the checkpoint in a separate object."""
SILENCE = f"{0.5 * float(os.environ['E2E_TTL'].removesuffix('s'))}s"
"""Longer than a beat and a margin of its leases."""
STEPS = 20
"""Enough writes that a zombie in a thread, which cannot be stopped, writes before it is killed."""
_has_begun = False


def say(what: str, job: UUID | None = None) -> None:
    """Record an event for the process that watches this torture."""
    tell_deed(FOLDER / PROCESS_LOG, ProcessEvent(time.time(), what, OURS, job))


say("process.start")


@app.on("job.lost")
def tell_refusal(event: Event) -> None:
    """Record that an outcome or a report was refused; the handler gets the same refusal as an error."""
    say(REFUSED, event.fields["job"])


@contextmanager
def recorded(job: Job | SyncJob) -> Iterator[None]:
    """Write to the history when this code starts and ends."""
    _tell_start(job)
    try:
        yield
    finally:
        record.tell("handler.end", job.id, job.token, OURS)


@asynccontextmanager
async def recorded_in_thread(job: Job) -> AsyncIterator[None]:
    """Write to the history when a coroutine starts and ends, while its event loop runs on.

    Another handler of the loop may have the lock of the file in an open transaction, and commits only if the loop runs.
    """
    try:
        await _ended(partial(_tell_start, job))
        yield
    finally:
        await _ended(partial(record.tell, "handler.end", job.id, job.token, OURS))


def _tell_start(job: Job | SyncJob) -> None:
    global _has_begun  # noqa: PLW0603 - of this process
    if not _has_begun:
        _has_begun = True
        say(UP)
    record.tell("handler.start", job.id, job.token, OURS)


async def _ended(action: Callable[[], None]) -> None:
    """Run an action in a thread to its end; raise a cancellation after that."""
    doing, is_cancelled = asyncio.get_running_loop().run_in_executor(None, action), False
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError:
            is_cancelled = True
    doing.result()
    if is_cancelled:
        raise asyncio.CancelledError


@steadfast()
async def labour(job: Job, seconds: float) -> str:
    """Work, and write every step into the history."""
    async with recorded_in_thread(job):
        for step in range(5):
            await job.progress(fraction=step / 5, message=str(job.token))
            await asyncio.sleep(seconds / 5)
        await job.checkpoint({"by": str(job.token)})
    return str(job.token)


@steadfast()
def labour_in_thread(job: SyncJob, seconds: float) -> str:
    """Work in a thread, and write every step into the history."""
    with recorded(job):
        for step in range(STEPS):
            job.progress(fraction=step / STEPS, message=str(job.token))
            time.sleep(seconds / STEPS)
        job.checkpoint({"by": str(job.token), "ballast": BALLAST})
    return str(job.token)


@steadfast()
def keep_quiet(job: SyncJob, seconds: float) -> str:
    """Write nothing before the end: the end is the first sign of a zombie."""
    with recorded(job):
        time.sleep(seconds)
    return str(job.token)


@steadfast()
async def stumble(job: Job, seconds: float) -> str:
    """Fail the first time."""
    async with recorded_in_thread(job):
        await asyncio.sleep(seconds)
        if job.attempt == 1:
            raise ValueError("once")
    return str(job.token)


@steadfast()
async def block_the_loop(job: Job, seconds: float) -> str:
    """Block the event loop of this process."""
    async with recorded_in_thread(job):
        time.sleep(seconds)  # noqa: ASYNC251 - the point of it
    return str(job.token)


@steadfast()
def hold_the_gil(job: SyncJob, seconds: float) -> str:
    """Block all threads in one call of a C function."""
    with recorded(job):
        max(range(round(seconds * 4e6)))  # a quarter of it, at most
    return str(job.token)


@steadfast()
async def ignore_cancellation(job: Job, seconds: float) -> str:
    """Ignore every cancellation for that long."""
    async with recorded_in_thread(job):
        by = time.monotonic() + seconds
        while time.monotonic() < by:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
    return str(job.token)


@steadfast()
def leave_children(job: SyncJob, seconds: float) -> str:
    """Start a child in a separate group and one that shares all descriptors; neither may outlive the worker."""
    with recorded(job):
        with forking:
            subprocess.Popen(["sleep", "600"], process_group=0, stdin=subprocess.DEVNULL)
            if os.fork() == 0:
                time.sleep(600)
                os._exit(0)
        time.sleep(seconds)
    return str(job.token)


@steadfast()
def copy_the_file(job: SyncJob, seconds: float) -> str:
    """Copy the database's file in a worker that has it open, if it is one."""
    with recorded(job):
        if URL.startswith("sqlite:"):
            copy = FOLDER / f"copy-{job.id}-{job.attempt}"
            shutil.copyfile(URL.removeprefix("sqlite:///"), copy)
            copy.unlink()
        time.sleep(seconds / 5)
    return str(job.token)


pastes = app.rows(
    table.TABLE,
    url=None if URL.startswith(("sqlite:", "postgres")) else f"sqlite:///{FOLDER}/{table.FILE}",
    key="id",
    status="status",
    pending=table.PENDING,
    in_progress=table.IN_PROGRESS,
    where="true",
    done=table.DONE,
    claimed_at="claimed_at",
    owner="owner",
    batch=20,
    stale_after="30s",
    interval="0.5s",
)


@pastes.handler
async def delete_pastes(batch: Batch) -> None:
    """Mark rows done and lower the count beside them in one commit."""
    await asyncio.sleep(0.2)
    async with batch.transaction() as tx:
        many = len(await tx.done(batch.keys))
        answer = tx.connection.execute(f"UPDATE contents SET number = number - {many} WHERE id = 1")
        if asyncio.iscoroutine(answer):
            await answer


@app.task(max_crashes=2, backoff=Backoff.fixed("0.05s"))
def poison(job: SyncJob, seconds: float) -> None:
    """Kill the worker process in a different way each time; one is the kernel's way with processes that take all memory."""
    record.tell("handler.start", job.id, job.token, OURS)
    ways: tuple[Callable[[], None], ...] = (
        os.abort,
        partial(os.kill, os.getpid(), signal.SIGKILL),
        partial(os.kill, os.getpid(), signal.SIGSEGV),
        partial(os._exit, 0),
    )
    say("process.end")
    ways[job.id.int % len(ways)]()


@app.task(timeout="1s", max_attempts=2, max_crashes=1000, backoff=Backoff.fixed("0.05s"))
def overstay(job: SyncJob, seconds: float) -> None:
    """Pass the limit in a thread that cannot be stopped."""
    with recorded(job):
        time.sleep(600)


@app.task(progress_within=SILENCE, max_attempts=2, max_crashes=1000, backoff=Backoff.fixed("0.05s"))
async def stand_still(job: Job, seconds: float) -> None:
    """Report no progress, but stop when cancelled."""
    async with recorded_in_thread(job):
        await asyncio.sleep(600)


@app.task
async def spoiled(job: Job, seconds: float) -> None:
    """Never run: its payloads are invalid."""
    raise AssertionError(f"ran with {seconds}")

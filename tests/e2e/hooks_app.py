"""Jobs that record their progress in rows of a separate table, and hooks that repair those rows: see ``jobs_app``."""

import asyncio
import inspect
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from holdfast import App, Backoff, Job, RescuedJob, SyncJob
from tests.e2e.journal import Journal

FOLDER = Path(os.environ["E2E_FOLDER"])
TTL = float(os.environ["E2E_TTL"].removesuffix("s"))

app = App(
    os.environ["E2E_URL"],
    ttl=os.environ["E2E_TTL"],
    recovery_interval=os.environ["E2E_RECOVERY"],
    poll_interval=os.environ["E2E_POLL"],
    grace=os.environ["E2E_GRACE"],
)
journal = Journal(FOLDER)
SOON = Backoff.fixed("0.05s")


def called(job: RescuedJob) -> int:
    """Record a call of a hook; return the number of calls for this job."""
    entry = {"job": str(job.id), "reason": job.reason, "attempt": job.attempt, "state": job.state, "pid": os.getpid()}
    with (FOLDER / "hooks").open("a") as file:
        file.write(json.dumps(entry) + "\n")
    return (FOLDER / "hooks").read_text().count(str(job.id))


def repair_statement(job: RescuedJob) -> str:
    """Return a statement that repairs the row."""
    status = "repaired" if job.state == "running" else f"{job.state} after {job.reason}"
    return f"UPDATE rows_of_jobs SET status = '{status}' WHERE job = '{job.id}' AND status = 'busy'"


def die_if_asked(job: RescuedJob, times: int) -> None:
    """Die or raise between the write to the row and its commit, if the payload asks for it."""
    if job.payload.get("then") == "hook dies" and times == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.payload.get("then") == "hook raises" and times == 1:
        raise KeyError("not now")


async def arepair(connection: Any, job: RescuedJob) -> None:
    """Repair the row on the event loop; the statements of SQLite's connections are not awaited."""
    times = called(job)
    if inspect.isawaitable(answer := connection.execute(repair_statement(job))):
        await answer
    die_if_asked(job, times)


def repair(connection: Any, job: RescuedJob) -> None:
    """Repair the row in a thread."""
    times = called(job)
    connection.execute(repair_statement(job))
    die_if_asked(job, times)


async def rows(job: Job, statement: str) -> str | None:
    """Run a statement on the row, and return the row's status."""
    async with job.transaction() as connection:
        if not inspect.isawaitable(answer := connection.execute(statement)):
            found = answer.fetchone()
            return None if found is None else str(found[0])
        await answer
        return str(await connection.fetchval(f"SELECT status FROM rows_of_jobs WHERE job = '{job.id}'"))


def rows_blocking(job: SyncJob, statement: str) -> None:
    """Write to the row, without a loop."""
    with job.transaction() as connection:
        connection.execute(statement)


def status_blocking(job: SyncJob) -> str:
    """Read the status of the row."""
    with job.transaction() as connection:
        (status,) = connection.execute(f"SELECT status FROM rows_of_jobs WHERE job = '{job.id}'").fetchone()
        return str(status)


def busy(job: Job | SyncJob) -> str:
    """Return a statement that writes the status busy to the row."""
    values = f"VALUES ('{job.id}', 'busy')"
    return f"INSERT INTO rows_of_jobs (job, status) {values} ON CONFLICT (job) DO UPDATE SET status = 'busy'"


async def work(job: Job, gate: str, then: str = "") -> str:
    """Write busy to the row, wait for the gate, and record the end in the row."""
    seen = None
    if job.attempt > 1:
        seen = await rows(job, f"SELECT status FROM rows_of_jobs WHERE job = '{job.id}'")
    await rows(job, busy(job))
    journal.write(job, "start", seen=seen, rescued=job.rescued)
    while not (FOLDER / gate).exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(0.01)
    await rows(job, f"UPDATE rows_of_jobs SET status = 'done' WHERE job = '{job.id}'")
    return str(seen)


def work_blocking(job: SyncJob, gate: str, then: str = "") -> str:
    """Work on the row, without a loop."""
    seen = status_blocking(job) if job.attempt > 1 else None
    rows_blocking(job, busy(job))
    journal.write(job, "start", seen=seen, rescued=job.rescued)
    while not (FOLDER / gate).exists():
        time.sleep(0.01)
    rows_blocking(job, f"UPDATE rows_of_jobs SET status = 'done' WHERE job = '{job.id}'")
    return str(seen)


app.task(name="work", on_rescue=arepair, backoff=SOON)(work)
app.task(name="work_in_thread", on_rescue=repair, backoff=SOON)(work_blocking)
app.task(name="work_in_process", on_rescue=repair, backoff=SOON, process=True)(work_blocking)
app.task(name="once", on_rescue=arepair, max_crashes=1)(work)
app.task(name="once_in_thread", on_rescue=repair, on_crash="fail")(work_blocking)
app.task(name="held", on_rescue=repair, on_crash="hold", process=True)(work_blocking)
app.task(name="moves", on_rescue=repair, process=True, progress_within=f"{0.5 * TTL}s", backoff=SOON)(work_blocking)

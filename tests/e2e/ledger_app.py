"""Jobs that book into a separate table, in the database of PostgreSQL in which they live: see `jobs_app`."""

import os
from pathlib import Path

from holdfast import App, Job, SyncJob
from tests.e2e.journal import Journal

app = App(
    os.environ["E2E_URL"],
    ttl=os.environ["E2E_TTL"],
    recovery_interval=os.environ["E2E_RECOVERY"],
    poll_interval=os.environ["E2E_POLL"],
    grace=os.environ["E2E_GRACE"],
)
journal = Journal(Path(os.environ["E2E_FOLDER"]))
BOOKS = "INSERT INTO ledger VALUES ('{0.id}', '{0.attempt}')"


@app.task
async def book(job: Job, what: str) -> None:
    """Write a row and the end of the attempt's right to write it, in one commit; the first attempt does not get there."""
    async with job.transaction() as connection:
        await connection.execute(BOOKS.format(job))
        journal.write(job, "booked")
        if what == "fails" and job.attempt == 1:
            raise ValueError("no")
        while what == "works" and job.attempt == 1:
            await connection.execute("SELECT pg_sleep(0.05)")


def book_blocking(job: SyncJob, what: str) -> None:
    """Book without an event loop."""
    with job.transaction() as connection:
        connection.execute(BOOKS.format(job))  # type: ignore[arg-type]
        journal.write(job, "booked")
        if what == "fails" and job.attempt == 1:
            raise ValueError("no")
        while what == "works" and job.attempt == 1:
            connection.execute("SELECT pg_sleep(0.05)")


@app.task
def book_in_thread(job: SyncJob, what: str) -> None:
    """Book in a thread of the worker."""
    book_blocking(job, what)


@app.task(process=True)
def book_in_process(job: SyncJob, what: str) -> None:
    """Book in a separate process."""
    book_blocking(job, what)

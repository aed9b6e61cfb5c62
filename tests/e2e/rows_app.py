"""Rows of a table in the database of the jobs, processed by real workers: see ``jobs_app``."""

import asyncio
import os
from pathlib import Path

from holdfast import App, Batch
from tests.e2e.journal import Journal
from tests.e2e.waiting import eventually

FOLDER = Path(os.environ["E2E_FOLDER"])

app = App(
    os.environ["E2E_URL"],
    ttl=os.environ["E2E_TTL"],
    recovery_interval=os.environ["E2E_RECOVERY"],
    poll_interval=os.environ["E2E_POLL"],
    grace=os.environ["E2E_GRACE"],
)
journal = Journal(FOLDER)
pastes = app.rows(
    "pastes",
    key="id",
    status="status",
    pending="NEW",
    in_progress="BUSY",
    done="GONE",
    claimed_at="claimed_at",
    owner="owner",
    where="is_due",
    batch=4,
    stale_after=os.environ.get("E2E_STALE", "2h"),
    interval="0.2s",
)


@pastes.handler
async def delete(batch: Batch) -> None:
    """Write row states and their counts in one commit; while the batch waits at the gate, nothing is locked."""
    journal.write(batch.job, "claimed", keys=batch.keys)
    await eventually((FOLDER / "gate").exists, within=60)
    async with batch.transaction() as tx:
        count = len(await tx.done(batch.keys))
        answer = tx.connection.execute(f"UPDATE contents SET number = number - {count}")
        if asyncio.iscoroutine(answer):
            await answer

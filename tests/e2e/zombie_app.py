"""A worker that wakes and tries to change rows that another worker holds by now: see ``test_rows_rescued``."""

import asyncio
import os
from pathlib import Path
from typing import Any

from holdfast import App, Batch, RowsLost
from tests.e2e.journal import Journal
from tests.e2e.waiting import eventually
from tests.rows.databases import ENDING, PLAIN

FOLDER = Path(os.environ["E2E_FOLDER"])
OWNER = os.environ.get("E2E_OWNER")

app = App(os.environ["E2E_URL"], ttl=os.environ["E2E_TTL"], poll_interval=os.environ["E2E_POLL"])
journal = Journal(FOLDER)
options: dict[str, Any] = {**PLAIN, **ENDING, "batch": 5, "owner": OWNER, "interval": "0.2s"}
pastes = app.rows("pastes", **options)


@pastes.handler
async def meddle(batch: Batch) -> None:
    """Use every verb of the batch on one row each; the last row is left to be returned or stamped again."""
    journal.write(batch.job, "claimed", keys=batch.keys)
    await eventually((FOLDER / "gate").exists, within=60)
    done, retried, failed, sold, _ = batch.keys
    moved = [*await batch.done([done]), *await batch.retry([retried]), *await batch.fail([failed], "no reason")]
    was_lost = False
    try:
        async with batch.transaction() as tx:
            answer = tx.connection.execute("UPDATE contents SET number = number - 1")
            if asyncio.iscoroutine(answer):
                await answer
            await tx.done([sold])
    except RowsLost:
        was_lost = True
    is_alive = None if OWNER is None else await batch.alive()
    journal.write(batch.job, "meddled", moved=moved, was_lost=was_lost, is_alive=is_alive)

"""The handlers that are measured, as Holdfast's worker imports them: the environment chooses which."""

from __future__ import annotations

import os
from typing import Any

from holdfast import App, Batch

WATCH: dict[str, Any] = {
    "key": "id",
    "status": "status",
    "pending": "LIVE",
    "in_progress": "DELETING",
    "done": "DELETED",
    "claimed_at": "claimed_at",
    "where": "expires_at < CURRENT_TIMESTAMP",
}
app = App(os.environ.get("HOLDFAST_URL", "memory://"))
HAS_OWNER = os.environ.get("BENCH_OWNER") == "yes"
IS_COUNTED = os.environ.get("BENCH_COUNTED") == "yes"
COUNT = "UPDATE counters SET number = number - $1 WHERE id = 1"

if os.environ.get("HOLDFAST_URL"):
    pastes = app.rows("pastes", **WATCH, owner="claimed_by" if HAS_OWNER else None)

    @pastes.handler
    async def delete(batch: Batch) -> None:
        """Finish the rows of a batch, by itself or together with a count."""
        if not IS_COUNTED:
            await batch.done(batch.keys)
            return
        async with batch.transaction() as tx:
            gone = await tx.done(batch.open)
            if app.settings.url.startswith("sqlite:"):
                tx.connection.execute(COUNT.replace("$1", "?"), (len(gone),))
            else:
                await tx.connection.execute(COUNT, len(gone))

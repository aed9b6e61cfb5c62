"""Pastes that have expired are deleted, and with the last paste of a content its object in the bucket: see README.md."""

import os
import time
from collections import Counter

from bucket import Bucket
from cache import Cache
from tables import IS_SQLITE, URL, lower_uses

from holdfast import App, RowsLost, SyncBatch

app = App(URL, ttl=os.environ.get("PASTES_TTL", "30s"))
bucket, cache = Bucket(), Cache()
TIMEOUT = os.environ.get("PASTES_STALE_AFTER", "10m")
SIZE = int(os.environ.get("PASTES_BATCH", "1000"))
RUNS = int(os.environ.get("PASTES_RUNS", "1" if IS_SQLITE else "4"))  # a file has one writer at a time
PACE = float(os.environ.get("PASTES_PACE", "0"))  # seconds that a whole batch takes longer, for shows

pastes = app.rows(
    "pastes",
    key="id",
    status="status",
    pending="LIVE",
    in_progress="DELETING",
    done="DELETED",
    claimed_at="claimed_at",
    owner="claimed_by",
    where="expires_at < CURRENT_TIMESTAMP",
    columns=("content",),
    batch=SIZE,
    stale_after=TIMEOUT,
    concurrency=RUNS,
    interval="1s",
)
contents = app.rows(
    "contents",
    key="id",
    status="status",
    pending="UNUSED",
    in_progress="DELETING",
    done="GONE",
    claimed_at="claimed_at",
    owner="claimed_by",
    where="uses = 0",
    columns=("object",),
    batch=SIZE,
    stale_after=TIMEOUT,
    concurrency=(RUNS + 1) // 2,
    interval="1s",
)


@pastes.handler
def delete_pastes(batch: SyncBatch) -> None:
    """Delete the paste and lower its count in one commit, so that each is counted once, even if a worker dies or wakes up late.

    The cache may be invalidated twice, so that happens before: after a crash between the two steps the next attempt repeats it.
    """
    cache.forget(batch.keys)
    pause(len(batch))
    content_of = {row["id"]: row["content"] for row in batch.rows}
    while batch.open:
        try:
            with batch.transaction() as tx:
                gone = tx.done(batch.open)
                lower_uses(tx.connection, Counter(content_of[key] for key in gone))
        except RowsLost:
            continue  # nothing was committed, and batch.open has those that are still ours


@contents.handler
def delete_objects(batch: SyncBatch) -> None:
    """Delete objects whose count is zero: no paste uses such a content again, so its object may be deleted twice, at any time.

    Objects that the bucket did not delete stay open: their rows are retried with a later batch.
    """
    pause(len(batch))
    key_of = {row["object"]: row["id"] for row in batch.rows}
    batch.done(key_of[name] for name in bucket.delete(list(key_of)))


def pause(rows: int) -> None:
    time.sleep(PACE * rows / SIZE)

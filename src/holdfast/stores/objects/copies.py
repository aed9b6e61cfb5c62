"""Copies of a store in another place, and stores made of copies.

The head is read first: all runs that it names stay for a day, so the copy is the store at one moment although others write. The body of
a job that is deleted in that time may go. The copy then ends with an error, and can be made again.
"""

from typing import Any
from uuid import UUID

from msgspec import DecodeError, json, structs

from holdfast._core.book.table import RowChange
from holdfast._ports.backup import Backup
from holdfast._ports.bucket import ABSENT, Absent, Bucket, BucketUnavailable, Found
from holdfast.errors import ConfigurationError, SchemaMissing
from holdfast.stores.objects.archives import named_in
from holdfast.stores.objects.head import KEY, Head, read
from holdfast.stores.objects.inspection import latest, read_head
from holdfast.stores.objects.pieces import fetch, rows_in, unpacked

COPY = "backup.json"
"""The head of a copy. It has another name than that of a store, so that no worker uses a copy as one."""
EPOCHS = 1_000_000
"""What a restore adds to the epoch."""


async def back_up(bucket: Bucket, name: str, target: Bucket, place: str) -> Backup:
    """Copy a store to a place where there is nothing yet; each object is decoded on the way. ``Damaged``: one cannot be."""
    size, head = await read_head(bucket, name)
    for key, what in ((COPY, "a backup"), (KEY, "a store")):
        if await target.get(key) is not ABSENT:
            raise ConfigurationError([f"{place}: there is {what} already, and a backup replaces nothing: name another place"])
    rows, copied = await _copy(bucket, head, target)
    # The objects first: a copy whose head is there is whole.
    await target.put(COPY, json.encode(head), ABSENT)
    return Backup(place, _jobs(rows), size + copied)


async def restore(bucket: Bucket, name: str, source: Bucket, place: str, *, store: UUID, is_forced: bool) -> Backup:
    """Make a store of a copy, or of the objects of a store. What its new head does not name is left to ``compact``."""
    there = await bucket.get(KEY)
    if there is not ABSENT and not is_forced:
        remedy = "restore to another prefix, or pass --force, by which all jobs of this store are forgotten"
        raise ConfigurationError([f"{name}: there is a store already: {remedy}"])
    try:
        size, head = await read_head(source, place, KEY if await source.get(COPY) is ABSENT else COPY)
    except SchemaMissing:
        raise ConfigurationError(
            [f"{place}: there is no backup here: name the place that `holdfast store backup` wrote"]
        ) from None
    rows, copied = await _copy(source, head, bucket)
    await _replace(bucket, restored(head, store), there.etag if isinstance(there, Found) else ABSENT)
    return Backup(name, _jobs(rows), size + copied)


def restored(head: Head, store: UUID) -> Head:
    """Return the head of a copy as that of a new store: processes that know the old one stop at the next read.

    No broker of the old store has reached its epoch: what such a broker answers is older than every answer of the new one.
    """
    return structs.replace(head, store=store, epoch=head.epoch + EPOCHS, broker=None, garbage=())


async def _copy(bucket: Bucket, head: Head, target: Bucket) -> tuple[dict[tuple[str, Any], Any], int]:
    """Copy what a head names; return the newest rows, and the bytes of the objects."""
    rows, size = list[RowChange](), 0
    for run in head.runs:
        body = await fetch(bucket, run.key)
        rows += rows_in(run, body)
        await target.put(run.key, body)
        size += len(body)
    newest = latest(rows, head)
    for key in sorted(await named_in(bucket, ((table, key, row) for (table, key), row in newest.items()))):
        body = await fetch(bucket, key)
        if (archive := newest.get(("archives", key))) is not None:
            unpacked(key, archive.size, body)
        await target.put(key, body)
        size += len(body)
    return newest, size


async def _replace(bucket: Bucket, head: Head, match: str | Absent) -> None:
    try:
        await bucket.put(KEY, json.encode(head), match)
    except BucketUnavailable:
        found = await bucket.get(KEY)  # whether it is there now, only a read can answer
        if not isinstance(found, Found) or not _is_of(found, head.store):
            raise


def _is_of(found: Found, store: UUID) -> bool:
    try:
        return read(found.body).store == store
    except DecodeError:
        return False


def _jobs(rows: dict[tuple[str, Any], Any]) -> int:
    archived: int = sum(row.jobs for (table, _), row in rows.items() if table == "archives")
    return archived + sum(table == "jobs" for table, _ in rows)

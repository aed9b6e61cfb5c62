"""The immutable objects beside the head: runs, which are flushed from its tail and merged."""

import asyncio
import gzip
import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import DecodeError, Struct, structs

from holdfast._core.book.table import RowChange
from holdfast._core.book.tables import decode, encode
from holdfast._ports.bucket import Bucket, BucketProblem, BucketUnavailable, Found
from holdfast.stores.objects.head import RING, Dropped, Head, Past, Run

RUNS = "runs"
"""The folder of the runs."""
FULL = 128 * 1024
"""The bytes of a tail beyond which it is flushed."""
KEPT = timedelta(hours=24)
"""How long an object is kept that no head names any more."""
MOST_RUN = 1024 * 1024 * 1024
"""The most bytes of a run before compression: more would not fit into the memory of a process."""
_GZIP = 31
"""zlib's word for the gzip format."""


class Damaged(BucketUnavailable):
    """An object that the store needs is missing, or cannot be read."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}: {REMEDY}", BucketProblem.SERVER)
        self.key, self.what = key, problem


RESTORE = "`holdfast store restore PLACE --force`, with PLACE of the newest backup, forgets what came after it"
REMEDY = f"restore the object; or {RESTORE}"


class NewRun(Struct, frozen=True):
    """A run that the next commit puts into the head. ``replaces``: the keys of the runs from which it was merged; none: the tail."""

    run: Run
    replaces: tuple[str, ...] = ()

    def put_into(self, head: Head, now: datetime) -> Head:
        """Return the head with the run in it; the same one if another process has flushed or merged by now."""
        if self.replaces:
            keys = tuple(run.key for run in head.runs)
            first = keys.index(self.replaces[0]) if self.replaces[0] in keys else len(keys)
            last = first + len(self.replaces)
            if keys[first:last] != self.replaces:
                return head
            garbage = (*head.garbage, *(Dropped(key, now) for key in keys[first:last]))
            return structs.replace(head, runs=(*head.runs[:first], self.run, *head.runs[last:]), garbage=garbage)
        if head.flushed != self.run.since:
            return head
        left = [Past(each.version, each.nonce) for each in head.tail if each.version <= self.run.until]
        tail = tuple(each for each in head.tail if each.version > self.run.until)
        ring = sorted((*head.ring, *left), key=lambda past: past.version)
        return structs.replace(head, runs=(*head.runs, self.run), ring=tuple(ring[-RING:]), tail=tail)


def mergeable(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Return the runs to merge: those from the oldest on that is not larger than all newer ones together."""
    for first, run in enumerate(runs[:-1]):
        if run.size <= sum(newer.size for newer in runs[first + 1 :]):
            return runs[first:]
    return ()


async def flush(bucket: Bucket, head: Head, nonce: UUID) -> NewRun:
    """Write the changes of the tail as a run."""
    # in a thread, as in merge
    data = await asyncio.to_thread(lambda: encode(_latest(row for commit in head.tail for row in commit.rows())))
    return NewRun(await _write(bucket, data, head.flushed, head.version, nonce))


async def merge(bucket: Bucket, head: Head, old: tuple[Run, ...], nonce: UUID) -> NewRun:
    """Write several runs as one. Only in the oldest run are deletions without effect, so that they may be left out."""
    bodies = [await fetch(bucket, run.key) for run in old]
    # in a thread: a hundred thousand jobs take seconds, in which beats must be written
    data = await asyncio.to_thread(_merged, old, bodies, drops_deletions=old[0] == head.runs[0])
    written = await _write(bucket, data, old[0].since, old[-1].until, nonce)
    return NewRun(written, tuple(run.key for run in old))


async def collect(bucket: Bucket, head: Head, now: datetime) -> tuple[Dropped, ...]:
    """Delete the objects that no head has named for long, and return them."""
    old = tuple(each for each in head.garbage if now - each.at > KEPT)
    for each in old:
        await bucket.delete(each.key)
    return old


async def load(bucket: Bucket, run: Run) -> list[RowChange]:
    """Return the changes in a run. ``BucketUnavailable``: it could not be read, or is missing or damaged."""
    return rows_in(run, await fetch(bucket, run.key))


async def fetch(bucket: Bucket, key: str) -> bytes:
    """Return an object as it is stored. ``BucketUnavailable``: it could not be read, or is missing."""
    found = await bucket.get(key)
    if not isinstance(found, Found):
        raise Damaged(key, "is missing in the bucket")
    return found.body


async def _write(bucket: Bucket, data: bytes, since: int, until: int, nonce: UUID) -> Run:
    run = Run(f"{RUNS}/{until:012d}-{nonce.hex}.json.gz", since, until, len(data))
    await bucket.put(run.key, await asyncio.to_thread(gzip.compress, data, 1))
    return run


def _merged(runs: tuple[Run, ...], bodies: list[bytes], *, drops_deletions: bool) -> bytes:
    rows = _latest(row for run, body in zip(runs, bodies, strict=True) for row in rows_in(run, body))
    return encode(each for each in rows if not drops_deletions or each[2] is not None)


def rows_in(run: Run, body: bytes) -> list[RowChange]:
    """Return the changes in a run as it is stored. ``Damaged``: it cannot be read, or unpacks to more than its head names."""
    return unpacked(run.key, run.size, body)


def unpacked(key: str, size: int, body: bytes) -> list[RowChange]:
    """Return the changes in an object of this size before compression. ``Damaged``: it cannot be read, or has another size."""
    try:
        unpacking = zlib.decompressobj(_GZIP)
        data = unpacking.decompress(body, min(size, MOST_RUN) + 1)
        if len(data) == size and unpacking.eof:
            return [*decode(data)]
    except (DecodeError, RecursionError, zlib.error):
        pass
    raise Damaged(key, "cannot be read")


def _latest(rows: Iterable[RowChange]) -> list[RowChange]:
    newest = dict[tuple[str, Any], RowChange]()
    for row in rows:
        newest[row[0], row[1]] = row
    return [*newest.values()]

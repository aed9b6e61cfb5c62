"""What a store consists of, and whether all of it is there and fits together. Nothing is written."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import DecodeError

from holdfast._core.book.book import Book
from holdfast._core.book.soundness import problems_of
from holdfast._core.book.table import RowChange
from holdfast._core.job import FINISHED
from holdfast._core.release import UPGRADE
from holdfast._ports.bucket import ABSENT, Bucket, Found
from holdfast._ports.upkeep import Damage, Inspection, Verification
from holdfast.errors import SchemaMissing, SchemaTooNew
from holdfast.stores.objects.archives import rows_of
from holdfast.stores.objects.bodies import BODIES, keys_in
from holdfast.stores.objects.head import FORMAT, KEY, Head, read
from holdfast.stores.objects.pieces import REMEDY, RESTORE, RUNS, Damaged, load


async def inspect(bucket: Bucket, name: str) -> Inspection:
    """Read the head, its runs and a list of all objects. ``Damaged``: an object is missing or cannot be read."""
    size, head = await read_head(bucket, name)
    rows = latest([row for run in head.runs for row in await load(bucket, run)], head)
    jobs = [row for (table, _), row in rows.items() if table == "jobs"]
    finished = sum(row.state in FINISHED for row in jobs)
    archived = sum(row.jobs for (table, _), row in rows.items() if table == "archives")
    listed = await bucket.list()
    return Inspection(
        url=name,
        format=head.format,
        needs=head.needs,
        store=head.store,
        version=head.version,
        epoch=head.epoch,
        broker=None if head.broker is None else head.broker.url,
        written_at=head.tail[-1].at if head.tail else None,
        head_bytes=size,
        tail_commits=len(head.tail),
        tail_bytes=head.tail_size,
        runs=len(head.runs),
        run_bytes=head.run_size,
        garbage=len(head.garbage),
        unnamed=sum(each.key.startswith(f"{RUNS}/") and each.key not in head.keys for each in listed),
        stored_bytes=sum(each.size for each in listed),
        rows=dict(sorted(Counter(table for table, _ in rows).items())),
        unfinished=len(jobs) - finished,
        finished=finished,
        archived=archived,
    )


async def verify(bucket: Bucket, name: str, wall: datetime) -> Verification:
    """Read everything that the head names, and go on after what is damaged, to name all of it. An outage is an error, and no damage."""
    try:
        _, head = await read_head(bucket, name)
    except Damaged as error:
        return Verification(version=None, objects=1, rows=0, jobs=0, damage=(Damage(KEY, error.what, RESTORE),))
    found, rows = [*_gaps(head)], list[RowChange]()
    for run in head.runs:
        try:
            rows += await load(bucket, run)
        except Damaged as error:
            found.append(Damage(run.key, error.what, REMEDY))
    for commit in head.tail:
        try:
            rows += commit.rows()
        except (DecodeError, RecursionError):
            found.append(Damage(KEY, f"has a commit, version {commit.version}, that cannot be read", RESTORE))
    book = Book()
    if not found:
        book.load(rows)
        remedy = "start the processes again, and report it: the rows are whole, and a fresh load derives the rest from them"
        found += [Damage(KEY, problem, remedy) for problem in problems_of(book, wall)]
    newest = {(table, key): row for table, key, row in rows}
    left = [table for (table, _), row in newest.items() if row is not None]
    archives, bodies = await _archived(bucket, newest, found)
    bodies |= keys_in(newest.values())
    stored = {each.key for each in await bucket.list(BODIES)}
    found += [Damage(key, "is missing in the bucket", REMEDY) for key in sorted(bodies - stored)]
    return Verification(
        version=head.version,
        objects=1 + len(head.runs) + archives + len(bodies),
        rows=len(left),
        jobs=left.count("jobs") + sum(row.jobs for (table, _), row in newest.items() if table == "archives" and row is not None),
        damage=tuple(found),
    )


async def read_head(bucket: Bucket, name: str, key: str = KEY) -> tuple[int, Head]:
    """Return the bytes of the head, and the head. ``SchemaMissing``, ``SchemaTooNew`` or ``Damaged``: there is none that can be used."""
    found = await bucket.get(key)
    if found is ABSENT:
        raise SchemaMissing(
            f"{name}: there is no store here: correct the URL, or run `holdfast migrate module:app` or `holdfast store restore PLACE`"
        )
    assert isinstance(found, Found)
    try:
        head = read(found.body)
    except DecodeError:
        raise Damaged(key, "cannot be read") from None
    if head.needs > FORMAT:
        raise SchemaTooNew(f"{name}: it was migrated by a newer release: {UPGRADE}")
    return len(found.body), head


def latest(rows: list[RowChange], head: Head) -> dict[tuple[str, Any], Any]:
    """Return the rows of runs, and of the tail after them, as they are now, by table and key. ``Damaged``: a commit cannot be read."""
    try:
        rows += [row for commit in head.tail for row in commit.rows()]
    except (DecodeError, RecursionError):
        raise Damaged(KEY, "has a commit that cannot be read") from None
    newest = {(table, key): row for table, key, row in rows}
    return {key: row for key, row in newest.items() if row is not None}


async def _archived(bucket: Bucket, rows: Mapping[tuple[str, Any], Any], found: list[Damage]) -> tuple[int, set[str]]:
    """Read all archives, and add what is damaged; return how many there are, and the bodies that their jobs name."""
    archives = {key: row for (table, key), row in rows.items() if table == "archives" and row is not None}
    recalled = Counter(key[0] for (table, key), row in rows.items() if table == "recalled" and row is not None)
    bodies = set[str]()
    for key, archive in archives.items():
        try:
            changes = await rows_of(bucket, key, archive)
        except Damaged as error:
            found.append(Damage(key, error.what, REMEDY))
            continue
        bodies |= keys_in(row for _, _, row in changes)
        if sum(table == "jobs" for table, _, _ in changes) != archive.jobs + recalled[key]:
            found.append(Damage(key, "has other jobs than were written", REMEDY))
    return len(archives), bodies


def _gaps(head: Head) -> list[Damage]:
    """Name the versions that nothing in the head has. Of the tail only the end is known: commits without changes have left it."""
    found, known = list[Damage](), 0
    for run in head.runs:
        if run.since != known:
            found.append(Damage(KEY, f"names no object with versions {known + 1} to {run.since}", RESTORE))
        known = run.until
    newest = head.tail[-1].version if head.tail else known
    if newest != head.version:
        found.append(Damage(KEY, f"names no object with versions {newest + 1} to {head.version}", RESTORE))
    return found

"""Objects with finished jobs. A commit takes the jobs out of the book when their object is durable; a call that names one reads it."""

import asyncio
import gzip
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from holdfast._core.book.archive import Archive
from holdfast._core.book.archiving import WholeList
from holdfast._core.book.book import Book
from holdfast._core.book.naming import named_jobs
from holdfast._core.book.table import RowChange
from holdfast._core.book.tables import encode
from holdfast._core.record import JobRecord, matches, retention_of
from holdfast._core.requests import JobFilter
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Randomness
from holdfast.stores.objects.bodies import Bodies, keys_in
from holdfast.stores.objects.notices import Notices
from holdfast.stores.objects.pieces import Damaged, fetch, unpacked

PAST = "past"
"""The folder of the archives: below it one for each day on which they may be deleted."""
OUR_ARCHIVE = re.compile(rf"{PAST}/\d{{4}}-\d\d-\d\d/[0-9a-f]{{32}}\.json\.gz")
"""The keys of archives. What else is in their folder is not deleted: it may belong to another program."""
JOBS = 5000
"""The jobs of an archive."""
_DECODED = 8
"""The archives that a process keeps decoded, the last used ones."""
_LENIENT = frozenset(("exchange", "annotate", "enqueue", "enqueue_flow", "list_whole"))
"""The verbs that go on without the jobs of a damaged archive: a worker must not stop because of them."""

Jobs = Mapping[UUID, Sequence[RowChange]]
"""The rows of each job in an archive."""


class Archived(Exception):
    """Archives that a call needs and that have not been read for it yet."""

    def __init__(self, archives: Mapping[str, Archive]) -> None:
        super().__init__(f"{len(archives)} archives must be read first")
        self.archives = archives


class Archives:
    """The archives of one store, as a process reads them."""

    def __init__(self, bodies: Bodies, notices: Notices) -> None:
        self._bodies, self._notices = bodies, notices
        self._decoded = OrderedDict[str, Jobs]()

    async def read(self, verb: str, archives: Mapping[str, Archive]) -> dict[str, Jobs]:
        """Return the jobs in archives that a call of this verb needs. ``Damaged``: one cannot be read, and the answer would be wrong."""
        return {key: await self._jobs(key, archive, is_lenient=verb in _LENIENT) for key, archive in archives.items()}

    async def listed(self, whole: WholeList, which: JobFilter) -> tuple[JobRecord, ...]:
        """Return the jobs to list: those of the book, and those in archives, from the newest on. It reads no more of these than it must."""
        found = {row.id: row for row in whole.rows}
        for each in sorted(whole.archives, key=lambda each: each.archive.high, reverse=True):
            if len(found) == which.limit and min(found) > each.archive.high:
                break
            jobs = await self._jobs(each.key, each.archive, is_lenient=True)
            rows = (row for job, changes in jobs.items() if job not in each.gone for table, _, row in changes if table == "jobs")
            found = {row.id: row for row in rows if matches(row, which, whole.wall)} | found
            found = {job: found[job] for job in sorted(found, reverse=True)[: which.limit]}
        return tuple(found.values())

    async def _jobs(self, key: str, archive: Archive, *, is_lenient: bool) -> Jobs:
        if key not in self._decoded:
            try:
                body = await self._bodies.object_of(key)
                if body is None:
                    raise Damaged(key, "is missing in the bucket")
                self._decoded[key] = await asyncio.to_thread(_unpack, key, archive, body)
            except Damaged as error:
                self._notices.damage(error.key, error.what)
                self._bodies.forget(key)
                if is_lenient:
                    return {}
                raise
        self._decoded.move_to_end(key)
        while len(self._decoded) > _DECODED:
            self._decoded.popitem(last=False)
        return self._decoded[key]


def take_back(book: Book, verb: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any], read: Mapping[str, Jobs]) -> None:
    """Take the jobs that a call names back into the book. ``read``: the archives that were read for the call. ``Archived``: it needs
    others."""
    unread, found = dict[str, Archive](), dict[str, dict[UUID, Sequence[RowChange]]]()
    for job in named_jobs(verb, arguments, keywords):
        for key, archive in book.archives_of(job):
            if key not in read:
                unread[key] = archive
            elif job in read[key]:
                found.setdefault(key, {})[job] = read[key][job]
    if unread:
        raise Archived(unread)
    for key, jobs in found.items():
        book.recall(key, jobs)


def archive_of(rows: Sequence[RowChange]) -> tuple[Archive, bytes]:
    """Return an archive with the rows of these jobs, and its content."""
    jobs = [row for table, _, row in rows if table == "jobs"]
    groups = Counter((job.queue, job.task, job.state) for job in jobs)
    ends = (job.finished_at + timedelta(seconds=retention_of(job)) for job in jobs)
    data = encode(rows)
    archive = Archive(
        low=min(job.id for job in jobs),
        high=max(job.id for job in jobs),
        delete_after=max(ends),
        groups=tuple((*group, number) for group, number in sorted(groups.items())),
        size=len(data),
        names_bodies=bool(keys_in(row for _, _, row in rows)),
    )
    return archive, gzip.compress(data, 1)


def key_of(archive: Archive, chance: Randomness) -> str:
    """Return a new key for an archive."""
    return f"{PAST}/{archive.delete_after:%Y-%m-%d}/{chance.uuid4().hex}.json.gz"


async def rows_of(bucket: Bucket, key: str, archive: Archive) -> list[RowChange]:
    """Return the rows in an archive, also of jobs that it no longer has. ``Damaged``: it is missing, or cannot be read."""
    return await asyncio.to_thread(unpacked, key, archive.size, await fetch(bucket, key))


async def named_in(bucket: Bucket, known: Iterable[RowChange]) -> set[str]:
    """Return the keys of the archives and bodies that known rows name, and of the bodies that the jobs in the archives name."""
    found = [*known]
    named = await asyncio.to_thread(keys_in, (row for _, _, row in found))
    for key, archive in ((key, row) for table, key, row in found if table == "archives" and row is not None):
        named.add(key)
        if archive.names_bodies:
            rows = await rows_of(bucket, key, archive)
            named |= await asyncio.to_thread(keys_in, [row for _, _, row in rows])
    return named


def _unpack(key: str, archive: Archive, body: bytes) -> Jobs:
    jobs = dict[UUID, list[RowChange]]()
    for change in unpacked(key, archive.size, body):
        of = change[1]
        jobs.setdefault(of if isinstance(of, UUID) else of[0], []).append(change)
    return jobs

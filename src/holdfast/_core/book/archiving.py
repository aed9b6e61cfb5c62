"""The verbs by which a store keeps finished jobs outside its book, and takes them back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from msgspec import Struct

from holdfast._core.book.archive import Archive, ListedArchive
from holdfast._core.book.line import Line
from holdfast._core.book.moment import Moment
from holdfast._core.book.reading import BookReading
from holdfast._core.book.rows import Waiting
from holdfast._core.book.table import RowChange
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter

LEAST_RETENTION = 3600.0
"""The least retention, in seconds, of jobs that are archived."""
SPAN = timedelta(days=1)
"""The most time between the ends of the jobs of one archive: the first ones are kept longer by as much."""
MOST_ROWS = 20_000
"""The rows, beside those of one more job, that are archived at once: the commit deletes each of them."""


class WholeList(Struct, frozen=True):
    """The jobs of a book to list, and the archives that may have more of them, at one time."""

    rows: tuple[JobRecord, ...]
    archives: tuple[ListedArchive, ...]
    wall: datetime


class BookArchiving(BookReading):
    """The verbs of archives. No store port has them: a store that has a book in a bucket calls them beside those of the port.

    ``floors``: how many times the floor a job has to have ended ago. What goes at the floor has gone by then.
    """

    floors = 2

    def archivable(self, wall: datetime, count: int) -> list[RowChange]:
        """Return the rows of up to ``count`` jobs of one retention, those that ended first; none while there are not as many."""
        end = wall - timedelta(seconds=self.floors * self.floor)
        for (retention, is_stub, is_plain), line in self._all.ended.items():
            if is_plain and not is_stub and retention >= LEAST_RETENTION and len(line) - line.later(end) >= count:
                return self._first_rows(line, count)
        return []

    def _first_rows(self, line: Line[Waiting], count: int) -> list[RowChange]:
        """Return the rows of the first jobs of a line. They end on the same day, because an archive is deleted as a whole."""
        rows, last = list[RowChange](), next(iter(line))[0] + SPAN
        for ended, job in islice(line, count):
            if ended > last or len(rows) >= MOST_ROWS:
                break
            rows += self._rows_of([job])
        return rows

    def archive(self, now: Moment, key: str, archive: Archive, rows: Sequence[RowChange]) -> bool:
        """Take jobs out of the book that an object has now; return whether that was done. It is not if one of them has changed since."""
        jobs = [job for table, job, _ in rows if table == "jobs"]
        if archive.delete_after <= now.wall or [*self._rows_of(jobs)] != [*rows]:
            return False
        for row in self._rows(jobs):
            self._forget(row)
        self._all.archives[key] = archive
        return True

    def recall(self, key: str, jobs: Mapping[UUID, Sequence[RowChange]]) -> None:
        """Take jobs back into the book; ``jobs``: their rows in the object, which must have them."""
        for rows in jobs.values():
            self.write(rows)
        self._all.archives[key] = self._all.archives[key].without(self._rows([*jobs]))
        for job in jobs:
            self._all.recalled.put(key, job, True)

    @property
    def has_archives(self) -> bool:
        """Whether jobs are outside the book."""
        return bool(self._all.archives)

    def archives_of(self, job: UUID) -> list[tuple[str, Archive]]:
        """Return the archives, with their keys, that may have a job. None has one that is in the book."""
        if job in self._all.jobs:
            return []
        archives, recalled = self._all.archives, self._all.recalled
        later = ((key, archives[key]) for _, key in self._all.archived_until.beyond((job, "")))
        return [(key, archive) for key, archive in later if archive.low <= job and job not in recalled.get(key, ())]

    def list_whole(self, now: Moment, which: JobFilter) -> WholeList:
        """Return the jobs of the book to list, and the archives that may have more."""
        found = [
            ListedArchive(key, archive, frozenset(self._all.recalled.get(key, ())))
            for key, archive in self._all.archives.items()
            if archive.may_match(which)
        ]
        return WholeList(self.list(now, which), tuple(found), now.wall)

    def _drop_archive(self, key: str) -> int:
        """Forget an object; return how many jobs it still had."""
        jobs = self._all.archives[key].jobs
        del self._all.archives[key]
        self._all.recalled.drop_all(key)
        return jobs

    def _rows_of(self, jobs: Iterable[UUID]) -> Iterator[RowChange]:
        """Return all rows of finished jobs outside workflows."""
        known = self._all
        for job in jobs:
            if (row := known.jobs.get(job)) is not None:
                yield "jobs", job, row
            if (marks := known.marks.get(job)) is not None:
                yield "marks", job, marks
            if (signals := known.signals.get(job)) is not None:
                yield "signals", job, signals
            yield from (("attempts", (job, token), each) for token, each in known.attempts.get(job, {}).items())
            yield from (("steps", (job, key), each) for key, each in known.steps.get(job, {}).items())

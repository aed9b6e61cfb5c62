"""A recording book of one process whose writes count only once they are in the bucket: until then their events are kept back."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from uuid import UUID

from holdfast._core.book.archive import Archive
from holdfast._core.book.book import Book
from holdfast._core.book.content import Snapshot
from holdfast._core.book.moment import Moment, micros
from holdfast._core.book.state import Savepoint
from holdfast._core.book.table import RowChange
from holdfast._core.job import Json
from holdfast._core.record import JobRecord
from holdfast._ports.clock import Clock
from proof.checker.history import By, Event, History, JobRow, LeaseRow
from proof.stores.recording_book import RecordingBook


class Uncommitted:
    """What a process has changed in its book and not yet written.

    ``wall``: its time, by which its writes decide what is due. ``clock``: that of the world. ``beats``: those that a leader keeps in
    memory, of the newest requests.
    """

    wall: Callable[[], datetime]

    def __init__(self, caller: str, clock: Clock, now: Callable[[], float], known: Collection[str]) -> None:
        self.caller, self.now, self.known = caller, now, known
        self._clock, self.history = clock, History()
        self.beats = list[Event]()

    def moment(self) -> Moment:
        """Return the time of a write that is made now."""
        return Moment(self.wall(), micros(self._clock.monotonic()))

    @property
    def events(self) -> list[Event]:
        """The events of all verbs since the last commit."""
        return self.history.events


_ARCHIVED = dict[str, dict[UUID, JobRow]]()
"""The jobs that were put into each archive, which only its object has."""


class CommittedBook(RecordingBook):
    """A mixin before a recording book. Rows may change by commits of others, so that it records from its tables what was before."""

    around: Uncommitted
    _is_archiving = False

    def savepoint(self) -> Savepoint:
        """Note how many events there are; without a change before, there are none that the next commit could write."""
        start = super().savepoint()
        if not start.noted:
            self.around.events.clear()
        self._mark, self.recorded_flows = len(self.around.events), dict(self._all.flows)
        return start

    def undo(self, savepoint: Savepoint) -> None:
        """Forget the events of what is undone: a verb that failed, or all."""
        super().undo(savepoint)
        del self.around.events[self._mark if savepoint.noted else 0 :]
        self._grown.clear()
        self._is_marked = False

    def forget_journal(self) -> None:
        """Forget the events of what is committed: the next commit is another one."""
        super().forget_journal()
        self.around.events.clear()

    @property
    def is_changed(self) -> bool:
        """Whether it has changes that are not committed."""
        return bool(self._all.journal)

    def lease_row(self, lease: UUID) -> LeaseRow | None:
        return self._lease_row(lease)

    def archive(self, now: Moment, key: str, archive: Archive, rows: Sequence[RowChange]) -> bool:
        """Record nothing: the jobs are still in the store."""
        _ARCHIVED[key] = {row.id: self._row_of(row) for table, _, row in rows if table == "jobs"}
        self._is_archiving = True
        try:
            return super().archive(now, key, archive, rows)
        finally:
            self._is_archiving = False

    def _drop_archive(self, key: str) -> int:
        """Record that the jobs of the archive are no longer in the store."""
        gone = self._all.recalled.get(key, {}).keys()
        for job, row in _ARCHIVED[key].items():
            if job not in gone:
                self._record("job", self._by, job=job, before=row, after=None)
        return super()._drop_archive(key)

    def _put(self, row: JobRecord) -> None:
        known = self._all.jobs.get(row.id)
        if known is None:
            self.recorded_rows.pop(row.id, None)
        else:
            self.recorded_rows[row.id] = self._row_of(known)
        super()._put(row)

    def _forget(self, row: JobRecord) -> None:
        self.recorded_rows[row.id] = self._row_of(row)
        super()._forget(row)

    def _record(self, what: str, by: By | None, **fields: Json) -> None:
        if not self._is_archiving:
            super()._record(what, by, **fields)


def archived_in(known: object) -> list[UUID]:
    """Return the jobs that are in archives and not in the book; a store without a book has none."""
    if not isinstance(known, Snapshot):
        return []
    return [job for key in known.archives for job in _ARCHIVED[key] if job not in known.recalled.get(key, ())]


def committed(kind: type[Book], around: Uncommitted, *, floor: float, records_claims: bool) -> Callable[[], Book]:
    """Return what makes an empty book of that kind for one process; a process makes another one when it loads all rows again. Finished jobs
    may be archived at once."""
    bases = (CommittedBook, *(() if issubclass(kind, RecordingBook) else (RecordingBook,)), kind)
    made = type(f"Committed{kind.__name__}", bases, {"floor": floor, "floors": 0, "records_claims": records_claims})

    def new_book() -> Book:
        book: CommittedBook = made()
        book.around = around
        return book

    return new_book

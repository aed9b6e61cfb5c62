"""The state of a book: what changes its rows, undoes changes and passes them on, and what finds rows for all verbs."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.audit import AuditNote, recorded
from holdfast._core.book.content import TABLES, Content, Snapshot
from holdfast._core.book.indexes import BookIndexes
from holdfast._core.book.moment import Moment
from holdfast._core.book.rows import Rows, key_of
from holdfast._core.book.table import RowChange
from holdfast._core.flow_changes import FlowChanges
from holdfast._core.job import ACTIVE, State, Token
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.record import JobRecord
from holdfast._core.requests import QueueSettings
from holdfast._core.steps import StepRecord
from holdfast._core.unique_keys import holds_key
from holdfast._core.workflow import Edge


class Savepoint(Struct, frozen=True):
    """A moment to which a book can go back: how many changes it had noted, and how many of whole workflows."""

    noted: int
    flow_changes: int


class BookState(BookIndexes):
    """The tables and indexes of a book. ``floor``: seconds for which nothing that a repeated request needs is pruned."""

    floor = RETENTION_FLOOR
    schema_version = 1

    def __init__(self) -> None:
        self._all = Content(self._index_job)
        self.flow_changes = FlowChanges()

    def contents(self) -> Iterator[RowChange]:
        """Return every row with the name of its table and its key: the content, without its indexes."""
        return self._all.rows()

    @property
    def job_count(self) -> int:
        """How many jobs there are, finished ones among them."""
        return len(self._all.jobs)

    def _audit(self, now: Moment, by: AuditNote | None, count: int) -> None:
        """Record a write of an operator's action, if it is one."""
        if by is not None:
            self._all.audits[by.id] = recorded(self._all.audits.get(by.id), by, count, now.wall)

    def savepoint(self) -> Savepoint:
        """Return the moment to which ``undo`` goes back, as long as the journal is not forgotten."""
        return Savepoint(len(self._all.journal), self.flow_changes.added)

    def undo(self, savepoint: Savepoint) -> None:
        """Take back all changes since a savepoint."""
        journal = self._all.journal
        while len(journal) > savepoint.noted:
            table, key, row = journal.pop()
            table.place(key, row)
        self.flow_changes.take_back(savepoint.flow_changes)

    def changes(self, since: Savepoint | None = None) -> list[RowChange]:
        """Return each changed key once, in the order of first changes, with its row as it is now; ``None``: it was deleted."""
        noted = self._all.journal if since is None else self._all.journal[since.noted :]
        tables = {(table.name, key): table for table, key, _ in noted}
        return [(name, key, table.row(key)) for (name, key), table in tables.items()]

    def forget_journal(self) -> None:
        """Forget what was changed: it is stored, or need not be. Savepoints end."""
        self._all.journal.clear()

    def load(self, changes: Iterable[RowChange]) -> None:
        """Write the changes of another book with the same rows; they are not noted in the journal of this one."""
        for name, key, row in changes:
            self._all.table(name).place(key, row)

    def write(self, changes: Iterable[RowChange]) -> None:
        """Write changes as a verb does: they are noted in the journal."""
        for name, key, row in changes:
            table = self._all.table(name)
            self._all.journal.append((table, key, table.row(key)))
            table.place(key, row)

    def snapshot(self) -> Snapshot:
        """Return the rows of the book now, for ``restore``."""
        return self._all.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which stays usable."""
        self._all = Content(self._index_job)
        for name in TABLES:
            self._all.table(name).place_all(getattr(snapshot, name))

    def _put(self, row: JobRecord) -> None:
        self._all.jobs[row.id] = row
        if row.member is not None and row.id not in self._all.places:
            self._all.places[row.id] = self._all.next_number("place")

    def _keep_step(self, job: UUID, record: StepRecord) -> None:
        """Write the record of a step, unless there is one."""
        if self._all.steps.row((job, record.key)) is None:
            self._all.steps.put(job, record.key, record)

    def _put_edges(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self._all.edges.put(edge.child, edge.parent, edge)

    def _forget(self, row: JobRecord) -> None:
        known = self._all
        del known.jobs[row.id]
        known.attempts.drop_all(row.id)
        known.steps.drop_all(row.id)
        known.marks.pop(row.id, None)
        known.signals.pop(row.id, None)
        if row.member is not None:
            known.places.pop(row.id, None)
            known.edges.drop_all(row.id)
            for child in [*known.children.get(row.id, ())]:
                is_outside = known.edges[child][row.id].parent_flow is not None
                if is_outside and known.jobs[child].state is not State.BLOCKED:
                    known.edges.drop(child, row.id)
            known.flows.pop(row.id, None)

    def _each(self, ids: Iterable[UUID]) -> Iterator[JobRecord]:
        jobs = self._all.jobs
        return (row for job in ids if (row := jobs.get(job)) is not None)

    def _in_its_queue(self, row: JobRecord) -> JobRecord:
        """Return a new row with the priority that its queue adds."""
        more = self._all.queue_settings.get(row.queue, QueueSettings()).priority
        return structs.replace(row, priority=row.priority + more) if more else row

    def _holder(self, row: JobRecord, now: datetime) -> JobRecord | None:
        """Return the job that holds the unique key of this one now."""
        keeper = self._keeper(row)
        return keeper if keeper is not None and holds_key(keeper, now) else None

    def _keeper(self, row: JobRecord) -> JobRecord | None:
        key = key_of(row)
        keeper = None if key is None else self._all.keys.get(key)
        return None if keeper is None else self._all.jobs[keeper]

    def _take_key(self, row: JobRecord) -> None:
        """Free the unique key of a job from another one whose time is over."""
        keeper = self._keeper(row)
        if keeper is not None and keeper.id != row.id:
            self._put(structs.replace(keeper, uniqueness=structs.replace(keeper.uniqueness, is_freed=True)))

    def _is_lone(self, row: JobRecord) -> bool:
        """Return whether a job has a flow only because others depend on it, or it on others."""
        is_root = row.member is not None and row.member.flow == row.id and not row.member.is_gate
        return is_root and len(self._all.members[row.id]) == 1

    def _rows(self, ids: Sequence[UUID]) -> Rows:
        return [*self._each(dict.fromkeys(ids))]

    def _are_new(self, ids: Sequence[UUID]) -> bool:
        """Return whether no job has one of these ids, and no two of them are equal."""
        return len({*ids}) == len(ids) and not self._rows(ids)

    def _waiting(self, queue: str) -> Iterator[UUID]:
        """Return the available jobs of a queue, line by line."""
        lines = sorted(which for which in self._all.ranges if which[1] == queue)
        return (job for which in lines for _, job in self._all.ranges[which])

    def _held(self, lease: UUID) -> Rows:
        rows = [self._all.jobs[job] for job in self._all.holds.get(lease, ())]
        return sorted(rows, key=lambda row: row.token.number)

    def _active(self, job: UUID, token: Token) -> JobRecord | None:
        row = self._all.jobs.get(job)
        is_owned = row is not None and row.state in ACTIVE and row.token == token
        return row if is_owned else None

    def _is_alive(self, lease: UUID) -> bool:
        known = self._all.leases.get(lease)
        return known is not None and known.end is None

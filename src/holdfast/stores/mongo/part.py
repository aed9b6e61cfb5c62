"""A part of a book: the rows that one verb looks at, read from documents when it first asks for them.

A verb of a book is a pure function of its rows. Called on a part, it raises ``Missing`` at the first row that has not been read. The
caller undoes what the verb has written so far, reads the row, and calls the verb again. The journal has what it has written in the end.
So each rare verb is written once, for all stores that have transactions.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast._core.book.book import Book
from holdfast._core.book.content import Content
from holdfast._core.book.rows import Rows
from holdfast._core.book.table import Grouped, Table
from holdfast._core.flow_changes import FlowChanges
from holdfast._core.job import State
from holdfast._core.limits import Scope, Use
from holdfast._core.record import JobRecord

Wanted = tuple[str, Any]
"""A table or an index, and a key of it; ``ALL``: its whole content."""

ALL = object()

_OF_JOB: Mapping[str, Callable[[JobRecord], Sequence[Any]]] = {
    "attempts": lambda job: [job.id],
    "attempts of one": lambda job: [(job.id, job.token)],
    "steps": lambda job: [job.id],
    "signals": lambda job: [job.id],
    "edges": lambda job: [job.id],
    "keys": lambda job: [] if job.unique_key is None else [(job.task, job.unique_key)],
    "leases": lambda job: [] if job.lease is None else [job.lease],
    "flows": lambda job: [] if job.member is None else [job.member.flow, job.id],
}


class Missing(Exception):
    """A verb asks for rows that have not been read."""

    def __init__(self, *wanted: Wanted) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class Known:
    """What has been read. While rows are put in their indexes nothing is asked for."""

    def __init__(self) -> None:
        self.read = set[Wanted]()
        self.is_indexing = False

    def require(self, *wanted: Wanted) -> None:
        """Raise ``Missing`` unless one of these, which hold the same row, has been read."""
        if not self.is_indexing and self.read.isdisjoint(wanted):
            raise Missing(wanted[0])


class _LazyTable(Table[Any, Any]):
    __slots__ = ("_known",)

    def __init__(self, name: str, journal: list[Any], known: Known, index: Callable[..., None] | None = None) -> None:
        super().__init__(name, journal, index)
        self._known = known

    def _require(self, key: Any) -> None:
        self._known.require((self.name, key), (self.name, ALL))

    def get(self, key: Any, default: Any = None) -> Any:
        self._require(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._require(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._require(key)
        return super().__contains__(key)

    def row(self, key: Any) -> Any:
        return dict.get(self, key)  # of the journal: of a row that a verb has changed

    def __iter__(self) -> Iterator[Any]:
        self._known.require((self.name, ALL))
        return super().__iter__()

    def items(self) -> Any:
        self._known.require((self.name, ALL))
        return super().items()

    def values(self) -> Any:
        self._known.require((self.name, ALL))
        return super().values()

    def keys(self) -> Any:
        self._known.require((self.name, ALL))
        return super().keys()


class _LazyGrouped(Grouped[Any, Any, Any]):
    """Rows of two keys; a group is read whole, or one row of it."""

    __slots__ = ("_known",)

    def __init__(self, name: str, journal: list[Any], known: Known, index: Callable[..., None] | None = None) -> None:
        super().__init__(name, journal, index)
        self._known = known

    def get(self, first: Any, default: Any = None) -> Any:
        self._known.require((self.name, first))
        return super().get(first, default)

    def __getitem__(self, first: Any) -> Any:
        return _Group(self, first)

    def row(self, key: tuple[Any, Any]) -> Any:
        self._known.require((f"{self.name} of one", key), (self.name, key[0]))
        return self._raw(key)

    def put(self, first: Any, second: Any, row: Any) -> None:
        key = (first, second)
        self._journal.append((self, key, self._raw(key)))
        self._known.read.add((f"{self.name} of one", key))
        self.place(key, row)

    def place(self, key: tuple[Any, Any], row: Any) -> None:
        first, second = key
        old, self_get = self._raw(key), dict.get
        if row is not None:
            self.setdefault(first, {})[second] = row
        elif old is not None:
            group = self_get(self, first, {})
            del group[second]
            if not group:
                dict.__delitem__(self, first)
        if self._index is not None:
            self._index(key, old, row)

    def _raw(self, key: tuple[Any, Any]) -> Any:
        return dict.get(self, key[0], {}).get(key[1])


class _Group:
    """The rows of one first key, of which one is looked at: a gate may have thousands."""

    def __init__(self, table: _LazyGrouped, first: Any) -> None:
        self._table, self._first = table, first

    def __getitem__(self, second: Any) -> Any:
        return self._table.row((self._first, second))


class _LazyIndex(dict[Any, Any]):
    """An index by a key of which all rows must have been read before a verb may look at it."""

    def __init__(self, name: str, known: Known) -> None:
        super().__init__()
        self._name, self._known = name, known

    def get(self, key: Any, default: Any = None) -> Any:
        self._known.require((self._name, key))
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self._known.require((self._name, key))
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._known.require((self._name, key))
        return super().__contains__(key)


class _PartContent(Content):
    """The tables and indexes of a part. Those that are small are read whole, before the verb begins."""

    def __init__(self, index_job: Callable[..., None], known: Known) -> None:
        super().__init__(index_job)
        noted = self.journal
        self.jobs = _LazyTable("jobs", noted, known, index_job)
        self.receipts = _LazyTable("receipts", noted, known, self._index_receipt)
        self.leases = _LazyTable("leases", noted, known, self._index_lease)
        self.signals = _LazyTable("signals", noted, known)
        self.flows = _LazyTable("flows", noted, known)
        self.schedules = _LazyTable("schedules", noted, known)
        self.rates = _LazyTable("rates", noted, known)
        self.audits = _LazyTable("audits", noted, known, self._index_audit)
        self.attempts = _LazyGrouped("attempts", noted, known, self._index_attempt)
        self.steps = _LazyGrouped("steps", noted, known)
        self.edges = _LazyGrouped("edges", noted, known, self._index_edge)
        self.holds, self.keys = _LazyIndex("holds", known), _LazyIndex("keys", known)
        self.members, self.children = _LazyIndex("members", known), _LazyIndex("children", known)
        self._known = known

    def _index_edge(self, key: tuple[UUID, UUID], old: Any, new: Any) -> None:
        was, self._known.is_indexing = self._known.is_indexing, True
        super()._index_edge(key, old, new)
        self._known.is_indexing = was


class PartBook(Book):
    """A book of which only the rows are there that its verb has asked for.

    ``sizes``: the place of the newest member of each flow. ``last_signals``: that of the newest signal of each job. ``terms``: those in
    which leases were beaten. ``held_states``: the states of the jobs of each lease.
    """

    def __init__(self) -> None:
        self.known = Known()
        self.content = _PartContent(self._index_job, self.known)
        self._all, self.flow_changes = self.content, FlowChanges()
        self.sizes, self.last_signals = dict[UUID, int](), dict[UUID, int]()
        self.terms = dict[UUID, int]()
        self.held_states = dict[UUID, list[State]]()

    def add(self, name: str, key: Any, row: Any) -> None:
        """Put in a row that was read, unless it is there."""
        table = self._all.table(name)
        if isinstance(table, Table):
            if dict.get(table, key) is not None:
                return
        elif isinstance(table, Grouped) and dict.get(table, key[0], {}).get(key[1]) is not None:
            return
        was, self.known.is_indexing = self.known.is_indexing, True
        table.place(key, row)
        self.known.is_indexing = was

    def alike(self, wanted: Sequence[Wanted]) -> set[Wanted]:
        """Return these rows, and the same rows of all jobs: a verb asks for them job by job, and begins again after each read."""
        tables, jobs = {table for table, _ in wanted if table in _OF_JOB}, [*dict.values(self._all.jobs)]
        return {*wanted, *((table, key) for table in tables for job in jobs for key in _OF_JOB[table](job))}

    def uses(self, wall: datetime) -> Mapping[Scope, Use]:
        """Return how much of each limit is used."""
        return self._uses(wall)

    def written(self) -> Iterator[tuple[str, Any, Any]]:
        """Return each change with the row before it."""
        return ((table.name, key, old) for table, key, old in self._all.journal)

    def raw(self, name: str, key: Any) -> Any:
        """Return a row if it is there; nothing is read."""
        return dict.get(getattr(self.content, name), key)

    def before(self, name: str, key: Any) -> Any:
        """Return the row of a changed key as it was read."""
        return next((row for table, each, row in self._all.journal if (table.name, each) == (name, key)), None)

    def _index_job(self, job: UUID, old: JobRecord | None, new: JobRecord | None) -> None:
        was, self.known.is_indexing = self.known.is_indexing, True
        super()._index_job(job, old, new)
        self.known.is_indexing = was

    def _each(self, ids: Iterable[UUID]) -> Iterator[JobRecord]:
        wanted = [*ids]
        self._require_jobs(wanted)
        return super()._each(wanted)

    def _require_jobs(self, ids: Sequence[UUID]) -> None:
        if missing := [("jobs", job) for job in ids if ("jobs", job) not in self.known.read]:
            raise Missing(*missing)

    def _put(self, row: JobRecord) -> None:
        self._all.jobs[row.id] = row
        if row.member is not None and row.id not in self._all.places:
            flow = row.member.flow
            self._all.flows.get(flow)  # its document has the size
            self._all.places[row.id] = self.sizes[flow] = self.sizes.get(flow, 0) + 1

    def _holders(self) -> Collection[UUID]:
        return self.held_states

    def _states_held(self, lease: UUID) -> Sequence[State]:
        return self.held_states.get(lease, ())

    def _held(self, lease: UUID) -> Rows:
        self._require_jobs([*self._all.holds.get(lease, ())])
        return super()._held(lease)

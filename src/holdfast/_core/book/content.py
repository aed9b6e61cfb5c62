"""The content of a book: its tables, which are the only truth, and the indexes that follow from their rows."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import KeptAudit
from holdfast._core.book.archive import Archive
from holdfast._core.book.line import Line
from holdfast._core.book.rows import KeptBeat, KeptLimit, KeptSchedule, Lease, Marks, Range, UniqueKey, Waiting
from holdfast._core.book.table import Change, Grouped, Index, Journaled, RowChange, Table
from holdfast._core.history import Minute
from holdfast._core.job import State, Token
from holdfast._core.limits import Scope
from holdfast._core.record import JobRecord, SettledAttempt
from holdfast._core.requests import QueueSettings
from holdfast._core.steps import Signal, StepKey, StepRecord
from holdfast._core.workflow import Edge, Flow

Receipt = tuple[datetime, EnqueueAnswer]
Group = tuple[str, str]
"""A queue and a task."""
Ended = tuple[float, bool, bool]
"""The retention of finished jobs, whether they are stubs, and whether nothing else depends on their rows."""


class Snapshot(Struct, frozen=True):
    """The rows of all tables at one time.

    ``places``: numbers in the order in which members were added. ``numbers``: the last one given of each kind.
    """

    jobs: dict[UUID, JobRecord]
    marks: dict[UUID, Marks]
    places: dict[UUID, int]
    attempts: dict[UUID, dict[Token, SettledAttempt]]
    receipts: dict[UUID, Receipt]
    leases: dict[UUID, Lease]
    paused_queues: dict[str, datetime]
    queue_settings: dict[str, QueueSettings]
    limits: dict[Scope, KeptLimit]
    rates: dict[tuple[Scope, str | None], int]
    schedules: dict[str, KeptSchedule]
    beats: dict[int, KeptBeat]
    steps: dict[UUID, dict[StepKey, StepRecord]]
    signals: dict[UUID, tuple[Signal, ...]]
    flows: dict[UUID, Flow]
    edges: dict[UUID, dict[UUID, Edge]]
    archives: dict[str, Archive]
    recalled: dict[str, dict[UUID, bool]]
    audits: dict[UUID, KeptAudit]
    minutes: dict[UUID, Minute]
    numbers: dict[str, int]

    @property
    def members(self) -> dict[UUID, list[UUID]]:
        """The members of each flow, in the order in which they were added."""
        found = dict[UUID, list[UUID]]()
        for job in sorted(self.places, key=lambda job: self.places[job]):
            if (member := self.jobs[job].member) is not None:
                found.setdefault(member.flow, []).append(job)
        return found


TABLES = tuple(field.name for field in structs.fields(Snapshot))


class Content:
    """Tables and indexes. ``edges``: by child and parent. ``signals``: those that a job has not consumed, oldest first. ``archives``: by
    the key of the object that has the jobs. ``recalled``: the jobs in it that are in the book again.

    Of the indexes, ``ranges``: waiting jobs, by due time. ``holds``: the active jobs of each lease. ``tally``: how many jobs of a queue and
    a task are in each state but AVAILABLE, archived ones among them. ``awaiting``: jobs that wait for a signal. ``parked``: the pending
    jobs of a queue that are not available. ``timed``: running jobs with a limit of time. ``expiring`` and ``owed``: jobs that may expire,
    and jobs that are owed a hook, by the time of that. ``ended``: finished jobs by their end. ``open_flows``: unfinished roots.
    ``archived_until``: archives by their greatest id. ``audited``: actions of operators by their time.
    ``recorded``: the minutes of the history by their time.
    """

    def __init__(self, index_job: Index) -> None:
        noted = self.journal = list[Change]()
        self.jobs = Table[UUID, JobRecord]("jobs", noted, index_job)
        self.marks = Table[UUID, Marks]("marks", noted)
        self.places = Table[UUID, int]("places", noted)
        self.attempts = Grouped[UUID, Token, SettledAttempt]("attempts", noted, self._index_attempt)
        self.receipts = Table[UUID, Receipt]("receipts", noted, self._index_receipt)
        self.leases = Table[UUID, Lease]("leases", noted, self._index_lease)
        self.paused_queues = Table[str, datetime]("paused_queues", noted)
        self.queue_settings = Table[str, QueueSettings]("queue_settings", noted)
        self.limits = Table[Scope, KeptLimit]("limits", noted)
        self.rates = Table[tuple[Scope, str | None], int]("rates", noted)
        self.schedules = Table[str, KeptSchedule]("schedules", noted)
        self.beats = Table[int, KeptBeat]("beats", noted, self._index_beat)
        self.steps = Grouped[UUID, StepKey, StepRecord]("steps", noted)
        self.signals = Table[UUID, tuple[Signal, ...]]("signals", noted)
        self.flows = Table[UUID, Flow]("flows", noted)
        self.edges = Grouped[UUID, UUID, Edge]("edges", noted, self._index_edge)
        self.archives = Table[str, Archive]("archives", noted, self._index_archive)
        self.recalled = Grouped[str, UUID, bool]("recalled", noted)
        self.audits = Table[UUID, KeptAudit]("audits", noted, self._index_audit)
        self.minutes = Table[UUID, Minute]("minutes", noted, self._index_minute)
        self.numbers = Table[str, int]("numbers", noted)

        self.ranges = dict[Range, Line[Waiting]]()
        self.holds = dict[UUID, set[UUID]]()
        self.keys, self.tally = dict[UniqueKey, UUID](), dict[tuple[str, str, State], int]()
        self.awaiting = dict[Group, Line[Waiting]]()
        self.parked = dict[str, dict[UUID, None]]()
        self.timed = dict[UUID, None]()
        self.expiring, self.owed = Line[Waiting](), dict[str, Line[Waiting]]()
        self.ended = dict[Ended, Line[Waiting]]()
        self.members = dict[UUID, dict[UUID, None]]()
        self.open_flows = Line[UUID]()
        self.children = dict[UUID, dict[UUID, None]]()
        self.brief_attempts = Line[tuple[datetime, UUID, int, UUID | None]]()
        self.received, self.ended_leases = Line[Waiting](), Line[Waiting]()
        self.audited, self.recorded = Line[Waiting](), Line[Waiting]()
        self.worn_beats = Line[tuple[datetime, int]]()
        self.archived_until, self.worn_archives = Line[tuple[UUID, str]](), Line[tuple[datetime, str]]()

    def table(self, name: str) -> Journaled:
        found: Journaled = getattr(self, name)
        return found

    def rows(self) -> Iterator[RowChange]:
        """Return every row with the name of its table and its key."""
        for name in TABLES:
            table = getattr(self, name)
            rows = table.rows() if isinstance(table, Grouped) else table.items()
            yield from ((name, key, row) for key, row in rows)

    def next_number(self, kind: str) -> int:
        number = self.numbers[kind] = self.numbers.get(kind, 0) + 1
        return number

    def snapshot(self) -> Snapshot:
        """Return a copy of all rows."""
        return Snapshot(*(_copy(getattr(self, name)) for name in TABLES))

    def _index_attempt(self, key: tuple[UUID, Token], old: SettledAttempt | None, new: SettledAttempt | None) -> None:
        job, token = key
        for each, change in ((old, self.brief_attempts.remove), (new, self.brief_attempts.add)):
            if each is not None and each.prunable_from is not None:
                change((each.prunable_from, job, token.number, token.claim))

    def _index_receipt(self, call: UUID, old: Receipt | None, new: Receipt | None) -> None:
        if old is not None:
            self.received.remove((old[0], call))
        if new is not None:
            self.received.add((new[0], call))

    def _index_lease(self, lease: UUID, old: Lease | None, new: Lease | None) -> None:
        if old is not None and old.ended_at is not None:
            self.ended_leases.remove((old.ended_at, lease))
        if new is not None and new.ended_at is not None:
            self.ended_leases.add((new.ended_at, lease))

    def _index_beat(self, number: int, old: KeptBeat | None, new: KeptBeat | None) -> None:
        if old is not None:
            self.worn_beats.remove((old.delete_after, number))
        if new is not None:
            self.worn_beats.add((new.delete_after, number))

    def _index_audit(self, action: UUID, old: KeptAudit | None, new: KeptAudit | None) -> None:
        if old is not None:
            self.audited.remove((old.entry.at, action))
        if new is not None:
            self.audited.add((new.entry.at, action))

    def _index_minute(self, note: UUID, old: Minute | None, new: Minute | None) -> None:
        if old is not None:
            self.recorded.remove((old.at, note))
        if new is not None:
            self.recorded.add((new.at, note))

    def _index_archive(self, key: str, old: Archive | None, new: Archive | None) -> None:
        if old is not None:
            self.archived_until.remove((old.high, key))
            self.worn_archives.remove((old.delete_after, key))
        if new is not None:
            self.archived_until.add((new.high, key))
            self.worn_archives.add((new.delete_after, key))
        for archive, sign in ((old, -1), (new, 1)):
            for queue, task, state, number in () if archive is None else archive.groups:
                self.count((queue, task, state), sign * number)

    def _index_edge(self, key: tuple[UUID, UUID], old: Edge | None, new: Edge | None) -> None:
        child, parent = key
        if new is not None:
            self.children.setdefault(parent, {})[child] = None
        elif old is not None:
            del self.children[parent][child]
            if not self.children[parent]:
                del self.children[parent]

    def count(self, group: tuple[str, str, State], more: int) -> None:
        """Add to the number of jobs of a queue and a task in a state."""
        number = self.tally.pop(group, 0) + more
        if number:
            self.tally[group] = number


def _copy(table: Any) -> dict[Any, Any]:
    return {first: group.copy() for first, group in table.items()} if isinstance(table, Grouped) else table.copy()

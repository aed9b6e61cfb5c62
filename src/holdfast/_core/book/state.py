"""The content of a book: jobs, attempts, receipts, leases, beats, queues and schedules, with the indexes that follow from the jobs.

Records are immutable values. ``_put`` and ``_forget`` are the only methods that change a job and keep the indexes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import BeatView, EnqueueAnswer
from holdfast._core.flow_changes import FlowChanges
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import PLACE_OF, Place, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import Limit, Scope
from holdfast._core.origin import Origin
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.record import JobRecord, SettledAttempt
from holdfast._core.requests import NewLease, QueueSettings
from holdfast._core.schedule import Schedule
from holdfast._core.steps import Signal, StepKey, StepRecord
from holdfast._core.timing import LeaseTiming
from holdfast._core.workflow import Edge, Flow

NO_WORKER = NewLease(UUID(int=0), "", ProcessIdentity("", 0), LeaseTiming(0.0, 0.0, 0.0))
"""The values of a lease that was never opened."""

Range = tuple[str, str, str, int]
Waiting = tuple[datetime, UUID]
Key = tuple[str, str]
Rows = list[JobRecord]


class Moment(Struct, frozen=True, gc=False):
    """The time at which a verb is called, on two clocks.

    ``wall`` decides which jobs are due and which may be pruned. ``stamp`` decides which leases and jobs are overdue: the book
    records it when a lease is renewed, and when a job starts or makes progress. It counts the microseconds of a monotonic clock that
    all callers share: a step of the wall clock must not make a job overdue. A store whose callers share no such clock subclasses
    ``Moment`` and overrides ``elapsed``.
    """

    wall: datetime
    stamp: int

    def elapsed(self, what: UUID, since: int) -> int:
        """Return how many microseconds ago this lease or job got the stamp ``since``, as far as the caller knows."""
        del what  # only a caller without a shared clock must remember when it first saw the stamp
        return self.stamp - since


class Lease(Struct, frozen=True):
    """A lease. ``renewed_at`` and ``expires_at`` are stamps, ``opened_at`` and ``ended_at`` are on the wall clock. ``started``: the claim
    number through which its jobs have started together. ``voids``: how often it lost the right to start jobs that it had claimed."""

    spec: NewLease
    opened_at: datetime
    renewed_at: int
    expires_at: int
    renewals: int = 1
    is_draining: bool = False
    end: LeaseEnd | None = None
    ended_at: datetime | None = None
    started: int = 0
    voids: int = 0

    @property
    def seen(self) -> str:
        """A string that changes with every renewal."""
        return f"{self.renewals}:{self.expires_at}"

    def renew(self, stamp: int) -> "Lease":
        """Return the lease as renewed at ``stamp``."""
        expires = stamp + micros(self.spec.timing.ttl)
        return structs.replace(self, renewed_at=stamp, expires_at=expires, renewals=self.renewals + 1)


class KeptAttempt(Struct, frozen=True):
    """The record of one attempt, with its key."""

    job: UUID
    token: Token
    attempt: SettledAttempt


class KeptSchedule(Struct, frozen=True):
    """A schedule, and the id of the call that changed it last."""

    schedule: Schedule
    change: UUID


class KeptBeat(Struct, frozen=True):
    """The state of a worker at one of its beats, and when it may be forgotten."""

    beat: BeatView
    delete_after: datetime


class KeptLimit(Struct, frozen=True):
    """A limit, and who set it."""

    limit: Limit
    origin: Origin


class KeptRate(Struct, frozen=True):
    """From when on the rate of a scope is unused, in microseconds of the wall clock; ``key``: of one key only."""

    scope: Scope
    key: str | None
    ready_at: int


class KeptSteps(Struct, frozen=True):
    """The steps of a job, and the signals that it has not consumed, oldest first."""

    job: UUID
    records: list[StepRecord]
    signals: list[Signal]


class NamedLimit(Struct, frozen=True):
    """A limit with its scope."""

    scope: Scope
    kept: KeptLimit


class Tables(Struct, frozen=True):
    """The content of a book as plain data, which JSON can express; the indexes follow from it."""

    jobs: list[JobRecord] = []
    started: dict[UUID, int] = {}
    last_moved: dict[UUID, int] = {}
    report_orders: dict[UUID, int] = {}
    attempts: list[KeptAttempt] = []
    receipts: dict[UUID, tuple[datetime, EnqueueAnswer]] = {}
    leases: list[Lease] = []
    paused_queues: dict[str, datetime] = {}
    queue_settings: dict[str, QueueSettings] = {}
    limits: list[NamedLimit] = []
    rates: list[KeptRate] = []
    schedules: dict[str, KeptSchedule] = {}
    beats: list[KeptBeat] = []
    steps: list[KeptSteps] = []
    flows: dict[UUID, Flow] = {}
    edges: list[Edge] = []
    claim_number: int = 0


class Snapshot(Struct):
    """The whole content of a book. Records are values, so copying the containers copies all of it.

    ``started`` and ``last_moved``: the stamps at which each running job started and last made progress. ``report_orders``: the number
    of each job's latest report. ``members``: the jobs of each flow, in the order in which they were added. ``edges``: by child and
    parent; ``children``: by parent.
    """

    jobs: dict[UUID, JobRecord] = {}
    ranges: dict[Range, list[Waiting]] = {}
    holds: dict[UUID, set[UUID]] = {}
    keys: dict[Key, UUID] = {}
    started: dict[UUID, int] = {}
    last_moved: dict[UUID, int] = {}
    report_orders: dict[UUID, int] = {}
    attempts: dict[UUID, dict[Token, SettledAttempt]] = {}
    receipts: dict[UUID, tuple[datetime, EnqueueAnswer]] = {}
    leases: dict[UUID, Lease] = {}
    paused_queues: dict[str, datetime] = {}
    queue_settings: dict[str, QueueSettings] = {}
    limits: dict[Scope, KeptLimit] = {}
    rates: dict[tuple[Scope, str | None], int] = {}
    schedules: dict[str, KeptSchedule] = {}
    beats: list[KeptBeat] = []
    steps: dict[UUID, dict[StepKey, StepRecord]] = {}
    signals: dict[UUID, list[Signal]] = {}
    flows: dict[UUID, Flow] = {}
    members: dict[UUID, dict[UUID, None]] = {}
    edges: dict[UUID, dict[UUID, Edge]] = {}
    children: dict[UUID, dict[UUID, None]] = {}
    claim_number: int = 0

    def copy(self) -> "Snapshot":
        """Return a copy that shares no container with this one."""
        return Snapshot(
            jobs=self.jobs.copy(),
            ranges={which: waiting.copy() for which, waiting in self.ranges.items()},
            holds={lease: jobs.copy() for lease, jobs in self.holds.items()},
            keys=self.keys.copy(),
            started=self.started.copy(),
            last_moved=self.last_moved.copy(),
            report_orders=self.report_orders.copy(),
            attempts={job: attempts.copy() for job, attempts in self.attempts.items()},
            receipts=self.receipts.copy(),
            leases=self.leases.copy(),
            paused_queues=self.paused_queues.copy(),
            queue_settings=self.queue_settings.copy(),
            limits=self.limits.copy(),
            rates=self.rates.copy(),
            schedules=self.schedules.copy(),
            beats=self.beats.copy(),
            steps={job: records.copy() for job, records in self.steps.items()},
            signals={job: waiting.copy() for job, waiting in self.signals.items()},
            flows=self.flows.copy(),
            members={flow: jobs.copy() for flow, jobs in self.members.items()},
            edges={child: parents.copy() for child, parents in self.edges.items()},
            children={parent: jobs.copy() for parent, jobs in self.children.items()},
            claim_number=self.claim_number,
        )


class BookState:
    """The tables and indexes of a book. ``floor``: seconds for which nothing that a repeated request needs is pruned."""

    floor = RETENTION_FLOOR

    def __init__(self) -> None:
        self._all = Snapshot()
        self.flow_changes = FlowChanges()

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Return a book with this content."""
        book = cls()
        for row in tables.jobs:
            book._put(row)
        known = book._all
        for kept in tables.attempts:
            known.attempts.setdefault(kept.job, {})[kept.token] = kept.attempt
        known.started, known.last_moved, known.report_orders = (
            tables.started.copy(),
            tables.last_moved.copy(),
            tables.report_orders.copy(),
        )
        known.receipts, known.paused_queues, known.claim_number = (
            tables.receipts.copy(),
            tables.paused_queues.copy(),
            tables.claim_number,
        )
        known.leases = {lease.spec.id: lease for lease in tables.leases}
        known.schedules, known.beats = tables.schedules.copy(), tables.beats.copy()
        known.queue_settings = tables.queue_settings.copy()
        known.limits = {each.scope: each.kept for each in tables.limits}
        known.rates = {(each.scope, each.key): each.ready_at for each in tables.rates}
        known.steps = {each.job: {record.key: record for record in each.records} for each in tables.steps}
        known.signals = {each.job: each.signals.copy() for each in tables.steps}
        known.flows = tables.flows.copy()
        book._put_edges(tables.edges)
        return book

    def tables(self) -> Tables:
        """Return the content without its indexes, for ``of``."""
        known = self._all
        kept = [KeptAttempt(job, token, each) for job, some in known.attempts.items() for token, each in some.items()]
        return Tables(
            jobs=[*known.jobs.values()],
            started=known.started.copy(),
            last_moved=known.last_moved.copy(),
            report_orders=known.report_orders.copy(),
            attempts=kept,
            receipts=known.receipts.copy(),
            leases=[*known.leases.values()],
            paused_queues=known.paused_queues.copy(),
            queue_settings=known.queue_settings.copy(),
            limits=[NamedLimit(scope, kept) for scope, kept in known.limits.items()],
            rates=[KeptRate(scope, key, ready_at) for (scope, key), ready_at in known.rates.items()],
            schedules=known.schedules.copy(),
            beats=known.beats.copy(),
            steps=[
                KeptSteps(job, [*known.steps.get(job, {}).values()], known.signals.get(job, []).copy())
                for job in {**known.steps, **known.signals}
            ],
            flows=known.flows.copy(),
            edges=[edge for parents in known.edges.values() for edge in parents.values()],
            claim_number=known.claim_number,
        )

    def snapshot(self) -> Snapshot:
        """Return the content of the book now, for ``restore``."""
        return self._all.copy()

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot, which stays usable."""
        self._all = snapshot.copy()

    def _put(self, row: JobRecord) -> None:
        old = self._all.jobs.get(row.id)
        if old is not None:
            self._take_from_indexes(old)
        self._all.jobs[row.id] = row
        place = PLACE_OF[row.state]
        if row.state is State.AVAILABLE:
            insort(self._all.ranges.setdefault(_range_of(row), []), (row.available_at, row.id))
        if place is Place.ACTIVE and row.lease is not None:
            self._all.holds.setdefault(row.lease, set()).add(row.id)
        if place is not Place.FINISHED and (key := key_of(row)) is not None:
            self._all.keys[key] = row.id
        if row.member is not None:
            self._all.members.setdefault(row.member.flow, {})[row.id] = None

    def _put_edges(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            self._all.edges.setdefault(edge.child, {})[edge.parent] = edge
            self._all.children.setdefault(edge.parent, {})[edge.child] = None

    def _forget(self, row: JobRecord) -> None:
        self._take_from_indexes(row)
        del self._all.jobs[row.id]
        known = self._all
        for kept in (known.attempts, known.started, known.last_moved, known.report_orders, known.steps, known.signals):
            kept.pop(row.id, None)
        if row.member is not None:
            members = known.members[row.member.flow]
            del members[row.id]
            if not members:
                del known.members[row.member.flow]
            for parent in known.edges.pop(row.id, ()):
                self._forget_child(parent, row.id)
            for child in [*known.children.get(row.id, ())]:
                is_outside = known.edges[child][row.id].parent_flow is not None
                if is_outside and known.jobs[child].state is not State.BLOCKED:
                    del known.edges[child][row.id]
                    self._forget_child(row.id, child)
            known.flows.pop(row.id, None)

    def _forget_child(self, parent: UUID, child: UUID) -> None:
        children = self._all.children[parent]
        del children[child]
        if not children:
            del self._all.children[parent]

    def _take_from_indexes(self, row: JobRecord) -> None:
        place = PLACE_OF[row.state]
        if row.state is State.AVAILABLE:
            waiting = self._all.ranges[_range_of(row)]
            del waiting[bisect_left(waiting, (row.available_at, row.id))]
            if not waiting:
                del self._all.ranges[_range_of(row)]
        if place is Place.ACTIVE and row.lease is not None:
            self._all.holds[row.lease].discard(row.id)
        if place is not Place.FINISHED and (key := key_of(row)) is not None:
            del self._all.keys[key]

    def _in_its_queue(self, row: JobRecord) -> JobRecord:
        """Return a new row with the priority that its queue adds."""
        more = self._all.queue_settings.get(row.queue, QueueSettings()).priority
        return structs.replace(row, priority=row.priority + more) if more else row

    def _holder(self, row: JobRecord) -> JobRecord | None:
        key = key_of(row)
        holder = None if key is None else self._all.keys.get(key)
        return None if holder is None else self._all.jobs[holder]

    def _is_lone(self, row: JobRecord) -> bool:
        """Return whether a job has a flow only because others depend on it, or it on others."""
        is_root = row.member is not None and row.member.flow == row.id and not row.member.is_gate
        return is_root and len(self._all.members[row.id]) == 1

    def _rows(self, ids: Sequence[UUID]) -> Rows:
        return [self._all.jobs[job] for job in dict.fromkeys(ids) if job in self._all.jobs]

    def _held(self, lease: UUID) -> Rows:
        rows = [self._all.jobs[job] for job in self._all.holds.get(lease, ())]
        return sorted(rows, key=lambda row: row.token.number)

    def _active(self, job: UUID, token: Token) -> JobRecord | None:
        row = self._all.jobs.get(job)
        is_owned = row is not None and PLACE_OF[row.state] is Place.ACTIVE and row.token == token
        return row if is_owned else None

    def _is_alive(self, lease: UUID) -> bool:
        known = self._all.leases.get(lease)
        return known is not None and known.end is None


def key_of(row: JobRecord) -> Key | None:
    """Return the unique key of a job, with its task."""
    return None if row.unique_key is None else (row.task, row.unique_key)


def micros(seconds: float) -> int:
    """Return seconds as an integer number of microseconds."""
    return round(seconds * 1e6)


def _range_of(row: JobRecord) -> Range:
    return row.task, row.queue, row.key, row.priority

"""The content of a book as plain data, which JSON can express: its keys are strings, or are read from the rows."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from holdfast._core.book.content import Content, Receipt
from holdfast._core.book.rows import KeptBeat, KeptLimit, KeptSchedule, Lease, Marks
from holdfast._core.book.table import RowChange
from holdfast._core.job import Token
from holdfast._core.limits import Scope
from holdfast._core.record import JobRecord, SettledAttempt
from holdfast._core.requests import QueueSettings
from holdfast._core.steps import Signal, StepRecord
from holdfast._core.workflow import Edge, Flow


class KeptAttempt(Struct, frozen=True):
    """The record of one attempt, with its key."""

    job: UUID
    token: Token
    attempt: SettledAttempt


class KeptStep(Struct, frozen=True):
    """The record of one step, with its job."""

    job: UUID
    record: StepRecord


class NamedLimit(Struct, frozen=True):
    """A limit with its scope."""

    scope: Scope
    kept: KeptLimit


class KeptRate(Struct, frozen=True):
    """From when on the rate of a scope is unused, in microseconds of the wall clock; ``key``: of one key only."""

    scope: Scope
    key: str | None
    ready_at: int


class Tables(Struct, frozen=True):
    """The content of a book; its indexes follow from it."""

    jobs: list[JobRecord] = []
    marks: dict[UUID, Marks] = {}
    places: dict[UUID, int] = {}
    attempts: list[KeptAttempt] = []
    receipts: dict[UUID, Receipt] = {}
    leases: list[Lease] = []
    paused_queues: dict[str, datetime] = {}
    queue_settings: dict[str, QueueSettings] = {}
    limits: list[NamedLimit] = []
    rates: list[KeptRate] = []
    schedules: dict[str, KeptSchedule] = {}
    beats: dict[int, KeptBeat] = {}
    steps: list[KeptStep] = []
    signals: dict[UUID, tuple[Signal, ...]] = {}
    flows: list[Flow] = []
    edges: list[Edge] = []
    numbers: dict[str, int] = {}

    @classmethod
    def of(cls, known: Content) -> "Tables":
        return cls(
            jobs=[*known.jobs.values()],
            marks={**known.marks},
            places={**known.places},
            attempts=[KeptAttempt(job, token, row) for (job, token), row in known.attempts.rows()],
            receipts={**known.receipts},
            leases=[*known.leases.values()],
            paused_queues={**known.paused_queues},
            queue_settings={**known.queue_settings},
            limits=[NamedLimit(scope, kept) for scope, kept in known.limits.items()],
            rates=[KeptRate(scope, key, ready_at) for (scope, key), ready_at in known.rates.items()],
            schedules={**known.schedules},
            beats={**known.beats},
            steps=[KeptStep(job, row) for (job, _), row in known.steps.rows()],
            signals={**known.signals},
            flows=[*known.flows.values()],
            edges=[row for _, row in known.edges.rows()],
            numbers={**known.numbers},
        )

    def rows(self) -> Iterator[RowChange]:
        """Return each row with the name of its table and its key."""
        yield from (("jobs", row.id, row) for row in self.jobs)
        yield from (("attempts", (kept.job, kept.token), kept.attempt) for kept in self.attempts)
        yield from (("leases", lease.spec.id, lease) for lease in self.leases)
        yield from (("limits", each.scope, each.kept) for each in self.limits)
        yield from (("rates", (each.scope, each.key), each.ready_at) for each in self.rates)
        yield from (("steps", (kept.job, kept.record.key), kept.record) for kept in self.steps)
        yield from (("flows", flow.id, flow) for flow in self.flows)
        yield from (("edges", (edge.child, edge.parent), edge) for edge in self.edges)
        for name in _KEYED:
            yield from ((name, key, row) for key, row in getattr(self, name).items())


_KEYED = ("marks", "places", "receipts", "paused_queues", "queue_settings", "schedules", "beats", "signals", "numbers")

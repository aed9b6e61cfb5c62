"""The rows of a book that no other store has as values: leases, marks, and what is kept with schedules, beats and limits."""

from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import BeatView
from holdfast._core.book.moment import micros
from holdfast._core.identity import ProcessIdentity
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import Limit
from holdfast._core.origin import Origin
from holdfast._core.record import JobRecord
from holdfast._core.requests import BeatNote, NewLease
from holdfast._core.schedule import Schedule
from holdfast._core.timing import LeaseTiming

NO_WORKER = NewLease(UUID(int=0), "", ProcessIdentity("", 0), LeaseTiming(0.0, 0.0, 0.0))
"""The values of a lease that was never opened."""

Range = tuple[str, str, str, int]
Waiting = tuple[datetime, UUID]
UniqueKey = tuple[str, str]
Rows = list[JobRecord]


class Marks(Struct, frozen=True, gc=False, omit_defaults=True):
    """What is kept of a job beside its record: the stamps at which it started and last made progress, and its latest report's number."""

    started: int
    moved: int
    reported: int = 0


class Lease(Struct, frozen=True, omit_defaults=True):
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


def kept_beat(note: BeatNote, spec: NewLease, wall: datetime) -> KeptBeat:
    """Return what is kept of a note that came with a beat of this lease."""
    beat = BeatView(
        worker=spec.worker,
        at=wall,
        running=note.running,
        claimed=note.claimed,
        slots=spec.slots,
        memory=note.memory,
        loop_lag=note.loop_lag,
        answered_at=None if note.silence is None else wall - timedelta(microseconds=micros(note.silence)),
    )
    return KeptBeat(beat, wall + timedelta(microseconds=micros(note.kept)))


def key_of(row: JobRecord) -> UniqueKey | None:
    """Return the unique key of a job, with its task."""
    return None if row.unique_key is None else (row.task, row.unique_key)


def range_of(row: JobRecord) -> Range:
    """Return the line in which a job waits."""
    return row.task, row.queue, row.key, row.priority

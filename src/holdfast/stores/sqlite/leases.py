"""Rows of leases, and for how long each is overdue.

A lease written under this kernel is judged by the clock that this process shares with its owner. A lease of another boot or time
namespace has another clock: it is overdue once this process has seen it unchanged for its ttl.
"""

from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import LeaseView
from holdfast._core.encoding import end_of, names_of, process_of, timing_of
from holdfast._core.identity import ProcessIdentity
from holdfast.databases.sqlite.values import micros
from holdfast.stores.sqlite.records import Row


class Sighting(Struct, frozen=True):
    """The time at which a state of a lease was first seen, in microseconds of this process's monotonic clock."""

    seen: str
    since: int
    ttl: int


class LeaseSightings:
    """The sightings, by one store object, of leases whose clock it does not share."""

    def __init__(self, process: ProcessIdentity) -> None:
        self._process = process
        self._sightings: dict[bytes, Sighting] = {}

    def views(self, rows: Iterable[Row], *, wall: int, monotonic: int) -> tuple[LeaseView, ...]:
        """Return the leases of all rows of ``leases.sql``, and forget the sightings of all others."""
        known, self._sightings = self._sightings, {}
        return tuple(self._view(row, known, wall, monotonic) for row in rows)

    def is_overdue(self, lease: UUID, seen: str, monotonic: int) -> bool:
        """Return whether this state of a lease has been seen unchanged for longer than its ttl."""
        sighting = self._sightings.get(lease.bytes)
        return sighting is not None and sighting.seen == seen and monotonic > sighting.since + sighting.ttl

    def _view(self, row: Row, known: dict[bytes, Sighting], wall: int, monotonic: int) -> LeaseView:
        lease, worker, process, timing, boot, clock, opened, expires, seen, holds, *rest = row
        is_draining, is_ended, end_reason, queues, tasks, grace, slots, is_isolated, declares, claimed = rest
        times = timing_of(timing)
        if expires is None:  # active jobs whose lease has no row
            expires, opened = monotonic, wall
        elif not boot or (boot, clock) != (self._process.boot, self._process.clock):
            sighting = known.get(lease)
            if sighting is None or sighting.seen != seen:
                sighting = Sighting(seen, monotonic, micros(times.ttl))
            self._sightings[lease] = sighting
            expires = sighting.since + sighting.ttl
        return LeaseView(
            id=UUID(bytes=lease),
            worker=worker,
            process=process_of(process),
            timing=times,
            overdue=(monotonic - expires) / 1e6,
            seen=seen or "",
            age=(wall - opened) / 1e6,
            holds=holds,
            is_draining=bool(is_draining),
            end=end_of(end_reason, is_draining=bool(is_draining)) if is_ended else None,
            queues=names_of(queues),
            tasks=names_of(tasks),
            grace=(grace or 0) / 1e6,
            slots=slots or 0,
            is_isolated=bool(is_isolated),
            declares=names_of(declares),
            claimed=claimed,
        )

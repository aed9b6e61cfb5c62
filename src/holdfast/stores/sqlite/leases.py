"""Leases as rows, and how overdue each is.

A lease written by this kernel is judged by the clock we share with its owner. One of another boot or time namespace
cannot be: it is overdue once we have watched it unchanged for its ttl.
"""

from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import LeaseView
from holdfast._core.identity import ProcessIdentity
from holdfast.databases.sqlite.values import micros
from holdfast.stores.sqlite.records import Row, end_of, names_of, process_of, timing_of


class Sighting(Struct, frozen=True):
    """When a state of a lease was first seen, in microseconds of our own monotonic clock."""

    seen: str
    since: int
    ttl: int


class LeaseSightings:
    """What one store object remembers of leases whose clock it does not share."""

    def __init__(self, process: ProcessIdentity) -> None:
        self._process = process
        self._sightings: dict[bytes, Sighting] = {}

    def views(self, rows: Iterable[Row], *, wall: int, monotonic: int) -> tuple[LeaseView, ...]:
        """All rows of ``leases.sql``; leases that are gone are forgotten."""
        known, self._sightings = self._sightings, {}
        return tuple(self._view(row, known, wall, monotonic) for row in rows)

    def is_overdue(self, lease: UUID, seen: str, monotonic: int) -> bool:
        """Whether this state of a lease has been watched for longer than its ttl."""
        sighting = self._sightings.get(lease.bytes)
        return sighting is not None and sighting.seen == seen and monotonic > sighting.since + sighting.ttl

    def _view(self, row: Row, known: dict[bytes, Sighting], wall: int, monotonic: int) -> LeaseView:
        lease, worker, process, timing, boot, clock, opened, expires, seen, holds, *rest = row
        is_draining, is_ended, end_reason, queues, tasks, grace, slots, is_isolated = rest
        times = timing_of(timing)
        if expires is None:  # active rows whose lease has no row
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
            end=end_of(is_ended, end_reason, is_draining),
            queues=names_of(queues),
            tasks=names_of(tasks),
            grace=(grace or 0) / 1e6,
            slots=slots or 0,
            is_isolated=bool(is_isolated),
        )

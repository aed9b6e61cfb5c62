"""How long before its end a lease in a SQLite file was still valid follows from the clock that its last beat has read."""

from uuid import UUID

import msgspec
import pytest

from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.timing import LeaseTiming
from proof.checker import history_sqlite
from proof.checker.history import LeaseRow
from tests.engine.support import PROCESS

TTL = 3.0
LEASE = UUID(int=1)
AHEAD = 1_700_000_000.0
"""Seconds by which the wall clock is ahead of the clock of leases."""


def overdue(*writes: tuple[float, float, LeaseEnd | None]) -> float:
    """Return how overdue a lease was at the last of its writes, each given by when it read the clock, when it was recorded, and its end."""
    beats: dict[UUID, history_sqlite._Beat] = {}
    for began, recorded, end in writes:
        entry = history_sqlite._Lease(
            "worker", PROCESS, LeaseTiming.of(f"{TTL:g}s"), TTL, end, (), 0, 0, 5.0, 1, round((began + TTL) * 1e6)
        )
        event = history_sqlite._lease_event(AHEAD + recorded, LEASE, msgspec.json.encode(entry).decode(), beats)
    assert isinstance(event.after, LeaseRow)
    return event.after.overdue


EXPIRED = LeaseEnd(RescueReason.EXPIRED)


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_lease_runs_from_when_its_beat_read_the_clock_not_from_when_the_beat_was_recorded(delay: float) -> None:
    beats = ((0.0, 0.0, None), (1.0, 1.0 + delay, None))
    assert overdue(*beats, (1.0, 4.1, EXPIRED)) == pytest.approx(0.1, abs=1e-5)
    assert overdue(*beats, (1.0, 3.8, EXPIRED)) == pytest.approx(-0.2, abs=1e-5)

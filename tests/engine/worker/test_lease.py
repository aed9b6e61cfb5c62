"""A worker's beats alone decide until when it may act."""

from holdfast._engine.worker.lease import WorkerLease
from holdfast.testing.clock import FakeClock


def test_s8_nothing_may_start_before_the_first_beat_nor_from_the_deadline_on() -> None:
    clock = FakeClock()
    lease = WorkerLease(clock.monotonic)
    assert not lease.may_act()
    lease.renew(clock.monotonic() + 25.0)
    assert lease.remaining() == 25.0
    clock.advance(24.999)
    assert lease.may_act()
    clock.advance(0.001)
    assert not lease.may_act()
    lease.renew(clock.monotonic() + 25.0)
    assert lease.may_act()


def test_an_older_beat_does_not_shorten_what_a_newer_one_granted() -> None:
    clock = FakeClock()
    lease = WorkerLease(clock.monotonic)
    lease.renew(clock.monotonic() + 25.0)
    lease.renew(clock.monotonic() + 5.0)
    assert lease.remaining() == 25.0


def test_a_lost_lease_cannot_be_renewed() -> None:
    clock = FakeClock()
    lease = WorkerLease(clock.monotonic)
    lease.renew(clock.monotonic() + 25.0)
    lease.lose()
    lease.renew(clock.monotonic() + 50.0)
    assert not lease.may_act()


def test_the_lease_records_when_the_store_last_answered() -> None:
    clock = FakeClock()
    lease = WorkerLease(clock.monotonic)
    assert lease.answered == float("-inf")
    lease.store_answered()
    clock.advance(3.0)
    assert lease.answered == clock.monotonic() - 3.0

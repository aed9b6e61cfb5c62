"""Until when a worker may act follows from its beats alone."""

from holdfast._engine.worker.lease import WorkerLease
from holdfast.testing.clock import FakeClock


def test_s8_nothing_may_start_before_the_first_beat_nor_from_the_deadline_on() -> None:
    clock = FakeClock()
    heart = WorkerLease(clock.monotonic)
    assert not heart.may_act()
    heart.renew(clock.monotonic() + 25.0)
    assert heart.remaining() == 25.0
    clock.advance(24.999)
    assert heart.may_act()
    clock.advance(0.001)
    assert not heart.may_act()
    heart.renew(clock.monotonic() + 25.0)
    assert heart.may_act()


def test_an_older_beat_does_not_take_back_what_a_newer_one_gave() -> None:
    clock = FakeClock()
    heart = WorkerLease(clock.monotonic)
    heart.renew(clock.monotonic() + 25.0)
    heart.renew(clock.monotonic() + 5.0)
    assert heart.remaining() == 25.0


def test_a_lost_lease_never_comes_back() -> None:
    clock = FakeClock()
    heart = WorkerLease(clock.monotonic)
    heart.renew(clock.monotonic() + 25.0)
    heart.lose()
    heart.renew(clock.monotonic() + 50.0)
    assert not heart.may_act()


def test_it_remembers_when_the_store_last_answered() -> None:
    clock = FakeClock()
    heart = WorkerLease(clock.monotonic)
    assert heart.answered == float("-inf")
    heart.store_answered()
    clock.advance(3.0)
    assert heart.answered == clock.monotonic() - 3.0

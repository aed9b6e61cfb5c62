"""The owner of a lease always stops before a supervisor may judge the lease."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast._core.timing import SILENCES_KEPT, LeaseTiming, Silence, Silences, problems_of_intervals

DEFAULT = LeaseTiming.of()


def test_beat_and_margin_follow_the_ttl() -> None:
    assert LeaseTiming(30.0, 6.0, 5.0) == DEFAULT
    assert LeaseTiming.of("3s") == LeaseTiming(3.0, 0.6, 0.5)
    assert LeaseTiming.of(30, "1s", "2s") == LeaseTiming(30.0, 1.0, 2.0)
    assert DEFAULT.problems() == DEFAULT.warnings() == []


@pytest.mark.parametrize(
    ("timing", "rules"),
    [
        (LeaseTiming(0.0, 0.0, 0.0), ["must be greater than zero"]),
        (LeaseTiming(30.0, 0.0, 5.0), ["must be greater than zero"]),
        (LeaseTiming(30.0, 16.0, 0.0), ["ttl >= 2 x beat", "ttl - margin >= 2 x beat", "margin >= beat / 2"]),
        (LeaseTiming(30.0, 15.0, 7.5), ["ttl - margin >= 2 x beat"]),
        (LeaseTiming(30.0, 6.0, 2.9), ["margin >= beat / 2"]),
    ],
)
def test_broken_rules_are_all_named_at_once(timing: LeaseTiming, rules: list[str]) -> None:
    problems = timing.problems()
    assert len(problems) == len(rules)
    assert all(rule in problem for rule, problem in zip(rules, problems, strict=True))
    assert timing.warnings() == []


def test_a_small_margin_is_a_warning() -> None:
    tight = LeaseTiming(30.0, 10.0, 5.0)
    assert tight.problems() == []
    assert len(tight.warnings()) == 1
    assert LeaseTiming(30.0, 8.0, 6.0).warnings() == []


@given(
    ttl=st.floats(0.1, 1e5),
    beat=st.floats(0.01, 1.0),
    margin=st.floats(0.01, 1.0),
    sent=st.floats(0.0, 1e9),
    flight=st.floats(0.0, 1e3),
)
def test_the_owner_stops_first_under_any_settings(ttl: float, beat: float, margin: float, sent: float, flight: float) -> None:
    timing = LeaseTiming(ttl, beat * ttl, margin * ttl)
    if timing.problems():
        return
    expiry = sent + flight + ttl  # on the store's clock, which is read when the beat arrives
    assert sent < timing.owner_deadline(sent) < timing.guard_deadline(sent) < expiry
    assert expiry - timing.owner_deadline(sent) >= timing.margin - 1e-6
    assert timing.owner_deadline(sent) - sent >= 2 * timing.beat - 1e-6
    assert timing.breaks_contact(timing.ttl)


def test_a_supervisor_waits_for_one_beat_and_the_margin_of_the_lease_that_it_judges() -> None:
    assert not DEFAULT.may_judge(contact=100.0, now=110.9)
    assert DEFAULT.may_judge(contact=100.0, now=111.0)


def test_a_silence_of_more_than_a_beat_and_half_the_margin_breaks_contact() -> None:
    assert not DEFAULT.breaks_contact(8.5)
    assert DEFAULT.breaks_contact(8.6)


def test_clocks_that_differ_by_more_than_the_margin_have_stepped() -> None:
    assert not DEFAULT.is_clock_step(store=10.0, own=15.0)
    assert DEFAULT.is_clock_step(store=10.0, own=15.1)
    assert DEFAULT.is_clock_step(store=15.1, own=10.0)


def test_intervals_of_loops_are_positive() -> None:
    assert problems_of_intervals(5.0, 1.0) == []
    assert len(problems_of_intervals(0.0, -1.0)) == 2


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.01, 50.0)), max_size=200), st.floats(0.1, 120.0))
def test_l3_contact_begins_with_the_last_silence_that_was_a_gap_for_the_lease_that_is_judged(
    silences: list[tuple[float, float]], ttl: float
) -> None:
    lease, seen, now, contact = LeaseTiming.of(ttl), Silences.since(0.0), 0.0, 0.0
    for length, pause in silences:
        now += length + pause
        seen = seen.then(Silence(length, now))
        contact = now if lease.breaks_contact(length) else contact
    assert len(seen.kept) <= SILENCES_KEPT
    assert seen.contact_for(lease) >= contact
    if len(seen.kept) < SILENCES_KEPT:
        assert seen.contact_for(lease) == contact


def test_l3_of_too_many_silences_the_shortest_are_kept_as_longer_ones_and_never_forgotten() -> None:
    seen = Silences.since(0.0)
    for number in range(10 * SILENCES_KEPT):
        seen = seen.then(Silence(1000.0 - number, ended=float(number)))
    assert len(seen.kept) == SILENCES_KEPT
    assert seen.contact_for(LeaseTiming.of("30s")) == 10 * SILENCES_KEPT - 1
    assert seen.contact_for(LeaseTiming.of("10h")) == 0.0

"""Limits and rates: what they allow, when, and what is refused when they are written."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast._core.limits import (
    UNLIMITED,
    CountedBy,
    Limit,
    Scope,
    ScopeKind,
    Use,
    is_limited,
    ready_after,
    room_for,
    seated,
    wait_for,
)
from holdfast.errors import ConfigurationError

SECOND = 1_000_000
QUEUE, TASK, ALL = Scope(ScopeKind.QUEUE, "q"), Scope(ScopeKind.TASK, "t"), Scope(ScopeKind.ALL)


def used(limit: Limit, *, now: int = 0, active: Mapping[str | None, int] | None = None, **ready: int) -> Use:
    return Use(limit=limit, now=now, active=active or {}, ready_at={key or None: at for key, at in ready.items()})


@pytest.mark.parametrize(
    ("rate", "interval"),
    [("1/s", SECOND), ("100/m", 600_000), ("20/10s", 500_000), (" 3 / h ", 1_200_000_000), ("1/0.5s", 500_000)],
)
def test_a_rate_is_a_number_and_a_time(rate: str, interval: int) -> None:
    assert Limit(rate=rate).interval == Limit(rate_per_key=rate).interval_per_key == interval


@pytest.mark.parametrize("rate", ["", "5", "0/s", "5/", "5/y", "-1/s", "1/0s", "x/s", "1/.s", "9999999/ms", 5])
def test_a_wrong_rate_is_refused_with_an_example(rate: str) -> None:
    with pytest.raises(ConfigurationError, match="100/m"):
        Limit(rate=rate)


def test_all_problems_of_a_limit_are_named_together() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Limit(concurrency=-1, per_key=0, rate="often", burst=0)
    assert len(raised.value.problems) == 4


def test_a_limit_of_zero_jobs_is_possible() -> None:
    assert used(Limit(concurrency=0)).room(None) == 0


def test_all_limits_of_a_job_together_allow_it() -> None:
    uses = {
        ALL: used(Limit(concurrency=9), active={None: 2}),
        QUEUE: used(Limit(concurrency=5, per_key=2), active={None: 4, "k": 1}),
    }
    assert [room_for(CountedBy("t", queue, key), uses) for queue, key in (("q", "k"), ("q", ""), ("r", "k"))] == [1, 1, 7]
    assert room_for(CountedBy("t", "q", "k"), {}) == UNLIMITED
    assert [is_limited(CountedBy("t", queue, ""), {QUEUE}) for queue in "qr"] == [True, False]


def test_a_job_without_a_seat_in_one_scope_does_not_start() -> None:
    uses = {TASK: used(Limit(concurrency=1)), QUEUE: used(Limit(concurrency=2))}
    seats = [CountedBy("t", "q", ""), CountedBy("t", "q", ""), CountedBy("u", "q", ""), CountedBy("u", "r", "")]
    assert seated(seats, uses) == [True, False, False, True]


def test_a_rate_is_unused_until_its_first_start() -> None:
    use = used(Limit(rate="1/s", burst=3), now=100 * SECOND)
    assert (use.room(None), use.wait(None), use.ready_after(None, 2)) == (3, 0, 102 * SECOND)


def test_the_wait_of_a_rate_ends_when_it_allows_one_start() -> None:
    limit = Limit(rate="1/2s", burst=2)
    use = Use(limit=limit, now=0, ready_at={None: 4 * SECOND})
    assert (use.room(None), use.wait(None)) == (0, 2 * SECOND)
    later = Use(limit=limit, now=2 * SECOND, ready_at={None: 4 * SECOND})
    assert (later.room(None), later.wait(None)) == (1, 0)


@pytest.mark.parametrize("burst", [1, 2])
def test_a_clock_that_was_set_back_lets_one_job_start_and_the_next_at_the_rate(burst: int) -> None:
    limit = Limit(rate="1/s", burst=burst)
    use = Use(limit=limit, now=0, ready_at={None: 3600 * SECOND})
    assert (use.room(None), use.wait(None)) == (1, 0)
    after = Use(limit=limit, now=0, ready_at={None: use.ready_after(None, 1) or 0})
    assert (after.room(None), after.wait(None)) == (0, SECOND)


def test_no_time_is_known_while_all_slots_are_taken() -> None:
    uses = {QUEUE: used(Limit(concurrency=1, rate="1/s"), active={None: 1})}
    assert wait_for(CountedBy("t", "q", ""), uses) is None
    assert wait_for(CountedBy("t", "r", ""), uses) == 0


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 4)), min_size=1, max_size=40),
)
def test_s24_no_window_has_more_starts_than_its_burst_and_its_rate(burst: int, asks: list[tuple[int, int]]) -> None:
    limit, now, ready = Limit(rate="2/s", burst=burst), 0, dict[str | None, int]()
    starts = list[int]()
    for wait, wanted in asks:
        now += wait
        use = {QUEUE: Use(limit=limit, now=now, ready_at=ready)}
        number = min(wanted, use[QUEUE].room(None))
        starts += [now] * number
        for (_, key), at in ready_after([CountedBy("t", "q", "")] * number, use).items():
            ready = {**ready, key: at}
    for place, first in enumerate(starts):
        for last in range(place, len(starts)):
            assert last - place + 1 <= burst + (starts[last] - first) / (SECOND / 2)

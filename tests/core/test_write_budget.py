"""A budget of writes: no window has more, a burst is allowed, and nothing is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast._core.write_budget import DAY, MINUTE, WriteBudget

EARLY = 1e-6  # the rounding of sums


@pytest.mark.parametrize("seconds", [MINUTE, DAY])
@given(most=st.integers(2, 200), gaps=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=300))
def test_no_window_has_more_writes_than_the_budget(seconds: float, most: int, gaps: list[float]) -> None:
    budget, now, sent = WriteBudget(most, seconds), 0.0, list[float]()
    for gap in gaps:
        now += gap
        sent.append(now + budget.take(now))
        now = max(now, sent[-1])
    assert sent == sorted(sent)
    assert not [at for at, later in zip(sent, sent[most:], strict=False) if later - at < seconds - EARLY]


def test_an_hours_worth_of_a_day_comes_at_once_and_the_rest_evenly() -> None:
    budget = WriteBudget(24_000, DAY)
    assert [budget.take(0.0) for _ in range(1000)] == pytest.approx([0.0] * 1000, abs=1e-6)
    waits = [budget.take(0.0) for _ in range(3)]
    assert waits == pytest.approx([n * DAY / 23_000 for n in (1, 2, 3)])


def test_a_budget_that_was_not_used_is_not_saved_beyond_its_burst() -> None:
    budget = WriteBudget(600, MINUTE)
    waits = [budget.take(1e6) for _ in range(102)]
    assert waits[:100] == pytest.approx([0.0] * 100, abs=1e-6)
    assert waits[100:] == pytest.approx([0.12, 0.24])

"""Durations in the forms that users write."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast._core.durations import in_one_unit, seconds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0.6s", 0.6),
        ("250ms", 0.25),
        (" 5 m ", 300.0),
        ("1.5h", 5400.0),
        ("7d", 604800.0),
        ("0s", 0.0),
        (2, 2.0),
        (0.5, 0.5),
        (timedelta(minutes=1, milliseconds=1), 60.001),
    ],
)
def test_a_duration_is_read_in_every_form(written: object, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "written",
    ["", "5", "s", "-5s", "5 s s", "1e3s", "5sec", "1.s", None, True, b"5s", -1, -0.1, float("nan"), float("inf"), timedelta(-1)],
)
def test_any_other_value_is_refused_by_name(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(written)  # type: ignore[arg-type]


@given(st.text(max_size=12) | st.floats() | st.integers(-(10**9), 10**9))
def test_a_duration_is_finite_and_not_negative_or_is_refused(written: str | float) -> None:
    try:
        value = seconds(written)
    except ValueError:
        return
    assert 0.0 <= value < float("inf")


@given(
    st.integers(1, 366 * 86_400_000_000).map(lambda micros: micros / 1e6)
    | st.integers(1, 366 * 24).map(lambda hours: hours * 3600.0)
)
def test_a_duration_in_one_unit_is_read_back_to_the_microsecond(length: float) -> None:
    assert round(seconds(in_one_unit(length)), 6) == length

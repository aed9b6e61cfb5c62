"""A change of code under recorded steps is found by pure comparison, and by nothing else."""

import pytest

from holdfast import ConfigurationError
from holdfast._core.steps import NAME_LIMIT, StepRecord, changed_code, shown, usable

A, B = (StepRecord(name=name, nth=1, place=place, is_sequential=True) for place, name in enumerate("ab"))
BESIDE = StepRecord(name="beside", nth=1, place=2, is_sequential=False)


def test_code_that_asked_for_every_sequential_step_was_not_changed() -> None:
    assert changed_code(("c", 1), [], []) is None
    assert changed_code(("c", 1), [A, B], [A.key, B.key, ("c", 1)]) is None
    assert changed_code(("c", 1), [A, BESIDE], [A.key]) is None


def test_the_first_step_that_was_not_asked_for_is_named() -> None:
    change = changed_code(("c", 2), [B, BESIDE, A], [("c", 1)])
    assert change == "the code asks for step 'c' (use 2), which has no record, before step 'a' (use 1), which has one"
    assert changed_code(("a", 2), [A, B], [A.key]) == (
        "the code asks for step 'a' (use 2), which has no record, before step 'b' (use 1), which has one"
    )


def test_sleeps_and_waits_are_shown_as_the_code_calls_them() -> None:
    assert [shown((name, 1)) for name in (":sleep", ":until:go", ":wait_for:go")] == [
        "sleep (use 1)",
        "the timeout of wait_for('go') (use 1)",
        "wait_for('go') (use 1)",
    ]


def test_a_name_is_short_and_printable_and_begins_with_no_colon() -> None:
    assert usable("step", "charge the card: 7 €") == "charge the card: 7 €"
    for name in ("", ":a", "a\nb", "x" * (NAME_LIMIT + 1), 7):
        with pytest.raises(ConfigurationError, match="use 1 to 200 printable characters"):
            usable("step", name)  # type: ignore[arg-type]

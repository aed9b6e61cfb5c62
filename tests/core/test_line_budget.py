"""A worker logs each attempt while there are few, and never more than 21 lines a second."""

from itertools import count

from holdfast._core.job import State
from holdfast._core.line_budget import LineBudget, Summary


def ends(budget: LineBudget, now: float, *, is_failure: bool = False, seconds: float = 0.02, queue: str = "default") -> bool:
    has_line = budget.takes_line(now, is_failure=is_failure)
    budget.count(queue, State.AVAILABLE if is_failure else State.COMPLETED, seconds, is_failure=is_failure)
    return has_line


def test_each_attempt_has_a_line_while_there_are_few() -> None:
    budget = LineBudget()
    assert all(ends(budget, now / 15) for now in range(600))
    assert budget.summary(1000.0) is None


def test_ten_thousand_attempts_a_second_make_at_most_21_lines_a_second() -> None:
    budget, lines = LineBudget(), [0] * 25
    for number in range(250_000):
        now = number / 10_000
        lines[int(now)] += ends(budget, now, is_failure=number % 7 == 0)
        lines[int(now)] += budget.summary(now) is not None
    assert max(lines) <= 21
    assert min(lines) >= 5


def test_a_burst_of_completed_jobs_leaves_lines_for_failures() -> None:
    budget = LineBudget()
    assert [ends(budget, 0.0) for _ in range(100)].count(True) == 15
    assert [ends(budget, 0.5, is_failure=True) for _ in range(10)].count(True) == 5


def test_a_summary_counts_all_attempts_since_the_second_in_which_lines_ran_out() -> None:
    budget = LineBudget()
    for _ in range(30):
        ends(budget, 5.0)
    ends(budget, 5.5, queue="mail", seconds=4.0)
    ends(budget, 5.6, is_failure=True)
    assert budget.summary(14.9) is None
    assert budget.summary(15.0) == Summary(10.0, {"default": 30, "mail": 1}, 1, 0, 0.02)


def test_lines_come_back_after_ten_calm_seconds() -> None:
    budget, clock = LineBudget(), count()
    while ends(budget, 0.0):
        next(clock)
    assert not ends(budget, 9.0)
    assert budget.summary(10.0) is not None
    assert ends(budget, 10.1)
    assert budget.summary(30.0) is None


def test_a_worker_that_ends_has_its_summary_at_once_and_none_if_nothing_ended() -> None:
    budget = LineBudget()
    for _ in range(250):
        ends(budget, 1.0)
    made = budget.summary(3.0, is_last=True)
    assert made is not None
    assert (made.seconds, sum(made.completed.values())) == (2.0, 250)
    assert budget.summary(3.5, is_last=True) is None


def test_the_median_of_many_times_is_kept_in_little_memory() -> None:
    budget = LineBudget()
    for number in range(100_000):
        ends(budget, 0.0, seconds=float(number))
    made = budget.summary(10.0)
    assert len(budget._times) <= 1024
    assert made is not None
    assert made.median is not None
    assert abs(made.median - 50_000) < 2_000

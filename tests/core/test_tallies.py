"""Tallies add up, show few values of each label, and find the bucket of a value."""

from contextlib import nullcontext
from itertools import pairwise
from uuid import UUID

import pytest

from holdfast._core.metrics import BYTES, METRICS, MOST_VALUES, SECONDS, Kind
from holdfast._core.tallies import MOST_TIMES, Distribution, Tallies, TallyDelta, Totals

JOB, MADE = UUID("01890a5d-ac96-774b-bcce-b302099a8057"), 1688096058.518


def taken(tallies: Tallies) -> TallyDelta:
    delta = tallies.take()
    assert delta is not None
    return delta


def test_all_metrics_have_sixteen_rising_buckets() -> None:
    for bounds in (SECONDS, BYTES):
        assert len(bounds) == 16
        assert all(a < b for a, b in pairwise(bounds))
    assert (SECONDS[0], SECONDS[-1]) == (0.005, 3600.0)
    assert not [
        name
        for name, metric in METRICS.items()
        if (metric.kind is Kind.SECONDS) != name.endswith("_seconds") and metric.kind is not Kind.GAUGE
    ]


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (0.005, 0), (0.0051, 1), (3600.0, 15), (3601.0, 16)])
def test_a_value_falls_into_the_bucket_of_the_first_bound_that_it_does_not_pass(value: float, bucket: int) -> None:
    spread = Distribution.empty()
    spread.observe([value], SECONDS)
    assert (spread.counts[bucket], sum(spread.counts), spread.total) == (1, 1, value)


def test_what_is_taken_is_taken_once_and_adds_up_elsewhere() -> None:
    tallies, supervisor, totals = Tallies(nullcontext()), Tallies(nullcontext()), Totals()
    for _ in range(2):
        tallies.ended(("q", "mail", "completed", "completed", ""), [JOB], [0.02], MADE + 7.0)
        tallies.ended(("q", "mail", "failed", "", ""), [JOB], [0.3], MADE + 7.0)
        supervisor.add(taken(tallies))
    assert tallies.take() is None
    totals.add(taken(supervisor))
    assert totals.counts == {
        ("attempts", "q", "mail", "completed"): 2,
        ("attempts", "q", "mail", "failed"): 2,
        ("jobs_finished", "q", "mail", "completed", ""): 2,
    }
    whole = totals.spreads["job_total_seconds", "q", "mail"]
    assert (sum(whole.counts), round(whole.total, 3)) == (2, 14.0)
    assert totals.spreads["attempt_duration_seconds", "q", "mail", "failed"].counts[SECONDS.index(0.5)] == 2


def test_ten_thousand_tasks_are_two_hundred_values_and_one_other_whose_sum_is_right() -> None:
    tallies, totals = Tallies(nullcontext()), Totals()
    for _ in range(2):
        for number in range(10_000):
            tallies.count("writes_refused", f"task-{number}")
        totals.add(taken(tallies))
    assert len(totals.counts) == MOST_VALUES + 1
    assert totals.counts["writes_refused", "task-0"] == 2
    assert totals.counts["writes_refused", "other"] == 2 * (10_000 - MOST_VALUES)


def test_many_values_are_counted_as_one_by_one() -> None:
    values = [0.0, 0.004, 0.005, 0.3, 0.3, 7200.0, 59.9]
    together, single = Distribution.empty(), Distribution.empty()
    together.observe(list(values), SECONDS)
    for value in values:
        single.observe([value], SECONDS)
    assert (together.counts, round(together.total, 6)) == (single.counts, round(single.total, 6))


def test_waits_are_counted_in_buckets_before_there_are_many_and_each_reader_gets_all() -> None:
    tallies = Tallies(nullcontext())
    tallies.waited(("q", "mail", 0.3))
    first, later = tallies.reader(), tallies.reader()
    for _ in range(MOST_TIMES + 1):
        tallies.waited(("q", "mail", 0.003))
    tallies.ended(("q", "mail", "completed", "completed", ""), [], [], 0.0)  # what each exchange does
    assert not tallies._waits
    deltas = first.take(), later.take()
    for delta, early in zip(deltas, (1, 0), strict=True):
        assert delta is not None
        spread = dict(delta.spreads)["job_wait_seconds", "q", "mail"]
        assert (spread.counts[0], spread.counts[SECONDS.index(0.5)]) == (MOST_TIMES + 1, early)
    assert (first.take(), later.take()) == (None, None)


def test_what_one_reader_has_not_taken_yet_goes_on_while_another_one_takes_often() -> None:
    tallies = Tallies(nullcontext())
    often, seldom = tallies.reader(), tallies.reader()
    for _ in range(3):
        tallies.count("writes_refused", "mail")
        tallies.observe("store_call_seconds", 0.3, "get")
        delta = often.take()
        assert delta is not None
        assert (dict(delta.counts), dict(delta.spreads)["store_call_seconds", "get"].counts[SECONDS.index(0.5)]) == (
            {("writes_refused", "mail"): 1},
            1,
        )
    later = seldom.take()
    assert later is not None
    assert dict(later.counts) == {("writes_refused", "mail"): 3}
    assert dict(later.spreads)["store_call_seconds", "get"].counts[SECONDS.index(0.5)] == 3


def test_many_queues_count_as_one_does() -> None:
    tallies = Tallies(nullcontext())
    numbers = range(MOST_TIMES + 1)
    for number in numbers:
        queue = f"q{number % 1000}"
        tallies.waited((queue, "mail", 0.003 * (number % 5)))
        tallies.ended((queue, "mail", "completed", "completed", ""), [JOB], [0.003 * (number % 7)], MADE + 1 + number % 9)
    delta = taken(tallies)
    counts = {name: sum(by for series, by in delta.counts if series[0] == name) for name in ("attempts", "jobs_finished")}
    assert counts == {"attempts": len(numbers), "jobs_finished": len(numbers)}
    sums = {name: Distribution.empty() for name in ("job_wait_seconds", "attempt_duration_seconds", "job_total_seconds")}
    for series, spread in delta.spreads:
        sums[series[0]].add(spread)
    for name, values in (
        ("job_wait_seconds", [0.003 * (number % 5) for number in numbers]),
        ("attempt_duration_seconds", [0.003 * (number % 7) for number in numbers]),
        ("job_total_seconds", [MADE + 1 + number % 9 - 1688096058.518 for number in numbers]),
    ):
        together = Distribution.empty()
        together.observe(values, SECONDS)
        assert (sums[name].counts, sums[name].total) == (together.counts, pytest.approx(together.total))

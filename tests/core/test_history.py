"""Minutes of workers add up to the steps of a chart."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from holdfast._core.history import MOST_TASKS, Minute, MinuteNote, TaskMinute, aligned, bounded, folded, quantile
from holdfast._core.metrics import SECONDS

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def minute(at: float, *tasks: TaskMinute, seconds: float = 60.0, slots: int | None = 10, in_use: float = 4.0) -> Minute:
    note = MinuteNote(id=UUID(int=1), worker="w", seconds=seconds, slots=slots, in_use=in_use, tasks=tasks)
    return Minute(NOON + timedelta(seconds=at), note)


MAIL, PAY = (
    TaskMinute("default", "mail", {"completed": 120, "failed": 6}, (120, 6), (0, 126), 2, 3),
    TaskMinute("slow", "pay", {"completed": 60}, (0, 0, 0, 60)),
)


def test_a_minute_belongs_to_the_step_in_which_its_middle_lies() -> None:
    found = folded([minute(182, MAIL), minute(122, PAY), minute(62.5, MAIL)], NOON, NOON + timedelta(minutes=4), 60.0)
    assert [step.rescued for step in found.steps] == [2, 0, 2, 0]
    assert [step.retried for step in found.steps] == [0.05, 0.0, 0.05, 0.0]
    assert [step.at for step in found.steps] == [NOON + timedelta(minutes=number) for number in range(4)]
    first, second, _, empty = found.steps
    assert (first.ended, first.rate) == ({"completed": 2.0, "failed": 0.1}, 2.1)
    assert (second.wait_p50, second.run_p50) == (pytest.approx(0.0375), None)
    assert (first.slots, first.in_use, empty.slots, empty.wait_p99) == (10.0, 4.0, 0.0, None)
    assert found.looked_back_to is None


def test_workers_add_up_and_a_long_step_shows_the_average() -> None:
    rows = [minute(181, MAIL), minute(121, MAIL, slots=None, in_use=0.0), minute(61, PAY), minute(61, MAIL)]
    found = folded(rows, NOON, NOON + timedelta(minutes=3), 180.0, by="queue", most=4)
    (step,) = found.steps
    assert step.ended == {"completed": pytest.approx(420 / 180), "failed": pytest.approx(18 / 180)}
    assert (step.slots, step.in_use, step.rescued) == (10.0, 4.0, 6)
    assert {name: steps[0].ended["completed"] for name, steps in found.groups.items()} == {"default": 2.0, "slow": 60 / 180}
    assert found.looked_back_to == NOON + timedelta(seconds=61)


def test_one_queue_or_task_is_shown_apart() -> None:
    rows = [minute(60, MAIL, PAY)]
    for which in ({"queue": "slow"}, {"task": "pay"}):
        (step,) = folded(rows, NOON, NOON + timedelta(minutes=1), 60.0, **which).steps  # type: ignore[arg-type]
        assert (step.ended, step.slots) == ({"completed": 1.0}, 10.0)


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0] * 16 + [5], 0.5, 3600.0),
        ([4], 0.5, 0.0025),
        ([0, 4], 1.0, 0.01),
        ([1, 0, 0, 1], 0.99, pytest.approx(0.0495)),
        ([0, 0], 0.5, None),
    ],
)
def test_a_quantile_lies_in_the_bucket_of_its_value(counts: list[int], share: float, expected: float | None) -> None:
    assert quantile(counts, share) == expected
    assert len(SECONDS) == 16


def test_the_steps_of_all_readers_begin_at_the_same_moments() -> None:
    assert aligned(NOON + timedelta(seconds=899), 300.0) == NOON + timedelta(minutes=10)


def test_a_row_has_few_tasks_and_loses_no_attempt() -> None:
    tasks = {("q", f"t{number}"): TaskMinute("q", f"t{number}", {"completed": number + 1}, (number,)) for number in range(300)}
    row = bounded(tasks)
    assert len(row) == MOST_TASKS + 1
    assert sum(each.outcomes["completed"] for each in row) == sum(range(301))
    assert (row[0].task, row[-1].task, row[-1].wait) == ("t299", "other", (sum(range(100)),))

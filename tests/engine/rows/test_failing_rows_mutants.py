"""Variants of a run without a guard against rows that raise; a scenario of ``test_failing_rows`` notices each of them."""

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from holdfast._engine.rows import run as rows_run
from tests.engine.rows import test_failing_rows


async def test_s9_an_error_that_does_not_shrink_the_batch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_run.RowsRun, "_ends", property(lambda run: run._job._claim.job.crashes))
    with pytest.raises(AssertionError):
        await test_failing_rows.test_s9_a_row_that_raises_does_not_stop_the_others({}, 30)


async def test_s9_a_single_row_whose_error_stops_the_run_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_sparing(run: rows_run.RowsRun) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(rows_run.RowsRun, "sparing_others", not_sparing)
    with pytest.raises(AssertionError):
        await test_failing_rows.test_s9_a_row_that_raises_does_not_stop_the_others({}, 30)


async def _release(run: Any, state: Any, error: BaseException) -> int:
    released: int = await run._table.release(state.fence)
    return released


def _has_always_resets_left(spec: object, row: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "name", "broken", "scenario"),
    [
        (
            rows_run.RowsRun,
            "_keep",
            _release,
            lambda: test_failing_rows.test_s9_a_row_that_raises_does_not_stop_the_others({}, 1),
        ),
        (
            rows_run,
            "has_resets_left",
            _has_always_resets_left,
            test_failing_rows.test_s9_a_row_that_raises_too_often_fails_with_its_error_and_the_others_go_on,
        ),
    ],
    ids=["released at once", "never failed for good"],
)
async def test_s9_a_row_that_raised_and_is_not_withheld_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, broken: object, scenario: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises((AssertionError, ValueError, TimeoutError)):
        await scenario()

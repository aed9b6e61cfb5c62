"""Variants of a run without the guards against rows that raise: the scenarios of ``test_failing_rows`` notice each of them."""

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


async def test_s9_a_row_alone_with_its_error_that_stops_the_run_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_sparing(run: rows_run.RowsRun) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(rows_run.RowsRun, "sparing_others", not_sparing)
    with pytest.raises(AssertionError):
        await test_failing_rows.test_s9_a_row_that_raises_does_not_stop_the_others({}, 30)


async def _give_back(run: Any, ledger: Any, error: BaseException) -> int:
    left: int = await run._table.release(ledger.mark)
    return left


def _has_always_resets_left(watch: object, row: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("place", "name", "broken", "scenario"),
    [
        (
            rows_run.RowsRun,
            "_keep",
            _give_back,
            lambda: test_failing_rows.test_s9_a_row_that_raises_does_not_stop_the_others({}, 1),
        ),
        (
            rows_run,
            "has_resets_left",
            _has_always_resets_left,
            test_failing_rows.test_s9_a_row_that_raises_once_too_often_fails_with_the_error_and_the_others_go_on,
        ),
    ],
    ids=["given back at once", "never failed for good"],
)
async def test_s9_a_row_that_raised_and_is_not_kept_away_is_noticed(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, broken: object, scenario: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    monkeypatch.setattr(place, name, broken)
    with pytest.raises((AssertionError, ValueError, TimeoutError)):
        await scenario()

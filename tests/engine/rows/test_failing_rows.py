"""Rows whose handler raises, exits or dies do not stop the other rows."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import Batch, Cancel, Fail, JobLost, Retry, State, SyncBatch
from holdfast._engine.rows.run import SLICE, is_of_no_row
from tests.engine.rows.rows_worker import Garden
from tests.engine.rows.support import AS_IT_IS_KNOWN, ENDING, again, die, picky, result, tried
from tests.engine.support import LEASE, OTHER, forever
from tests.event_loops import beside


async def test_a_batch_that_finishes_nothing_lets_the_run_rest_so_that_rows_that_always_fail_make_no_hot_loop() -> None:
    tries = list[int]()

    async def handler(batch: Batch) -> None:
        tries.append(len(batch))
        await (batch.retry(batch.keys[:2]) if len(tries) == 1 else batch.done(batch.keys))

    garden = Garden(handler, count=3)
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (row.state, row.failures, garden.ids("new")) == (State.SCHEDULED, 0, [1, 2, 3])
    assert result(row) == {"batches": 1, "done": 0, "failed": 0, "retried": 2, "left": 1, "lost": 0}
    row = await again(garden, job)
    assert (row.state, result(row)["batches"], result(row)["done"], tries) == (State.COMPLETED, 2, 3, [3, 3])


async def test_a_handler_that_raises_half_way_keeps_what_it_finished_and_is_tried_again_an_interval_later() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:2])
        raise ValueError("the bucket is gone")

    garden = Garden(handler, count=5)
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (garden.ids("gone"), garden.ids("new")) == ([1, 2], [3, 4, 5])
    assert row.error is not None
    assert (row.state, row.failures, row.error.message) == (State.SCHEDULED, 1, "the bucket is gone")
    row = await again(garden, job)
    assert (row.state, row.failures, garden.ids("gone"), garden.ids("new")) == (State.SCHEDULED, 2, [1, 2, 3], [4, 5])


@pytest.mark.parametrize("poison", [1, 30, 60])
@pytest.mark.parametrize("options", [{}, {"tells_stamps": True}, {"owner": "holder"}, ENDING])
async def test_s9_a_row_that_raises_does_not_stop_the_others(options: dict[str, Any], poison: int) -> None:
    calls = list[int]()
    garden = Garden(picky(calls, poison), count=60, batch=1000, **options)
    rows = await tried(garden, runs=2)
    assert (garden.ids("gone"), garden.ids("busy")) == ([id for id in range(1, 61) if id != poison], [poison])
    assert len(calls) <= 40
    assert [row.state for row in rows] == [State.COMPLETED] * 2
    (kept,) = garden.log.of("rows.kept")
    assert (kept["rows"], kept["keys"], kept["error"]) == ("pastes", str(poison), f"ValueError: row {poison} is broken")


ENDS = [SystemExit(3), asyncio.CancelledError(), BaseExceptionGroup("both", [SystemExit(1), ValueError()])]
"""What no ``except Exception`` sees."""


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
async def test_s9_a_row_with_which_its_handler_exits_does_not_stop_the_others(error: BaseException) -> None:
    async def handler(batch: Batch) -> None:
        if 2 in batch.keys:
            raise error
        await batch.done(batch.keys)

    garden = Garden(handler, count=9, batch=9)
    await tried(garden, runs=2)
    assert (garden.ids("busy"), len(garden.ids("gone"))) == ([2], 8)


VERDICTS = [Fail("no"), Cancel("no"), Retry(reason="no"), ExceptionGroup("one", [Fail("no")])]
"""What ends a job, and says nothing that would end a row."""


@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)
async def test_s9_a_row_with_which_its_handler_fails_cancels_or_retries_its_job_does_not_stop_the_others(
    verdict: Exception, is_raised: bool
) -> None:
    async def handler(batch: Batch) -> Exception | None:
        if 2 not in batch.keys:
            await batch.done(batch.keys)
            return None
        if is_raised or isinstance(verdict, ExceptionGroup):
            raise verdict
        return verdict

    garden = Garden(handler, count=9, batch=9)
    rows = await tried(garden, runs=2)
    assert (garden.ids("busy"), len(garden.ids("gone"))) == ([2], 8)
    assert [row.state for row in rows] == [State.COMPLETED] * 2
    assert garden.log.of("rows.kept")[0]["error"].endswith("no")


async def test_a_run_whose_handler_fails_it_says_so() -> None:
    async def handler(batch: Batch) -> None:
        raise Fail("the bucket is gone")

    garden = Garden(handler, count=3)
    row = await garden.run_once()
    assert row.error is not None
    assert (row.state, row.failures, row.error.message) == (State.SCHEDULED, 1, "Fail: the bucket is gone")


async def test_s9_a_row_with_which_a_threads_handler_exits_does_not_stop_the_others() -> None:
    def handler(batch: SyncBatch) -> None:
        if 2 in batch.keys:
            raise SystemExit(3)
        batch.done(batch.keys)

    garden = Garden(handler, count=5, batch=9)
    await tried(garden, runs=2)
    assert (garden.ids("busy"), garden.ids("gone")) == ([2], [1, 3, 4, 5])


def test_l11_a_row_beside_a_lost_job_or_a_person_who_stops_the_program_is_not_blamed() -> None:
    for error in (KeyboardInterrupt(), BaseExceptionGroup("both", [ValueError(), JobLost("gone")])):
        assert is_of_no_row(error)
    assert not is_of_no_row(SystemExit())


async def test_s9_a_row_that_raised_is_taken_back_and_counted_by_the_watchdog() -> None:
    garden = Garden(picky([], 2), batch=9, **ENDING)
    await tried(garden)
    garden.clock.advance(7201)
    assert [each.key for each in await garden.plain.reset(9)] == [(2,)]
    assert (garden.plain.rows[2,]["status"], garden.plain.rows[2,]["resets"]) == ("new", 1)


async def test_s9_a_row_that_raises_once_too_often_fails_with_the_error_and_the_others_go_on() -> None:
    garden = Garden(picky([], 2), count=9, batch=9, **ENDING, columns=["id"])
    garden.plain.rows[2,]["resets"] = 2
    row, _ = await tried(garden, runs=2)
    found = garden.plain.rows[2,]
    assert (found["status"], found["why"], result(row)["failed"]) == ("bad", "row 2 is broken", 1)
    assert len(garden.ids("gone")) == 8


async def test_s9_a_handler_that_always_raises_keeps_one_row_away_and_its_run_fails() -> None:
    calls = list[int]()
    garden = Garden(picky(calls, *range(1, 61)), count=60, batch=1000, **ENDING)
    (row,) = await tried(garden)
    assert (row.state, calls, len(garden.ids("busy")), len(garden.ids("new"))) == (State.FAILED, [60, 31, 1, 1], 1, 59)


async def test_s9_rows_that_raise_one_after_the_other_do_not_stop_the_others() -> None:
    garden = Garden(picky([], 3, 4, 5), count=12, batch=100, **ENDING)
    await tried(garden, runs=4)
    assert (garden.ids("busy"), len(garden.ids("gone"))) == ([3, 4, 5], 9)


async def test_s9_a_row_of_a_threads_handler_that_raises_does_not_stop_the_others() -> None:
    def handler(batch: SyncBatch) -> None:
        if 2 in batch.keys:
            raise ValueError("row 2 is broken")
        batch.done(batch.keys)

    garden = Garden(handler, count=5, batch=9)
    await tried(garden, runs=2)
    assert (garden.ids("busy"), garden.ids("gone")) == ([2], [1, 3, 4, 5])


@pytest.mark.parametrize("options", AS_IT_IS_KNOWN)
async def test_s9_a_row_that_is_kept_away_is_not_given_back_by_the_next_attempt(options: dict[str, Any]) -> None:
    saved = list[str]()

    async def handler(batch: Batch) -> None:
        if 2 in batch.keys:
            raise ValueError("row 2 is broken")
        saved.append(str((await garden.row(batch.job.id)).checkpoint))
        await batch.done(batch.keys)

    garden = Garden(handler, count=5, batch=9, **options)
    await tried(garden)
    row = garden.plain.rows[2,]
    mark = row["holder"] if "owner" in options else repr(row["since"])
    assert (row["status"], len(saved)) == ("busy", 2)
    assert all(mark not in each for each in saved[1:])


async def test_a_row_that_is_done_before_its_handler_raises_is_done() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys)
        raise ValueError("afterwards")

    garden = Garden(handler, count=5, batch=2)
    (row,) = await tried(garden)
    assert (row.state, garden.ids("gone"), garden.ids("new")) == (State.FAILED, [1, 2, 3, 4], [5])


async def test_rows_that_a_handler_neither_finishes_nor_raises_for_do_not_stop_the_others() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(key for key in batch.keys if key != 2)

    garden = Garden(handler, count=9, batch=4)
    row = await garden.run_once()
    assert (row.state, row.failures, garden.ids("new"), len(garden.ids("gone"))) == (State.SCHEDULED, 0, [2], 8)


async def test_s9_a_row_that_kills_is_alone_in_the_end_and_nobody_pays_with_it() -> None:
    begun = asyncio.Event()

    async def poisoned(batch: Batch) -> None:
        if 5 in batch.keys:
            begun.set()
            await forever()
        await batch.done(batch.keys)

    first = garden = Garden(poisoned, count=9, batch=9)
    await garden.start()
    await begun.wait()
    sizes = [len(garden.ids("busy"))]
    for lease, heir in ((LEASE, OTHER), (OTHER, structs.replace(OTHER, id=UUID(int=3), worker="worker-3"))):
        begun.clear()
        garden = await die(garden, poisoned, lease=lease, heir=heir, batch=9)
        first.clock.advance(5.0)
        beside(garden._report())
        await garden.exchange.step()
        await begun.wait()
        sizes.append(len(garden.ids("busy")))
    assert (sizes, garden.ids("busy"), garden.ids("gone")) == ([9, 3, 1], [5], [1, 2, 3, 4])


async def test_s9_workers_that_died_long_ago_are_not_held_against_a_run_for_ever() -> None:
    begun = asyncio.Event()

    async def slow(batch: Batch) -> None:
        begun.set()
        await forever()

    garden = Garden(slow, count=9)
    (job,) = await garden.start()
    await begun.wait()

    async def handler(batch: Batch) -> None:
        other.clock.advance(SLICE)
        await batch.done(batch.keys)

    other = await die(garden, handler)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, result(row)["done"], garden.ids("new")) == (
        State.COMPLETED,
        1,
        1,
        [2, 3, 4, 5, 6, 7, 8, 9],
    )

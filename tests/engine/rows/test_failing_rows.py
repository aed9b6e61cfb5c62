"""Rows whose handler raises, exits or dies do not stop the other rows."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import Batch, Cancel, Fail, JobLost, Retry, State, SyncBatch
from holdfast._engine.rows.run import SLICE, is_of_no_row
from tests.engine.rows.rows_worker import RowsWorker
from tests.engine.rows.support import ENDING, FENCE_KNOWN, die, next_attempt, raises_on, result, run_to_end
from tests.engine.support import LEASE, OTHER, forever
from tests.event_loops import beside


async def test_a_run_snoozes_after_a_batch_that_finishes_nothing_so_that_it_makes_no_hot_loop() -> None:
    attempts = list[int]()

    async def handler(batch: Batch) -> None:
        attempts.append(len(batch))
        await (batch.retry(batch.keys[:2]) if len(attempts) == 1 else batch.done(batch.keys))

    worker = RowsWorker(handler, count=3)
    (job,) = await worker.start()
    row = await worker.finish([job])
    assert (row.state, row.failures, worker.ids("new")) == (State.SCHEDULED, 0, [1, 2, 3])
    assert result(row) == {"batches": 1, "done": 0, "failed": 0, "retried": 2, "left": 1, "lost": 0}
    row = await next_attempt(worker, job)
    assert (row.state, result(row)["batches"], result(row)["done"], attempts) == (State.COMPLETED, 2, 3, [3, 3])


async def test_a_handler_that_raises_half_way_keeps_its_finished_rows_and_runs_again_an_interval_later() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:2])
        raise ValueError("the bucket is gone")

    worker = RowsWorker(handler, count=5)
    (job,) = await worker.start()
    row = await worker.finish([job])
    assert (worker.ids("gone"), worker.ids("new")) == ([1, 2], [3, 4, 5])
    assert row.error is not None
    assert (row.state, row.failures, row.error.message) == (State.SCHEDULED, 1, "the bucket is gone")
    row = await next_attempt(worker, job)
    assert (row.state, row.failures, worker.ids("gone"), worker.ids("new")) == (State.SCHEDULED, 2, [1, 2, 3], [4, 5])


@pytest.mark.parametrize("poison", [1, 30, 60])
@pytest.mark.parametrize("options", [{}, {"tells_stamps": True}, {"owner": "holder"}, ENDING])
async def test_s9_a_row_that_raises_does_not_stop_the_others(options: dict[str, Any], poison: int) -> None:
    calls = list[int]()
    worker = RowsWorker(raises_on(calls, poison), count=60, batch=1000, **options)
    rows = await run_to_end(worker, runs=2)
    assert (worker.ids("gone"), worker.ids("busy")) == ([id for id in range(1, 61) if id != poison], [poison])
    assert len(calls) <= 40
    assert [row.state for row in rows] == [State.COMPLETED] * 2
    (kept,) = worker.log.of("rows.kept")
    assert (kept["rows"], kept["keys"], kept["error"]) == ("pastes", str(poison), f"ValueError: row {poison} is broken")


ENDS = [SystemExit(3), asyncio.CancelledError(), BaseExceptionGroup("both", [SystemExit(1), ValueError()])]
"""Errors that ``except Exception`` does not catch."""


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
async def test_s9_a_row_on_which_the_handler_exits_does_not_stop_the_others(error: BaseException) -> None:
    async def handler(batch: Batch) -> None:
        if 2 in batch.keys:
            raise error
        await batch.done(batch.keys)

    worker = RowsWorker(handler, count=9, batch=9)
    await run_to_end(worker, runs=2)
    assert (worker.ids("busy"), len(worker.ids("gone"))) == ([2], 8)


VERDICTS = [Fail("no"), Cancel("no"), Retry(reason="no"), ExceptionGroup("one", [Fail("no")])]
"""Outcomes that end a job; they end no row."""


@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)
async def test_s9_a_row_on_which_the_handler_fails_cancels_or_retries_its_job_does_not_stop_the_others(
    verdict: Exception, is_raised: bool
) -> None:
    async def handler(batch: Batch) -> Exception | None:
        if 2 not in batch.keys:
            await batch.done(batch.keys)
            return None
        if is_raised or isinstance(verdict, ExceptionGroup):
            raise verdict
        return verdict

    worker = RowsWorker(handler, count=9, batch=9)
    rows = await run_to_end(worker, runs=2)
    assert (worker.ids("busy"), len(worker.ids("gone"))) == ([2], 8)
    assert [row.state for row in rows] == [State.COMPLETED] * 2
    assert worker.log.of("rows.kept")[0]["error"].endswith("no")


async def test_a_run_that_its_handler_fails_records_the_reason() -> None:
    async def handler(batch: Batch) -> None:
        raise Fail("the bucket is gone")

    worker = RowsWorker(handler, count=3)
    row = await worker.run_once()
    assert row.error is not None
    assert (row.state, row.failures, row.error.message) == (State.SCHEDULED, 1, "Fail: the bucket is gone")


async def test_s9_a_row_on_which_a_handler_in_a_thread_exits_does_not_stop_the_others() -> None:
    def handler(batch: SyncBatch) -> None:
        if 2 in batch.keys:
            raise SystemExit(3)
        batch.done(batch.keys)

    worker = RowsWorker(handler, count=5, batch=9)
    await run_to_end(worker, runs=2)
    assert (worker.ids("busy"), worker.ids("gone")) == ([2], [1, 3, 4, 5])


def test_l11_no_row_is_blamed_for_a_lost_job_or_a_keyboard_interrupt() -> None:
    for error in (KeyboardInterrupt(), BaseExceptionGroup("both", [ValueError(), JobLost("gone")])):
        assert is_of_no_row(error)
    assert not is_of_no_row(SystemExit())


async def test_s9_the_watchdog_resets_and_counts_a_row_that_raised() -> None:
    worker = RowsWorker(raises_on([], 2), batch=9, **ENDING)
    await run_to_end(worker)
    worker.clock.advance(7201)
    assert [each.key for each in await worker.plain.reset(9)] == [(2,)]
    assert (worker.plain.rows[2,]["status"], worker.plain.rows[2,]["resets"]) == ("new", 1)


async def test_s9_a_row_that_raises_too_often_fails_with_its_error_and_the_others_go_on() -> None:
    worker = RowsWorker(raises_on([], 2), count=9, batch=9, **ENDING, columns=["id"])
    worker.plain.rows[2,]["resets"] = 2
    row, _ = await run_to_end(worker, runs=2)
    found = worker.plain.rows[2,]
    assert (found["status"], found["why"], result(row)["failed"]) == ("bad", "row 2 is broken", 1)
    assert len(worker.ids("gone")) == 8


async def test_s9_a_handler_that_always_raises_withholds_one_row_and_its_run_fails() -> None:
    calls = list[int]()
    worker = RowsWorker(raises_on(calls, *range(1, 61)), count=60, batch=1000, **ENDING)
    (row,) = await run_to_end(worker)
    assert (row.state, calls, len(worker.ids("busy")), len(worker.ids("new"))) == (State.FAILED, [60, 31, 1, 1], 1, 59)


async def test_s9_rows_that_raise_one_after_the_other_do_not_stop_the_others() -> None:
    worker = RowsWorker(raises_on([], 3, 4, 5), count=12, batch=100, **ENDING)
    await run_to_end(worker, runs=4)
    assert (worker.ids("busy"), len(worker.ids("gone"))) == ([3, 4, 5], 9)


async def test_s9_a_row_on_which_a_handler_in_a_thread_raises_does_not_stop_the_others() -> None:
    def handler(batch: SyncBatch) -> None:
        if 2 in batch.keys:
            raise ValueError("row 2 is broken")
        batch.done(batch.keys)

    worker = RowsWorker(handler, count=5, batch=9)
    await run_to_end(worker, runs=2)
    assert (worker.ids("busy"), worker.ids("gone")) == ([2], [1, 3, 4, 5])


@pytest.mark.parametrize("options", FENCE_KNOWN)
async def test_s9_the_next_attempt_does_not_release_a_row_that_is_withheld(options: dict[str, Any]) -> None:
    saved = list[str]()

    async def handler(batch: Batch) -> None:
        if 2 in batch.keys:
            raise ValueError("row 2 is broken")
        saved.append(str((await worker.row(batch.job.id)).checkpoint))
        await batch.done(batch.keys)

    worker = RowsWorker(handler, count=5, batch=9, **options)
    await run_to_end(worker)
    row = worker.plain.rows[2,]
    fence = row["holder"] if "owner" in options else repr(row["since"])
    assert (row["status"], len(saved)) == ("busy", 2)
    assert all(fence not in each for each in saved[1:])


async def test_a_row_that_is_done_before_its_handler_raises_is_done() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys)
        raise ValueError("afterwards")

    worker = RowsWorker(handler, count=5, batch=2)
    (row,) = await run_to_end(worker)
    assert (row.state, worker.ids("gone"), worker.ids("new")) == (State.FAILED, [1, 2, 3, 4], [5])


async def test_rows_that_a_handler_leaves_open_do_not_stop_the_others() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(key for key in batch.keys if key != 2)

    worker = RowsWorker(handler, count=9, batch=4)
    row = await worker.run_once()
    assert (row.state, row.failures, worker.ids("new"), len(worker.ids("gone"))) == (State.SCHEDULED, 0, [2], 8)


async def test_s9_a_row_that_kills_its_worker_is_isolated_step_by_step_and_no_other_row_pays() -> None:
    begun = asyncio.Event()

    async def poisoned(batch: Batch) -> None:
        if 5 in batch.keys:
            begun.set()
            await forever()
        await batch.done(batch.keys)

    first = worker = RowsWorker(poisoned, count=9, batch=9)
    await worker.start()
    await begun.wait()
    sizes = [len(worker.ids("busy"))]
    for lease, next_lease in ((LEASE, OTHER), (OTHER, structs.replace(OTHER, id=UUID(int=3), worker="worker-3"))):
        begun.clear()
        worker = await die(worker, poisoned, lease=lease, next_lease=next_lease, batch=9)
        first.clock.advance(5.0)
        beside(worker._report())
        await worker.exchange.step()
        await begun.wait()
        sizes.append(len(worker.ids("busy")))
    assert (sizes, worker.ids("busy"), worker.ids("gone")) == ([9, 3, 1], [5], [1, 2, 3, 4])


async def test_s9_workers_that_died_long_ago_are_not_held_against_a_run() -> None:
    begun = asyncio.Event()

    async def slow(batch: Batch) -> None:
        begun.set()
        await forever()

    worker = RowsWorker(slow, count=9)
    (job,) = await worker.start()
    await begun.wait()

    async def handler(batch: Batch) -> None:
        other.clock.advance(SLICE)
        await batch.done(batch.keys)

    other = await die(worker, handler)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, result(row)["done"], worker.ids("new")) == (
        State.COMPLETED,
        1,
        1,
        [2, 3, 4, 5, 6, 7, 8, 9],
    )

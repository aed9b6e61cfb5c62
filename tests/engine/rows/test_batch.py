"""The verbs of a batch: which rows they move, and what they report when a row or an answer is lost."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Batch, ConfigurationError, JobLost, State, SyncBatch, Unsupported
from holdfast._engine.runners.running import Stop
from tests.engine.rows.rows_worker import RowsWorker
from tests.engine.rows.support import completes, result
from tests.engine.support import Held, turns, until
from tests.event_loops import run


async def test_rows_fail_for_good_with_a_reason() -> None:
    async def handler(batch: Batch) -> None:
        assert await batch.fail([2], "no such object") == [2]
        await batch.done([1, 3])

    worker = RowsWorker(handler, failed="bad", reason="why")
    row = await worker.run_once()
    assert (worker.ids("bad"), worker.plain.rows[2,]["why"], result(row)["failed"]) == ([2], "no such object", 1)


def test_fail_without_a_status_for_it_names_the_remedy() -> None:
    errors = list[ConfigurationError]()

    async def handler(batch: Batch) -> None:
        with pytest.raises(ConfigurationError, match=r"pass failed='…' to app.rows\('pastes'") as caught:
            await batch.fail(batch.keys)
        errors.append(caught.value)
        await batch.done(batch.keys)

    run(completes(handler))
    assert len(errors) == 1


@pytest.mark.parametrize("keys", [[4], ["1"], "12", [1, 9]])
def test_keys_of_another_batch_are_refused(keys: Any) -> None:
    async def handler(batch: Batch) -> None:
        with pytest.raises(ValueError, match=r"batch\.keys"):
            await batch.done(keys)
        await batch.done(batch.keys)

    run(completes(handler))


def test_keys_of_several_columns_are_tuples() -> None:
    async def handler(batch: Batch) -> None:
        assert batch.keys == [(1, 1), (2, 2), (3, 3)]
        assert await batch.done([(1, 1), [2, 2]]) == [(1, 1), (2, 2)]
        assert await batch.done(batch.keys) == [(3, 3)], "what is finished is not sent again"

    run(completes(handler, key=("shop", "id")))


async def test_s3_after_the_job_was_lost_every_verb_raises_job_lost() -> None:
    raised = list[str]()

    async def handler(batch: Batch) -> None:
        worker.executor.running[batch.job.id].context.mark_lost()
        verbs: dict[str, Callable[[], Awaitable[Any]]] = {
            "done": lambda: batch.done(batch.keys),
            "retry": lambda: batch.retry(batch.keys),
            "fail": lambda: batch.fail(batch.keys),
            "alive": batch.alive,
            "transaction": batch.transaction().__aenter__,
        }
        for name, verb in verbs.items():
            try:
                await verb()
            except JobLost:
                raised.append(name)

    worker = RowsWorker(handler, owner="holder", failed="bad")
    await worker.finish(await worker.start())
    assert raised == ["done", "retry", "fail", "alive", "transaction"]
    assert worker.ids("new") == [1, 2, 3], "they are released: the fence proves that they were this run's"


async def take_over(worker: RowsWorker, *, stale: float = 7201.0) -> None:
    """Let the watchdog reset all rows, and another worker claim the first two."""
    worker.clock.advance(stale)
    assert len(await worker.plain.reset(100)) == 3
    assert len((await worker.plain.claim("another worker", 2)).rows) == 2


async def test_s3_a_zombie_changes_no_row_that_was_reset_and_claimed_and_learns_which_it_lost() -> None:
    async def handler(batch: Batch) -> None:
        await take_over(worker)
        assert await batch.done(batch.keys) == []
        assert batch.open == []

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert (worker.ids("busy"), worker.ids("new")) == ([1, 2], [3])
    (event,) = worker.log.of("rows.lost")
    assert (event["rows"], event["count"], event["keys"]) == ("pastes", 3, "1, 2, 3")
    assert result(row) == {"batches": 1, "done": 0, "failed": 0, "retried": 0, "left": 0, "lost": 3}


async def test_s3_a_batch_renews_its_stamp_with_an_owner_column_and_is_not_taken_for_stuck() -> None:
    async def handler(batch: Batch) -> None:
        for _ in range(3):
            worker.clock.advance(7000)
            assert await batch.alive()
            assert await worker.plain.reset(100) == []
        await batch.done(batch.keys[:1])
        worker.clock.advance(7201)
        assert len(await worker.plain.reset(100)) == 2
        assert not await batch.alive()
        assert batch.open == []

    worker = RowsWorker(handler, owner="holder")
    row = await worker.run_once()
    counts = json.loads(row.checkpoint or b"{}")["so_far"]
    assert (row.state, counts["done"], counts["lost"]) == (State.AVAILABLE, 1, 2)
    (event,) = worker.log.of("rows.batch_slow")
    assert event["seconds"] == 7201.0


async def test_the_longest_time_under_one_stamp_counts() -> None:
    async def handler(batch: Batch) -> None:
        worker.clock.advance(2500)
        await batch.alive()
        worker.clock.advance(10)
        await batch.done(batch.keys)

    worker = RowsWorker(handler, owner="holder")
    await worker.run_once()
    assert [each["seconds"] for each in worker.log.of("rows.batch_slow")] == [2500.0]


def test_without_an_owner_column_a_stamp_cannot_be_renewed() -> None:
    async def handler(batch: Batch) -> None:
        with pytest.raises(Unsupported, match="owner='column'"):
            await batch.alive()
        await batch.done(batch.keys)

    run(completes(handler))


@pytest.mark.parametrize(("took", "is_tight"), [(2399.0, False), (2401.0, True)])
async def test_a_batch_that_takes_more_than_a_third_of_stale_after_is_reported(took: float, is_tight: bool) -> None:
    async def handler(batch: Batch) -> None:
        worker.clock.advance(took)
        await batch.done(batch.keys)

    worker = RowsWorker(handler)
    await worker.run_once()
    reports = [(each["seconds"], each["stale_after"]) for each in worker.log.of("rows.batch_slow")]
    assert reports == ([(took, 7200.0)] if is_tight else [])


async def test_a_move_whose_answer_was_lost_is_repeated_and_loses_no_row() -> None:
    async def handler(batch: Batch) -> None:
        worker.table.fail("move")
        finishing = asyncio.ensure_future(batch.done(batch.keys[:1]))
        await until(lambda: "move" in worker.table.calls)
        await turns()
        worker.clock.advance(1)
        assert await finishing == [1]
        worker.table.lose_answer("move")
        finishing = asyncio.ensure_future(batch.done(batch.keys[1:]))
        await until(lambda: worker.table.calls.count("move") == 3)
        await turns()
        worker.clock.advance(1)
        assert await finishing == [], "only rows that are known to have moved"

    worker = RowsWorker(handler)
    await worker.run_once()
    assert (worker.ids("gone"), worker.log.of("rows.lost")) == ([1, 2, 3], [])


async def test_s3_a_move_that_is_repeated_after_an_outage_finishes_no_row_of_the_next_batch() -> None:
    batches, left_running = list[Batch](), list[asyncio.Task[Any]]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 1:
            await batch.done([1])
            worker.table.fail("move")
            left_running.append(asyncio.ensure_future(batch.done([2, 3])))
            await is_away.wait()
            return
        worker.clock.advance(5)
        assert await left_running[0] == []
        assert await batch.done(batch.keys) == [2, 3]

    worker, is_away = RowsWorker(handler, owner="holder"), asyncio.Event()
    worker.log.events.on("store.unavailable", lambda _: is_away.set())
    row = await worker.run_once()
    assert (row.state, result(row)["done"], result(row)["lost"]) == (State.COMPLETED, 3, 0)


async def test_a_batch_that_has_ended_is_not_alive() -> None:
    batches = list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        assert await batch.alive()
        await batch.done(batch.keys if len(batches) > 1 else [1])
        assert await batches[0].alive() is (len(batches) == 1)

    row = await RowsWorker(handler, owner="holder").run_once()
    assert (row.state, len(batches)) == (State.COMPLETED, 2)


@pytest.mark.parametrize("owner", [None, "holder"])
async def test_s3_code_that_a_handler_left_running_finishes_no_row_of_the_next_batch(owner: str | None) -> None:
    batches = list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 1:
            await batch.done(batch.keys[:1])
            return
        assert set(batches[0].keys) & set(batch.keys) == {2, 3}
        assert await batches[0].done([2, 3]) == []
        assert batch.open == batch.keys
        await batch.done(batch.keys)

    worker = RowsWorker(handler, owner=owner)
    row = await worker.run_once()
    assert (row.state, result(row)["done"], result(row)["lost"]) == (State.COMPLETED, 3, 0)


async def test_a_handler_in_a_thread_has_the_same_verbs() -> None:
    def handler(batch: SyncBatch) -> None:
        assert (len(batch), batch.keys, batch.job.attempt) == (3, [1, 2, 3], 1)
        assert batch.done([1]) == [1]
        assert batch.alive()
        with batch.transaction() as tx:
            assert tx.done([2]) == [2]
            tx.connection["content"] = 7
        assert batch.fail([3], "no") == [3]
        assert batch.retry([3]) == []

    worker = RowsWorker(handler, owner="holder", failed="bad")
    row = await worker.run_once()
    assert row.state is State.COMPLETED, row.error
    assert (worker.ids("gone"), worker.ids("bad"), worker.plain.others) == ([1, 2], [3], {"content": 7})


async def test_a_cancelled_handler_in_a_thread_releases_its_open_rows_once_it_ends() -> None:
    gate = Held()

    def handler(batch: SyncBatch) -> None:
        batch.done([1])
        gate.wait_here()

    worker = RowsWorker(handler, count=9)
    jobs = await worker.start()
    await until(gate.come.is_set)
    await worker.memory.request_cancel(jobs)
    worker.executor.stop(jobs[0], Stop.CANCELLED)
    await turns()
    assert worker.ids("busy") == [2, 3], "its code has not stopped"
    gate.set()
    row = await worker.finish(jobs)
    assert (row.state, worker.ids("gone"), worker.ids("busy")) == (State.CANCELLED, [1], [])
    assert worker.table.calls.count("claim") == 1


async def test_a_thread_that_must_stop_does_not_wait_for_a_database_that_is_away() -> None:
    errors = list[str]()

    def handler(batch: SyncBatch) -> None:
        worker.table.fail("move", 100)
        try:
            batch.done([1])
        except asyncio.CancelledError:
            errors.append("cancelled")
            raise

    worker = RowsWorker(handler)
    jobs = await worker.start()
    await until(lambda: "move" in worker.table.calls)
    worker.executor.stop(jobs[0], Stop.DRAINED)
    await turns()
    worker.clock.advance(1)
    row = await worker.finish(jobs)
    assert (row.state, errors, worker.ids("new")) == (State.AVAILABLE, ["cancelled"], [1, 2, 3])


@pytest.mark.parametrize("key", ["id", ("id", "part")])
async def test_all_keys_of_a_batch_in_any_form_finish_its_rows_once(key: Any) -> None:
    given: list[Callable[[list[Any]], Any]] = [
        list,
        tuple,
        iter,
        reversed,
        lambda keys: keys + keys,
        lambda keys: dict.fromkeys(keys),
        lambda keys: [each for each in keys if each == keys[0]] + keys[1:],
    ]

    async def handler(batch: Batch) -> None:
        keys = batch.keys
        keys.clear()
        assert batch.keys == [row["id"] if key == "id" else (row["id"], row["part"]) for row in batch.rows] == batch.open
        assert sorted(await batch.done(given.pop()(batch.keys))) == batch.keys
        assert (batch.open, await batch.done(batch.keys)) == ([], [])

    row = await RowsWorker(handler, count=3 * len(given), key=key).run_once()
    assert (row.state, given) == (State.COMPLETED, [])


def test_s6_a_move_that_is_repeated_after_an_outage_is_not_taken_for_the_whole_batch() -> None:
    async def handler(batch: Batch) -> None:
        worker.table.fail("move")
        await asyncio.gather(batch.done([1, 2]), batch.done([1, 3]))
        assert batch.open == [4]
        await batch.retry([4])

    async def test() -> None:
        await worker.start()
        await until(lambda: "move" in worker.table.calls)
        worker.clock.advance(5)
        await until(lambda: len(worker.ids("gone")) == 3)
        assert worker.ids("gone") == [1, 2, 3]

    worker = RowsWorker(handler, count=4, batch=4)
    run(test())


def test_s6_once_an_answer_was_lost_rows_are_not_found_by_their_fence_only() -> None:
    calls = list[bool]()

    async def handler(batch: Batch) -> None:
        worker.table.lose_answer("move")
        await batch.done(batch.keys)

    async def test() -> None:
        move = worker.plain.move

        async def record_is_all(*arguments: Any, is_all: bool = False) -> Any:
            calls.append(is_all)
            return await move(*arguments, is_all=is_all)

        worker.plain.move = record_is_all  # type: ignore[method-assign]
        await worker.start()
        await until(lambda: bool(calls))
        worker.clock.advance(5)
        await until(lambda: len(calls) == 2)
        assert calls == [True, False]

    worker = RowsWorker(handler)
    run(test())


async def test_part_of_a_batch_is_never_taken_for_all_of_it() -> None:
    async def handler(batch: Batch) -> None:
        assert await batch.done(batch.keys[:1]) == [1]
        assert batch.open == [2, 3]
        async with batch.transaction() as tx:
            assert await tx.done([2]) == [2]
            assert await tx.done([2, 3]) == [3]
            assert await tx.done([3]) == []
        with pytest.raises(ValueError, match="not in this batch: 9"):
            await batch.done([1, 2, 9])

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert (row.state, worker.ids("gone"), result(row)["done"]) == (State.COMPLETED, [1, 2, 3], 3)

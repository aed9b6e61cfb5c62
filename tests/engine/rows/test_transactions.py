"""Moves of rows commit together with the statements of the handler, or not at all."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Batch, RowsLost, State
from holdfast._ports.table import RowFence
from tests.engine.rows.rows_worker import RowsWorker
from tests.engine.rows.support import result


async def test_row_state_and_the_users_statements_commit_together() -> None:
    async def handler(batch: Batch) -> None:
        if len(batch) == 1:
            return
        async with batch.transaction() as tx:
            assert await tx.done(batch.keys[:2]) == [1, 2]
            assert await tx.done(batch.keys[:2]) == [], "once"
            tx.connection["content"] = 7
        assert batch.open == [3]
        try:
            async with batch.transaction() as tx:
                await tx.done([3])
                tx.connection["content"] = 6
                raise RuntimeError
        except RuntimeError:
            assert batch.open == [3]

    worker = RowsWorker(handler, batch=10)
    row = await worker.run_once()
    assert (worker.plain.others, worker.ids("new")) == ({"content": 7}, [3])
    assert (result(row)["done"], result(row)["left"]) == (2, 2)


async def test_a_handler_that_catches_the_error_of_a_move_commits_nothing_of_its_block() -> None:
    async def handler(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            tx._moves.move = refuse  # type: ignore[assignment]
            with suppress(LookupError):
                await tx.done(batch.keys)

    async def refuse(*_: object, **__: object) -> list[Any]:
        raise LookupError("a CHECK of the table")

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert (worker.plain.others, row.failures, row.error and row.error.type) == ({}, 1, "LookupError")


async def test_a_move_that_is_cancelled_commits_nothing_of_its_block() -> None:
    async def handler(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            tx._moves.move = wait  # type: ignore[assignment]
            move = asyncio.ensure_future(tx.done(batch.keys))
            await begun.wait()
            move.cancel()
            await asyncio.wait([move])

    async def wait(*_: object, **__: object) -> list[Any]:
        begun.set()
        return await asyncio.Future()

    worker, begun = RowsWorker(handler), asyncio.Event()
    message = "batch.transaction(): a move was cancelled; the transaction is rolled back"
    row = await worker.run_once()
    assert (worker.plain.others, row.failures, row.error and row.error.message) == ({}, 1, message)


async def test_a_move_that_is_refused_before_it_is_sent_commits_nothing_of_its_block() -> None:
    async def handler(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            with suppress(ValueError):
                await tx.done([*batch.keys, 99])

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert (worker.plain.others, row.failures, row.error and row.error.type) == ({}, 1, "ValueError")


@pytest.mark.parametrize("lost_by", ["closed", "lost", "released"])
async def test_s3_a_transaction_for_rows_that_are_known_to_be_gone_commits_nothing(lost_by: str) -> None:
    batches = list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        await batch.done([1] if len(batches) == 1 else batch.keys)
        if lost_by == "closed" and len(batches) == 1:
            return
        if lost_by == "lost" and len(batches) == 1:
            worker.plain.rows[3,] |= {"since": 0.0}
            assert await batch.done([3]) == []
        if lost_by == "released" and len(batches) == 1:
            assert await batch.retry([3]) == [3]
        if len(batches) == 1 or lost_by == "closed":
            with pytest.raises(RowsLost, match="3") as caught:
                await apply(batches[0])
            assert caught.value.keys == [3]

    async def apply(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            await tx.done([3])

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert (row.state, worker.plain.others) == (State.COMPLETED, {})
    assert len(batches) == 2


@pytest.mark.parametrize("is_caught", [False, True])
async def test_s3_no_effect_is_applied_for_a_row_of_another_owner(is_caught: bool) -> None:
    errors = list[RowsLost]()

    async def handler(batch: Batch) -> None:
        if errors:
            return
        await worker.plain.release(RowFence(repr(batch.rows[0]["since"]), ""))
        worker.plain.rows[3,] |= {"status": "busy", "since": batch.rows[0]["since"]}  # one of them is still of this batch
        try:
            async with batch.transaction() as tx:
                tx.connection["content"] = 7
                try:
                    await tx.done(batch.keys)
                except RowsLost:
                    if not is_caught:
                        raise
        except RowsLost as error:
            errors.append(error)
        assert batch.open == [3]
        async with batch.transaction() as tx:
            await tx.done(batch.open)
            tx.connection["content"] = 6

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert errors[0].keys == [1, 2]
    assert worker.plain.others == {"content": 6}
    assert (result(row)["done"], result(row)["lost"], result(row)["left"]) == (1, 2, 2)

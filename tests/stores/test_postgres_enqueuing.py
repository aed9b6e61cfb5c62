"""Enqueue calls that meet another transaction which they cannot see yet."""

import asyncio
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer
from holdfast._core.job import NewJob, State
from holdfast._core.policy import RETENTION_FLOOR
from holdfast.databases.postgres.database import CONNECTIONS
from holdfast.errors import HoldfastError
from holdfast.testing.contracts.scene import Scene, done, play
from tests.e2e.waiting import STALL
from tests.stores.postgres_concurrent_sessions import Stage, rival, waits
from tests.stores.postgres_databases import Home


async def within(at: Scene, caller: Any, *jobs: NewJob) -> EnqueueAnswer:
    """Enqueue inside a caller's own transaction, and return the answer."""
    store: Any = at.store
    return await store.enqueue_within(caller, at.chance.uuid4(), jobs)  # type: ignore[no-any-return]


def test_s10_a_repeated_call_whose_receipt_is_pruned_in_the_meantime_enqueues_again(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, call, jobs = await at.running(), at.chance.uuid4(), [at.new(), at.new()]
        await at.settle(done(active))
        assert (await at.store.enqueue(call, jobs, under=(active.id, active.token))).is_lost
        at.advance(RETENTION_FLOOR)
        async with rival(home) as tidier:
            assert (await tidier.prune(10)).receipts > 0
            copy = asyncio.ensure_future(at.another().enqueue(call, jobs))  # a store that does not know that these ids may exist
            assert await waits(home, copy)
        assert await copy == EnqueueAnswer()
        assert [await at.state(job.id) for job in jobs] == [State.AVAILABLE] * 2

    play(Stage(home), act)


def test_l4_a_copy_of_a_call_does_not_wait_for_the_pruning_of_its_receipt(home: Home) -> None:
    async def act(at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new(key="k")
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        at.advance(RETENTION_FLOOR)
        async with rival(home) as tidier:
            assert (await tidier.prune(10)).receipts == 1
            copy = asyncio.ensure_future(at.store.enqueue(call, [job]))
            assert not await waits(home, copy)
            assert await copy == EnqueueAnswer()

    play(Stage(home), act)


def test_s11_a_call_that_loses_a_key_to_another_payload_is_refused_as_a_whole(home: Home) -> None:
    """Also in a caller's transaction, which continues."""

    async def act(at: Scene) -> None:
        first, other = at.new(key="k", payload=b"1"), at.new(key="k", payload=b"2")
        async with rival(home) as caller:
            async with rival(home) as faster:
                assert await faster.enqueue(at.chance.uuid4(), [first]) == EnqueueAnswer()
                second = asyncio.ensure_future(caller.enqueue(at.chance.uuid4(), [at.new(), other]))
                assert await waits(home, second)
            assert await second == EnqueueAnswer({other.id: Duplicate(first.id, is_same=False)})
        assert [row.id for row in await at.store.list(at.everything)] == [first.id]

    play(Stage(home), act)


def test_s11_a_call_that_loses_one_key_to_another_payload_keeps_no_key_that_it_won(home: Home) -> None:
    async def act(at: Scene) -> None:
        first, other = at.new(key="b", payload=b"1"), at.new(key="b", payload=b"2")
        async with rival(home) as faster:
            assert await faster.enqueue(at.chance.uuid4(), [first]) == EnqueueAnswer()
            second = asyncio.ensure_future(at.send(at.new(key="a"), other))
            assert await waits(home, second)
        assert await second == EnqueueAnswer({other.id: Duplicate(first.id, is_same=False)})
        await at.enqueue(at.new(key="a"))

    play(Stage(home), act)


def test_s7_a_key_lost_to_another_payload_leaves_the_callers_transaction_as_it_was(home: Home) -> None:
    """The keys that the call won before are free at once: no other call waits until the caller ends its transaction."""

    async def act(at: Scene) -> None:
        first, other, kept = at.new(key="b", payload=b"1"), at.new(key="b", payload=b"2"), at.new()
        caller = await asyncpg.connect(home.dsn)
        async with caller.transaction():
            async with rival(home) as faster:
                await faster.enqueue(at.chance.uuid4(), [first])
                jobs = [at.new(key="a"), other, at.new(key="c")]
                second = asyncio.ensure_future(within(at, caller, *jobs))
                assert await waits(home, second)
            assert await second == EnqueueAnswer({other.id: Duplicate(first.id, is_same=False)})
            third = asyncio.ensure_future(at.send(at.new(key="a")))
            assert not await waits(home, third)
            assert await third == EnqueueAnswer()
            assert await within(at, caller, kept) == EnqueueAnswer()
        await caller.close()
        assert await at.state(kept.id) is State.AVAILABLE
        assert home.sql("SELECT key FROM holdfast.unique_keys ORDER BY key") == [("a",), ("b",)]

    play(Stage(home), act)


@pytest.mark.parametrize("keys", ["k", "ak"])
@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
def test_s11_a_call_whose_snapshot_hides_the_holder_of_a_key_is_asked_to_run_again(home: Home, level: Any, keys: str) -> None:
    async def act(at: Scene) -> None:
        first, again = at.new(key="k"), at.new(key="k")
        caller = await asyncpg.connect(home.dsn)
        begun = caller.transaction(isolation=level)
        await begun.start()
        await caller.fetch("SELECT 1 FROM holdfast.versions")
        await at.enqueue(first)
        with pytest.raises(asyncpg.SerializationError, match="took a unique key") as failure:
            await within(at, caller, *(at.new(key=key) for key in keys))
        await begun.rollback()
        assert str(failure.value.hint).startswith("Run this transaction again")
        async with caller.transaction(isolation=level):
            assert await within(at, caller, again) == EnqueueAnswer({again.id: Duplicate(first.id, is_same=True)})
        await caller.close()

    play(Stage(home), act)


@pytest.mark.parametrize("key", [None, "k"])
def test_s7_a_duplicate_id_is_refused_and_the_callers_transaction_continues(home: Home, key: str | None) -> None:
    async def act(at: Scene) -> None:
        job, kept = at.new(), at.new()
        twice = structs.replace(at.new(key=key), id=job.id)
        caller = await asyncpg.connect(home.dsn)
        async with caller.transaction():
            await within(at, caller, job)
            with pytest.raises(HoldfastError, match="its own id"):
                await within(at, caller, twice)
            with pytest.raises(HoldfastError, match="its own id"):
                await within(at, caller, kept, kept)
            await within(at, caller, kept)
        await caller.close()
        assert {row.id for row in await at.store.list(at.everything)} == {job.id, kept.id}
        assert home.sql("SELECT key FROM holdfast.unique_keys") == []

    play(Stage(home), act)


def test_l11_calls_that_wait_for_a_key_leave_connections_for_outcomes(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, first = await at.running(), at.new(key="k")
        async with rival(home) as faster:
            await faster.enqueue(at.chance.uuid4(), [first])
            calls = [asyncio.ensure_future(at.send(at.new(key="k"))) for _ in range(3 * CONNECTIONS)]
            assert await waits(home, asyncio.gather(*calls))
            settling = asyncio.ensure_future(at.settle(done(active)))
            await asyncio.wait({settling}, timeout=STALL)
            assert settling.done()
            assert not any(call.done() for call in calls)
        holders = {one.job for call in await asyncio.gather(*calls) for one in call.duplicates.values()}
        assert (await settling, holders) == ((Answer.APPLIED,), {first.id})

    play(Stage(home), act)

"""What becomes of an enqueue when another transaction, which it cannot see yet, is in its way."""

import asyncio

from holdfast._core.job import State
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._ports.store import Duplicate, EnqueueAnswer
from holdfast.testing.contracts.scene import Scene, done, play
from tests.stores.postgres_homes import Home
from tests.stores.postgres_rivals import Stage, rival, waits


def test_s10_a_plain_call_that_is_forgotten_while_it_comes_again_is_a_new_one(home: Home) -> None:
    async def act(at: Scene) -> None:
        hold, call, jobs = await at.running(), at.chance.uuid4(), [at.new(), at.new()]
        await at.settle(done(hold))
        assert (await at.store.enqueue(call, jobs, under=(hold.job, hold.token))).is_lost
        at.advance(RETENTION_FLOOR)
        async with rival(home) as tidier:
            assert (await tidier.prune(10)).receipts > 0
            copy = asyncio.ensure_future(at.another().enqueue(call, jobs))  # by who does not know that these ids may exist
            assert await waits(home, copy)
        assert await copy == EnqueueAnswer()
        assert [await at.state(job.id) for job in jobs] == [State.AVAILABLE] * 2

    play(Stage(home), act)


def test_l4_a_copy_of_a_call_waits_for_nobody_who_forgets_it(home: Home) -> None:
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


def test_s11_another_payload_under_a_key_that_is_just_being_taken_refuses_the_whole_call(home: Home) -> None:
    """In a caller's transaction too, which goes on."""

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


def test_s11_who_loses_one_key_to_another_payload_keeps_none_that_was_won_before(home: Home) -> None:
    async def act(at: Scene) -> None:
        first, other = at.new(key="b", payload=b"1"), at.new(key="b", payload=b"2")
        async with rival(home) as faster:
            assert await faster.enqueue(at.chance.uuid4(), [first]) == EnqueueAnswer()
            second = asyncio.ensure_future(at.send(at.new(key="a"), other))
            assert await waits(home, second)
        assert await second == EnqueueAnswer({other.id: Duplicate(first.id, is_same=False)})
        await at.enqueue(at.new(key="a"))

    play(Stage(home), act)

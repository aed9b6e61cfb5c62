"""A handler that is frozen in its own transaction does not hold up the rescue of its job, or the next attempt."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest
from pymongo.errors import PyMongoError

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._ports.store import Store
from holdfast.errors import JobLost
from holdfast.stores.mongo import transactions
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Part, Scene, done, play, rescued
from holdfast.testing.servers import MongoSet
from tests.stores.mongo_homes import MongoHome

CRASH = LeaseEnd(RescueReason.CRASHED)
IDLE = 30.0
ROW = {"_id": "row"}
RESCUE = 3.0
"""The most seconds until the job is free and its documents are not locked."""


class AtHome(Part):
    """A set of one whose clock follows the test's."""

    def __init__(self, home: MongoHome) -> None:
        self.home = home

    def make_store(self, clock: FakeClock) -> Store:
        return self.home.store(clock)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.home.run(story)


async def write(store: MongoStore, active: ActiveJob, text: str, freeze: Callable[[], Awaitable[object]] | None = None) -> None:
    """Write a document in the transaction of a job."""
    async with store.transaction(active.id, active.token, idle=IDLE) as session:
        rows = session.client[store.database.location.database]["rows"]
        await rows.update_one(ROW, {"$set": {"by": text}}, upsert=True, session=session)
        if freeze is not None:
            await freeze()


@pytest.mark.parametrize("place", ["in the handler", "before the commit"])
def test_l1_a_frozen_transaction_is_ended_by_the_rescue_of_its_job(
    mongo_home: MongoHome, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen, thaw = asyncio.Event(), asyncio.Event()

    async def freeze() -> None:
        frozen.set()
        await thaw.wait()

    commit = transactions._commit

    async def commit_later(*arguments: Any) -> None:
        await freeze()
        await commit(*arguments)

    async def act(at: Scene) -> None:
        store, other = cast(MongoStore, at.store), cast(MongoStore, at.another())
        await store.database.write({"insert": "rows", "documents": [ROW]})
        active = await at.running()
        if place == "before the commit":
            monkeypatch.setattr(transactions, "_commit", commit_later)
        handler = asyncio.ensure_future(write(store, active, "frozen", freeze if place == "in the handler" else None))
        await frozen.wait()
        monkeypatch.setattr(transactions, "_commit", commit)
        async with asyncio.timeout(RESCUE):
            await other.end_lease(active.lease, CRASH)
            assert (await other.exchange([rescued(active, CRASH)])).answers == (Answer.APPLIED,)
            (claim,) = await at.claim(await at.lease())
            await write(other, claim.job, "second")
        thaw.set()
        with pytest.raises((JobLost, PyMongoError)):
            await handler
        assert await store.database.find("rows", ROW) == [{**ROW, "by": "second"}]
        assert await at.settle(done(claim.job)) == (Answer.APPLIED,)

    play(AtHome(mongo_home), act)


@pytest.mark.parametrize("is_ended", [False, True], ids=["alive", "settled"])
def test_the_transaction_of_an_owner_that_is_alive_is_not_ended(mongo_home: MongoHome, *, is_ended: bool) -> None:
    async def act(at: Scene) -> None:
        store = cast(MongoStore, at.store)
        active, other = await at.running(), await at.running()

        async def rescue() -> None:
            assert (await store.exchange([rescued(active, CRASH)])).answers == (Answer.LOST,)

        await store.database.write({"insert": "rows", "documents": [ROW]})
        if is_ended:
            await write(store, other, "first")
            await store.end_lease(other.lease, CRASH)
            assert await at.settle(rescued(other, CRASH)) == (Answer.APPLIED,)
        await write(store, active, "alive", rescue)
        assert await store.database.find("rows", ROW) == [{**ROW, "by": "alive"}]

    play(AtHome(mongo_home), act)


def test_an_election_within_a_transaction_is_an_error_and_no_loss(mongo_home: MongoHome, mongo_set: MongoSet) -> None:
    """The job is still the handler's: it may do its work again."""

    async def act(at: Scene) -> None:
        store = cast(MongoStore, at.store)
        await store.database.write({"insert": "rows", "documents": [ROW]})
        active = await at.running()

        async def step_down() -> None:
            await asyncio.to_thread(mongo_set.step_down)

        with pytest.raises(PyMongoError):
            await write(store, active, "first", step_down)
        await write(store, active, "second")
        assert await store.database.find("rows", ROW) == [{**ROW, "by": "second"}]
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(AtHome(mongo_home), act)

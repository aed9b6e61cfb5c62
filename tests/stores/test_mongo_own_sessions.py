"""A handler's documents in its own session of pymongo land if and only if its worker still owns the job."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from pymongo import AsyncMongoClient, MongoClient

from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._engine import store_defaults
from holdfast.errors import HoldfastError, JobLost, Unsupported
from holdfast.testing.contracts.scene import Scene, done, play, rescued, stale
from tests.stores.mongo_homes import MongoHome
from tests.stores.test_mongo_frozen import AtHome

CRASH = LeaseEnd(RescueReason.CRASHED)
NAME = "rows"

Act = Callable[[], Any]


async def lose(at: Scene, active: ActiveJob) -> None:
    """Have another worker take the job."""
    await at.store.end_lease(active.lease, CRASH)
    await at.settle(rescued(active, CRASH))


async def nothing() -> None:
    """Do nothing inside the block."""


async def awaiting(at: Scene, url: str, active: ActiveJob, inside: Act, *, is_ending: bool = False) -> None:
    """Write in an asynchronous session."""
    async with AsyncMongoClient[Any](url) as client, client.start_session() as session:
        async with store_defaults.transaction(at.store, active.id, active.token, idle=30.0, within=session) as given:
            assert given is session
            await client.get_default_database()[NAME].insert_one({}, session=session)
            await inside()
            if is_ending:
                await session.commit_transaction()
        assert not session.in_transaction


async def blocking(at: Scene, url: str, active: ActiveJob, inside: Act, *, is_ending: bool = False) -> None:
    """Write in a session that blocks its thread."""
    loop = asyncio.get_running_loop()

    def run() -> None:
        with MongoClient[Any](url) as client, client.start_session() as session:
            with store_defaults.blocking_transaction(at.store, active.id, active.token, idle=30.0, within=session) as given:
                assert given is session
                client.get_default_database()[NAME].insert_one({}, session=session)
                asyncio.run_coroutine_threadsafe(inside(), loop).result()
                if is_ending:
                    session.commit_transaction()
            assert not session.in_transaction

    await asyncio.to_thread(run)


both = pytest.mark.parametrize("transact", [awaiting, blocking])


@both
def test_s3_documents_land_under_the_token_that_owns_the_job_and_under_no_other(mongo_home: MongoHome, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        await transact(at, mongo_home.url, active, nothing)
        assert mongo_home._database[NAME].count_documents({}) == 1
        with pytest.raises(JobLost):
            await transact(at, mongo_home.url, structs.replace(active, token=stale(active.token)), nothing)
        assert await at.settle(done(active))
        with pytest.raises(JobLost):
            await transact(at, mongo_home.url, active, nothing)
        assert mongo_home._database[NAME].count_documents({}) == 1

    play(AtHome(mongo_home), act)


@both
def test_s3_a_rescue_inside_the_block_keeps_the_documents_out(mongo_home: MongoHome, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        with pytest.raises(JobLost):
            await transact(at, mongo_home.url, active, lambda: lose(at, active))
        assert mongo_home._database[NAME].count_documents({}) == 0
        assert await at.state(active.id) is State.AVAILABLE

    play(AtHome(mongo_home), act)


@both
def test_a_block_that_ends_its_transaction_itself_gets_an_error(mongo_home: MongoHome, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        with pytest.raises(HoldfastError, match="leave out commit_transaction"):
            await transact(at, mongo_home.url, active, nothing, is_ending=True)

    play(AtHome(mongo_home), act)


def test_a_session_with_an_open_transaction_is_refused(mongo_home: MongoHome) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        with (
            MongoClient[Any](mongo_home.url) as client,
            client.start_session() as session,
            session.start_transaction(),
            pytest.raises(Unsupported, match="has an open transaction"),
        ):
            at.store.transaction_within(session, active.id, active.token, idle=30.0)  # type: ignore[attr-defined]

    play(AtHome(mongo_home), act)

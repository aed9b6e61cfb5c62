"""What a program does first may be to enqueue in its own transaction, or to open a job's: the server and the schema are tested then too."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pymongo import AsyncMongoClient, MongoClient

from holdfast._core.job import NewJob, Token
from holdfast._core.policy import Policy
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import SchemaMissing, Unsupported
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers import MongoSet
from tests.servers.lookalike import Lookalike
from tests.stores.test_mongo_probe import no_unique_index

CHANCE = SystemRandomness()
TOKEN = Token(CHANCE.uuid4(), 1)


class FirstUse:
    """A store that no caller has used, and what its first caller does. Each raises what the store answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = MongoStore(url, clock=SystemClock(), chance=CHANCE, process=PROCESS)

    def enqueue_blocking(self) -> None:
        """Enqueue in a session that blocks."""
        with MongoClient[Any](self.url) as client, client.start_session() as session, session.start_transaction():
            self.store.enqueue_within(session, CHANCE.uuid4(), [self._job()])

    def enqueue_awaited(self) -> None:
        """Enqueue in a session that is awaited."""

        async def act() -> None:
            try:
                async with AsyncMongoClient[Any](self.url) as client, client.start_session() as session:
                    await session.start_transaction()
                    await cast(Any, self.store.enqueue_within(session, CHANCE.uuid4(), [self._job()]))
            finally:
                await self.store.close()

        asyncio.run(act())

    def open_blocking(self) -> None:
        """Open the transaction of a job in a thread."""
        with self.store.blocking_transaction(CHANCE.uuid4(), TOKEN, idle=5.0):
            pass

    def open_awaited(self) -> None:
        """Open the transaction of a job in an event loop."""

        async def act() -> None:
            try:
                async with self.store.transaction(CHANCE.uuid4(), TOKEN, idle=5.0):
                    pass
            finally:
                await self.store.close()

        asyncio.run(act())

    def _job(self) -> NewJob:
        return NewJob(id=CHANCE.uuid4(), task="count", queue="default", payload=b"{}", policy=Policy())


FIRST = [FirstUse.enqueue_blocking, FirstUse.enqueue_awaited, FirstUse.open_blocking, FirstUse.open_awaited]


@pytest.fixture
def database(mongo_set: MongoSet) -> Iterator[str]:
    url = mongo_set.create_database()
    yield url
    with MongoClient[Any](url) as client:
        client.drop_database(client.get_default_database().name)


def _first(url: str, use: Any) -> None:
    at = FirstUse(url)
    try:
        use(at)
    finally:
        asyncio.run(at.store.close())


@pytest.mark.parametrize("use", FIRST)
def test_the_first_use_names_a_schema_that_is_missing(database: str, use: Any) -> None:
    with pytest.raises(SchemaMissing, match="holdfast migrate"):
        _first(database, use)


@pytest.mark.parametrize("use", FIRST)
def test_the_first_use_names_an_index_that_is_missing(database: str, use: Any) -> None:
    _migrate(database)
    with MongoClient[Any](database) as client:
        client.get_default_database()["holdfast.jobs"].drop_index("lock")
    with pytest.raises(SchemaMissing, match="lock"):
        _first(database, use)


@pytest.mark.parametrize("use", FIRST)
def test_the_first_use_refuses_a_server_without_a_guarantee(mongo_set: MongoSet, use: Any) -> None:
    with Lookalike(mongo_set.members[0], no_unique_index) as lookalike, pytest.raises(Unsupported, match="unique partial index"):
        _first(lookalike.url("first_use"), use)


def _migrate(url: str) -> None:
    async def act() -> None:
        store = MongoStore(url, clock=SystemClock(), chance=CHANCE, process=PROCESS)
        await store.migrate()
        await store.close()

    asyncio.run(act())

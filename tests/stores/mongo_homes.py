"""MongoDB databases for stores under test: migrated once per test process, emptied for each test, with a clock that tests can move."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from pymongo import MongoClient

from holdfast._ports.store import Store
from holdfast.databases.mongo.database import MongoDatabase
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers.mongo_set import MongoSet

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SetClock:
    """The time of a replica set as a store sees it. It stands still and follows a FakeClock, but not steps of its wall clock."""

    def __init__(self) -> None:
        self._start = self._passed = 0.0
        self._leader: FakeClock | None = None

    def follow(self, clock: FakeClock) -> None:
        """Take over the time of this clock, and move with it."""
        self._start, self._passed = clock.wall(), 0.0
        if clock is not self._leader:
            self._leader = clock
            clock.lead(self.advance)

    def advance(self, seconds: float) -> None:
        """Let time pass for the set only; a negative number moves it back."""
        self._passed += seconds

    @property
    def now(self) -> datetime:
        """The time, as the server's clock counts it: in whole milliseconds."""
        return _EPOCH + timedelta(milliseconds=int((self._start + self._passed) * 1000 + 1e-3))


class Owner(MongoStore):
    """A store that knows the time of its home."""

    clock: SetClock

    @property
    def now(self) -> Any:  # type: ignore[override]
        return {"$literal": self.clock.now}


class Tenant(Owner):
    """A store that uses the connections of earlier stores in the event loop of its home."""

    async def close(self) -> None:
        """Close what threads have opened; all else belongs to the home."""
        of_threads, self.database._of_threads = self.database._of_threads, None
        if of_threads is not None:
            of_threads.close()


class MongoHome:
    """A database with all collections of a store, an event loop, and a clock."""

    def __init__(self, url: str) -> None:
        self.url, self.clock = url, SetClock()
        self._loop = asyncio.new_event_loop()
        self._client: MongoClient[dict[str, Any]] = MongoClient(url)
        self._clients = MongoDatabase(url, clock=FakeClock(), chance=FakeChance(), process=PROCESS)._clients
        self.run(self._store(FakeClock()).migrate())
        self._kept = {name: [*self._database[name].find()] for name in ("holdfast.state",)}

    def empty(self) -> Self:
        """Delete everything but the schema."""
        for name in self._database.list_collection_names():
            if not name.startswith("system."):
                self._database[name].delete_many({})
        for name, documents in self._kept.items():
            self._database[name].insert_many(documents)
        return self

    def follow(self, clock: FakeClock) -> None:
        """Let the set's time be that of this clock."""
        self.clock.follow(clock)

    def store(self, clock: FakeClock) -> Store:
        """Make a store that reads this clock."""
        self.follow(clock)
        return self._store(clock)

    def own_store(self, clock: FakeClock) -> Store:
        """Make a store whose connections are its own."""
        return self._lead(Owner(self.url, clock=clock, chance=FakeChance(), process=PROCESS))

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the event loop of the home."""
        return self._loop.run_until_complete(story)

    def close(self) -> None:
        """Close the connections of the event loop, and the loop."""
        for clients in self._clients.values():
            self.run(clients.ending.aclose())
        self.run(self._loop.shutdown_asyncgens())
        self._loop.close()
        self._client.close()

    @property
    def _database(self) -> Any:
        return self._client.get_default_database()

    def _store(self, clock: FakeClock) -> MongoStore:
        store = Tenant(self.url, clock=clock, chance=FakeChance(), process=PROCESS)
        store.database._clients = self._clients
        return self._lead(store)

    def _lead(self, store: Owner) -> MongoStore:
        store.clock = self.clock
        store.primary.drift = 0.0  # both clocks are the test's
        store.primary.current = 0.0  # it stands still between two commands
        store.readiness.accept()
        return store


@pytest.fixture(scope="session")
def mongo_homes(mongo_set: MongoSet) -> Iterator[MongoHome]:
    """Return the home of this test process."""
    with closing(MongoHome(mongo_set.create_database())) as home:
        yield home


@pytest.fixture
def mongo_home(mongo_homes: MongoHome) -> MongoHome:
    """Return an empty database with all collections of a store."""
    return mongo_homes.empty()

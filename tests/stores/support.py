"""What the tests of the SQLite store share."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._ports.clock import Randomness
from holdfast._ports.store import Store
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part

Answer = TypeVar("Answer")


class OnFile(Part):
    """Scenes on one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make_store(self, clock: FakeClock) -> Store:
        return store_on(self.path, clock)


def store_on(
    path: Path,
    clock: FakeClock | None = None,
    *,
    process: ProcessIdentity = PROCESS,
    chance: Randomness | None = None,
    busy_limit: float = 5.0,
) -> SqliteStore:
    """Return a new store on that file."""
    return SqliteStore(path, clock=clock or FakeClock(), chance=chance or FakeChance(), process=process, busy_limit=busy_limit)


def using(store: SqliteStore, act: Callable[[SqliteStore], Coroutine[Any, Any, Answer]]) -> Answer:
    """Return the result of a coroutine on a store, and close the store."""

    async def run() -> Answer:
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def inside(store: Store, action: Callable[[StoreDatabase], Answer]) -> Answer:
    """Run an action in the thread of the store."""
    assert isinstance(store, SqliteStore)
    return await store._thread.run(action)


def sql(path: Path, statement: str, *values: object) -> list[Any]:
    """Execute a statement on a separate connection, and return its rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


def new_job(chance: Randomness) -> NewJob:
    """Return a job that is not enqueued yet."""
    return NewJob(id=chance.uuid7(), task="task", payload=b"{}", policy=Policy())

"""What tests of the SQLite room share."""

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
    """A store object of its own."""
    return SqliteStore(path, clock=clock or FakeClock(), chance=chance or FakeChance(), process=process, busy_limit=busy_limit)


def using(store: SqliteStore, act: Callable[[SqliteStore], Coroutine[Any, Any, Answer]]) -> Answer:
    """What a coroutine says of a store, which is closed then."""

    async def run() -> Answer:
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def inside(store: Store, action: Callable[[StoreDatabase], Answer]) -> Answer:
    """Something done in the store's own thread."""
    assert isinstance(store, SqliteStore)
    return await store._thread.run(action)


def sql(path: Path, statement: str, *values: object) -> list[Any]:
    """A statement by somebody else."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


def new_job(chance: Randomness) -> NewJob:
    """A job to be."""
    return NewJob(id=chance.uuid7(), task="task", payload=b"{}", policy=Policy())

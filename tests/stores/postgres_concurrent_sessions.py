"""Another session in the same database, in the middle of a transaction, while a store executes a verb."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg

from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part
from tests.e2e.waiting import PAUSE, STALL
from tests.stores.postgres_databases import Home


class Stage(Part):
    """Scenes in a home; a test plays them as ``play(Stage(home), act)``."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def make_store(self, clock: FakeClock) -> PostgresStore:
        return self.home.store(clock)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        self.home.clock.advance(seconds)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.home.run(story)


@contextmanager
def locked(home: Home, table: str, where: str = "true", lock: str = "UPDATE") -> Iterator[None]:
    """Lock these rows in another session inside the block."""
    with psycopg.connect(home.dsn) as rival:
        assert rival.execute(f"SELECT FROM holdfast.{table} WHERE {where} FOR {lock}").rowcount > 0  # type: ignore[arg-type]
        yield
        rival.rollback()


@contextmanager
def paused(home: Home, store: Any, name: str) -> Iterator[None]:
    """Stop this statement of the store where it reads the clock: it has its snapshot, and no lock."""
    text, reads = store._sql(name), "FROM clock_timestamp() AS now"
    assert text.count(reads) == 1
    store._texts[name] = text.replace(reads, "FROM (SELECT clock_timestamp() AS now FROM pg_advisory_xact_lock(15)) AS paused")
    with psycopg.connect(home.dsn) as rival:
        rival.execute("SELECT pg_advisory_xact_lock(15)")
        yield
        rival.rollback()
    store._texts[name] = text


class Open(PostgresStore):
    """A store whose verbs are parts of one transaction; the test ends the transaction."""

    link: Any

    async def _run(self, pool: Any, sql: str, arguments: tuple[Any, ...], limit: float) -> list[Any]:
        return await self.link.fetch(sql, *arguments)  # type: ignore[no-any-return]

    @asynccontextmanager
    async def _in_transaction(self, pool: Any, limit: float, settings: str = "") -> AsyncIterator[Any]:
        yield self.link


@asynccontextmanager
async def rival(home: Home) -> AsyncIterator[Open]:
    """Open another store whose verbs are one transaction: they become visible, and its locks free, when the block ends."""
    store = Open(home.dsn, clock=FakeClock(), chance=FakeChance(), process=PROCESS)
    store.link = await asyncpg.connect(home.dsn)
    try:
        async with store.link.transaction():
            yield store
    finally:
        await store.link.close()


async def waits(home: Home, task: "asyncio.Future[Any]") -> bool:
    """Return whether the task waits for a lock of another session; False means that the task has ended."""
    async with asyncio.timeout(STALL):
        while not task.done() and not home.sql("SELECT 1 FROM pg_locks WHERE NOT granted"):
            await asyncio.wait({task}, timeout=PAUSE)
    return not task.done()

"""Databases for stores that meet real faults: with real time, each of them new, some on a server that tests may break."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import StoreUnavailable
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part
from holdfast.testing.servers import PgBouncer, PostgresServer
from holdfast.testing.servers.pgbouncer import has_pgbouncer
from tests.e2e.waiting import PAUSE, STALL
from tests.servers.proxy import TcpProxy

Answer = TypeVar("Answer")


class Site(Part):
    """Scenes on a database; ``options`` are those of its stores."""

    def __init__(self, dsn: str, **options: Any) -> None:
        self.dsn, self.options = dsn, options

    def make_store(self, clock: FakeClock) -> Store:
        return store_at(self.dsn, **self.options)


def store_at(dsn: str, **options: Any) -> PostgresStore:
    """Return a new store on the system's clock."""
    return PostgresStore(dsn, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS, **options)


def migrate(dsn: str) -> None:
    """Create the tables of a store in that database."""

    async def act() -> None:
        store = store_at(dsn)
        await store.migrate()
        await store.close()

    asyncio.run(act())


async def in_the_end(act: Callable[[], Awaitable[Answer]], *, within: float = 4 * STALL) -> Answer:
    """Return what a call answers once the store is available again."""
    async with asyncio.timeout(within):
        while True:
            try:
                return await act()
            except StoreUnavailable:
                await SystemClock().sleep(PAUSE)


class Ground:
    """A server, and databases on it that have the tables of a store."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        template = server.create_database()
        migrate(template)
        self._template = urlsplit(template).path[1:]

    def database(self) -> str:
        """Create a database from the template, and return its address."""
        return self.server.create_database(template=self._template)

    def repair(self) -> None:
        """Start the server again if a test has ended it, and reset its settings."""
        if not self.server.is_running:
            self.server.kill()
            self.server.start()
        self.server.sql("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def _solid(postgres_server: PostgresServer) -> Ground:
    return Ground(postgres_server)


@pytest.fixture(scope="session")
def _fragile() -> Iterator[Ground]:
    with PostgresServer() as server:
        yield Ground(server)


@pytest.fixture
def breakable(_fragile: Ground) -> Iterator[Ground]:
    """Return a server that tests may restart, kill and configure."""
    yield _fragile
    _fragile.repair()


@pytest.fixture
def database(_solid: Ground) -> Iterator[str]:
    """Return the address of a new database with all tables of a store."""
    dsn = _solid.database()
    yield dsn
    _solid.server.drop_database(dsn)


@pytest.fixture(scope="session")
def _pooler(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(postgres_server) as pooler:
        yield pooler


@pytest.fixture(params=["direct", *[pytest.param("pooled", marks=pytest.mark.prove)] * has_pgbouncer()])
def far(request: pytest.FixtureRequest, database: str) -> Iterator[tuple[Site, TcpProxy]]:
    """Return that database behind a proxy that can break connections, directly and with PgBouncer."""
    is_pooled = request.param == "pooled"
    gate = request.getfixturevalue("_pooler" if is_pooled else "postgres_server")
    dsn = gate.through(database) if is_pooled else database
    with TcpProxy(gate.port) as between:
        yield Site(between.through(dsn), pooler="transaction" if is_pooled else None), between

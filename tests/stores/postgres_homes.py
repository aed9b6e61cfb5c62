"""Databases for stores under test: migrated once for a test session, emptied for each test, each with a clock that can be moved."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, TypeVar

import psycopg
import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers import PgBouncer, PostgresServer
from holdfast.testing.servers.pgbouncer import has_pgbouncer
from holdfast.testing.servers.postgres import find_postgres, postgres_versions
from tests.stores.server_clock import ServerClock

Answer = TypeVar("Answer")

KINDS = {
    "18": True,
    "15": "15" in postgres_versions(),
    "pooled": has_pgbouncer(),
    "serializable": True,
}
"""Of homes: PostgreSQL 18, Debian's 15 with another collation, behind PgBouncer, and of users who want SERIALIZABLE."""

_EMPTY = """
SELECT string_agg(format('DELETE FROM holdfast.%I', relname), ';') FROM pg_class
WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
AND relname NOT IN ('versions', 'days')
"""
_DAYS = "SELECT d::text FROM holdfast.days d UNION ALL SELECT relname FROM pg_class WHERE relispartition ORDER BY 1"


class Home:
    """A database, and how a store gets to it."""

    def __init__(self, dsn: str, *, through: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.dsn, self._through = dsn, through
        self.clock = ServerClock(dsn).install()
        self._followed: FakeClock | None = None
        self._owner = psycopg.connect(dsn, autocommit=True)
        for name, value in (settings or {}).items():
            self._owner.execute(f"ALTER DATABASE {self._owner.info.dbname} SET {name} = {value}")
        self._migrate()

    def store(
        self,
        clock: FakeClock,
        *,
        process: ProcessIdentity = PROCESS,
        chance: FakeChance | None = None,
        through: str | None = None,
        **options: Any,
    ) -> PostgresStore:
        """A store object of its own; the server's clock follows the one that it was given last."""
        self.follow(clock)
        if self._through:
            options["pooler"] = "transaction"
        url = through or self._through or self.dsn
        return PostgresStore(url, clock=clock, chance=chance or FakeChance(), process=process, **options)

    def follow(self, clock: FakeClock) -> None:
        """From now on it is the server's clock that passes as this one does."""
        if self._followed is not clock:
            self.clock.follow(clock)
            self._followed = clock

    def empty(self) -> "Home":
        """Nothing has ever happened here."""
        if self.sql(_DAYS) != self._days:
            self.sql("DROP SCHEMA holdfast CASCADE")
            self._migrate()
        self.sql(f"{self._empty}; ALTER SEQUENCE holdfast.claim_numbers RESTART")
        return self

    def sql(self, statement: str, *values: object) -> list[Any]:
        """A statement by somebody else."""
        cursor = self._owner.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Let go of the database."""
        self._owner.close()
        self.clock.close()

    def _migrate(self) -> None:
        using(self.store(FakeClock()), PostgresStore.migrate)
        self._days = self.sql(_DAYS)
        ((self._empty,),) = self.sql(_EMPTY)


class Homes:
    """Of one test process, each made when it is first asked for."""

    def __init__(self, server: PostgresServer, closing: ExitStack) -> None:
        self._server, self._closing = server, closing
        self._made: dict[str, Home] = {}

    def empty(self, kind: str = "18") -> Home:
        """One of ``KINDS``, as new."""
        if kind not in self._made:
            self._made[kind] = self._closing.enter_context(closing(self._make(kind)))
        return self._made[kind].empty()

    def _make(self, kind: str) -> Home:
        match kind:
            case "15":
                # Its order of texts is not that of their bytes.
                words = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
                server = self._closing.enter_context(PostgresServer(find_postgres("15"), initdb=words))
                return Home(server.create_database())
            case "pooled":
                pooler = self._closing.enter_context(PgBouncer(self._server))
                dsn = self._server.create_database()
                return Home(dsn, through=pooler.through(dsn))
            case "serializable":
                return Home(self._server.create_database(), settings={"default_transaction_isolation": "serializable"})
            case _:
                return Home(self._server.create_database())


@pytest.fixture(scope="session")
def homes(postgres_server: PostgresServer) -> Iterator[Homes]:
    """Where stores under test live."""
    with ExitStack() as stack:
        yield Homes(postgres_server, stack)


@pytest.fixture
def home(homes: Homes) -> Home:
    """An empty database of PostgreSQL 18 with all tables of a store."""
    return homes.empty()


def using(store: PostgresStore, act: Callable[[PostgresStore], Coroutine[Any, Any, Answer]]) -> Answer:
    """What a coroutine says of a store, which is closed then."""

    async def run() -> Answer:
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())

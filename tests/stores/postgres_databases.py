"""Databases for stores under test: migrated once per test session, emptied for each test, each with a clock that tests can move."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.flow_changes import FlowChange
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, Token
from holdfast._ports.store import Store
from holdfast.databases.postgres.database import Pools
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
    "roles": True,
}
"""Kinds of homes: PostgreSQL 18, Debian's 15 with another collation, behind PgBouncer, with SERIALIZABLE as default, with four roles."""

_EMPTY = """
SELECT string_agg(format('DELETE FROM holdfast.%I', relname), ';') FROM pg_class
WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
AND relname NOT IN ('versions', 'partition_days')
"""
_DAYS = "SELECT d::text FROM holdfast.partition_days d UNION ALL SELECT relname FROM pg_class WHERE relispartition ORDER BY 1"


class Tenant(PostgresStore):
    """A store that uses the connections of earlier stores in the event loop of its home, and leaves them open."""

    furniture: dict[str, Pools]
    loop: asyncio.AbstractEventLoop

    def _placed(self, text: str) -> str:
        # SECURITY DEFINER functions read the server's clock under any search path of their caller.
        return super()._placed(text).replace("SET search_path = pg_catalog", "SET search_path = fake, pg_catalog")

    def _here(self) -> Pools:
        if asyncio.get_running_loop() is not self.loop:
            return super()._here()
        url = self._location.url
        if url not in self.furniture:
            self.furniture[url] = Pools(self._connect, self._connections)
        return self.furniture[url]


class Home:
    """A database, and the way a store connects to it."""

    def __init__(self, dsn: str, *, through: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.dsn, self.through = dsn, through
        self.clock = ServerClock(dsn).install()
        self._followed: FakeClock | None = None
        self._furniture: dict[str, Pools] = {}
        self._runner = asyncio.Runner()
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
        """Return a new store; the server's clock follows the clock that was passed last."""
        self.follow(clock)
        if self.through:
            options["pooler"] = "transaction"
        url = through or self.through or self.dsn
        store = Tenant(url, clock=clock, chance=chance or FakeChance(), process=process, **options)
        store.furniture, store.loop = self._furniture, self._runner.get_loop()
        return store

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the event loop whose connections stay open; after an error, close them and replace the loop."""
        try:
            self._runner.run(story)
        except BaseException:
            self.leave()
            raise

    def follow(self, clock: FakeClock) -> None:
        """Let the server's clock follow this clock from now on."""
        if self._followed is not clock:
            self.clock.follow(clock)
            self._followed = clock

    def empty(self) -> "Home":
        """Return this home with all tables as after the migration."""
        if self.sql(_DAYS) != self._days:
            self.sql("DROP SCHEMA holdfast CASCADE")
            self._migrate()
        self.sql(f"{self._empty}; ALTER SEQUENCE holdfast.claim_numbers RESTART")
        return self

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Execute a statement in another session, and return its rows."""
        cursor = self._owner.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Close all connections to the database."""
        self.leave()
        self._runner.close()
        self._owner.close()
        self.clock.close()

    def leave(self) -> None:
        """Close all connections, and replace the event loop: later connections are set up again."""

        async def clear() -> None:
            for pools in self._furniture.values():
                await pools.shared.close()
                await pools.beats.close()

        self._runner.run(clear())
        self._runner.close()
        self._runner = asyncio.Runner()
        self._furniture = {}

    def _migrate(self) -> None:
        using(self.store(FakeClock()), PostgresStore.migrate)
        self._look()

    def _look(self) -> None:
        self._days = self.sql(_DAYS)
        ((self._empty,),) = self.sql(_EMPTY)


class Divided(Home):
    """A home whose store executes each verb as a user of the role that is meant for it."""

    ROLES = ("enqueue", "work", "read", "own")

    def store(self, clock: FakeClock, **options: Any) -> Store:  # type: ignore[override]
        """Return one store made of four, one for each role."""
        at = super().store
        return ByRole(*(at(clock, through=self._as(role), **options) for role in self.ROLES))  # type: ignore[return-value]

    def _as(self, role: str) -> str:
        return self.dsn.replace("//postgres@", f"//a_{role}@")

    def _migrate(self) -> None:
        using(super().store(FakeClock()), PostgresStore.migrate)
        using(super().store(FakeClock()), PostgresStore.create_roles)
        for role in self.ROLES:
            if not self.sql("SELECT 1 FROM pg_roles WHERE rolname = %s", f"a_{role}"):
                self.sql(f"CREATE ROLE a_{role} LOGIN IN ROLE holdfast_{role}")
        self._look()


class ByRole:
    """A store that passes each verb to one of four stores, by the role it needs."""

    READING = frozenset({"get", "list", "counts", "workers", "next_due", "due", "queues", "waiting_tasks"})

    def __init__(self, enqueuer: PostgresStore, worker: PostgresStore, reader: PostgresStore, owner: PostgresStore) -> None:
        self._enqueuer, self._worker, self._reader, self._owner = enqueuer, worker, reader, owner

    def __getattr__(self, name: str) -> Any:
        if name in self.READING:
            return getattr(self._reader, name)
        return getattr(self._owner if name in ("migrate", "check") else self._worker, name)

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        return await (self._worker if under else self._enqueuer).enqueue(call, jobs, under=under)

    def enqueue_within(self, *arguments: Any) -> Any:
        return self._enqueuer.enqueue_within(*arguments)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return (*self._enqueuer.take_flow_changes(), *self._worker.take_flow_changes())

    async def close(self) -> None:
        for store in (self._enqueuer, self._worker, self._reader, self._owner):
            await store.close()


class Homes:
    """The homes of one test process, each made when a test first asks for it."""

    def __init__(self, server: PostgresServer, closing: ExitStack) -> None:
        self._server, self._closing = server, closing
        self._made: dict[str, Home] = {}

    def empty(self, kind: str = "18") -> Home:
        """Return the home of one of ``KINDS``, emptied."""
        if kind not in self._made:
            self._made[kind] = self._closing.enter_context(closing(self._make(kind)))
        return self._made[kind].empty()

    def _make(self, kind: str) -> Home:
        match kind:
            case "15":
                # This server does not sort strings by their bytes.
                words = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
                server = self._closing.enter_context(PostgresServer(find_postgres("15"), initdb=words))
                return Home(server.create_database())
            case "pooled":
                pooler = self._closing.enter_context(PgBouncer(self._server))
                dsn = self._server.create_database()
                return Home(dsn, through=pooler.through(dsn))
            case "serializable":
                return Home(self._server.create_database(), settings={"default_transaction_isolation": "serializable"})
            case "roles":
                return Divided(self._server.create_database())
            case _:
                return Home(self._server.create_database())


@pytest.fixture(scope="session")
def homes(postgres_server: PostgresServer) -> Iterator[Homes]:
    """Return the homes of this test process; they are closed at its end."""
    with ExitStack() as stack:
        yield Homes(postgres_server, stack)


@pytest.fixture
def home(homes: Homes) -> Home:
    """Return an empty database of PostgreSQL 18 with all tables of a store."""
    return homes.empty()


def using(store: PostgresStore, act: Callable[[PostgresStore], Coroutine[Any, Any, Answer]]) -> Answer:
    """Return the result of a coroutine on a store, and close the store."""

    async def run() -> Answer:
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())

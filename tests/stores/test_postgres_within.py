"""Jobs inside a caller's own transaction, by every library for PostgreSQL, tested with the real libraries."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast import App, SchemaMissing, SchemaTooNew, Unsupported
from tests.e2e.waiting import STALL, until
from tests.stores import callers
from tests.stores.callers import Caller
from tests.stores.postgres_databases import KINDS as KINDS_OF_HOMES
from tests.stores.postgres_databases import Home, Homes
from tests.stores.within_cases import ORDER, WithinStories, chained, shrink

Kind = Callable[[str], Caller]


def by(driver: str, kind: Kind) -> Kind:
    """Return that kind of SQLAlchemy connection over that driver."""
    return lambda dsn: kind(dsn.replace("postgresql://", f"postgresql+{driver}://", 1))


KINDS: dict[str, Kind] = {
    "psycopg": callers.Psycopg,
    "psycopg async": callers.AwaitedPsycopg,
    "asyncpg": callers.Asyncpg,
    "asyncpg pool": callers.AsyncpgPool,
    "SQLAlchemy Session, psycopg": by("psycopg", callers.AlchemySession),
    "SQLAlchemy scoped_session, psycopg": by("psycopg", callers.AlchemyScopedSession),
    "SQLAlchemy Connection, psycopg": by("psycopg", callers.AlchemyConnection),
    "SQLAlchemy AsyncSession, asyncpg": by("asyncpg", callers.AwaitedAlchemySession),
    "SQLAlchemy AsyncSession, psycopg": by("psycopg", callers.AwaitedAlchemySession),
    "SQLAlchemy async_scoped_session, asyncpg": by("asyncpg", callers.AwaitedAlchemyScopedSession),
    "SQLAlchemy AsyncConnection, asyncpg": by("asyncpg", callers.AwaitedAlchemyConnection),
    "Django": callers.Django,
}


CHOSEN = ["psycopg", "psycopg async", "asyncpg", "SQLAlchemy Session, psycopg", "SQLAlchemy AsyncSession, asyncpg", "Django"]
"""One of each kind of connection and block; the other kinds share their code with these."""


@pytest.fixture(params=[name if name in CHOSEN else pytest.param(name, marks=pytest.mark.prove) for name in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def database(home: Home) -> Iterator[str]:
    home.sql("CREATE TABLE fake.orders (id INTEGER)")  # first on every session's path there
    yield home.dsn
    home.sql("DROP TABLE fake.orders")


@pytest.fixture
def app(database: str) -> Iterator[App]:
    app = App(database)
    yield app
    app.close()


@pytest.fixture
def caller(kind: Kind, database: str, app: App) -> Iterator[Caller]:
    caller = kind(database)
    yield caller
    caller.close()


@pytest.fixture
def elsewhere(kind: Kind, postgres_dsn: str) -> Iterator[Caller]:
    caller = kind(postgres_dsn)
    yield caller
    caller.close()


@pytest.fixture
def orders(database: str) -> Callable[[], int]:
    """Return a function that counts the orders which other sessions see."""

    def count() -> int:
        with closing(psycopg.connect(database)) as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])  # type: ignore[index]

    return count


@pytest.fixture
def connection(database: str, app: App) -> Iterator["psycopg.Connection[Any]"]:
    with closing(psycopg.connect(database)) as connection:
        yield connection


class TestWithinOnPostgres(WithinStories):
    """Run every test on every kind of connection."""


def test_s7_a_serializable_transaction_keeps_both_or_neither(app: App, database: str, orders: Callable[[], int]) -> None:
    task = app.task(shrink)
    with closing(psycopg.connect(database)) as one, closing(psycopg.connect(database)) as two:
        for connection in (one, two):
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            connection.execute("SELECT count(*) FROM orders")
        for connection in (one, two):
            connection.execute(ORDER)
            task.options(within=connection).enqueue("a")
        one.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            two.commit()
    assert (orders(), app.jobs.counts()["available"]) == (1, 1)


def test_without_a_transaction_all_jobs_are_there_at_once(app: App, database: str) -> None:
    task = app.task(shrink)
    with closing(psycopg.connect(database, autocommit=True)) as connection:
        task.options(within=connection).enqueue_many([{"path": "a"}] * 3)
        assert app.jobs.counts()["available"] == 3
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    async def enqueue() -> None:
        connection = await asyncpg.connect(database)
        await task.options(within=connection).aenqueue("b")
        assert not connection.is_in_transaction()
        await connection.close()

    asyncio.run(enqueue())
    assert app.jobs.counts()["available"] == 4


def test_a_workflow_needs_a_transaction_and_nothing_is_written_without_one(app: App, database: str) -> None:
    release = chained(app)
    with closing(psycopg.connect(database, autocommit=True)) as connection:
        with pytest.raises(Unsupported, match="open a transaction around the call"):
            release.options(within=connection).enqueue("a")
        assert sum(app.jobs.counts().values()) == 0
        with connection.transaction():
            release.options(within=connection).enqueue("a")
        assert sum(app.jobs.counts().values()) == 4

    async def enqueue() -> None:
        connection = await asyncpg.connect(database)
        with pytest.raises(Unsupported, match="open a transaction around the call"):
            await release.options(within=connection).aenqueue("b")
        await connection.close()

    asyncio.run(enqueue())
    assert sum(app.jobs.counts().values()) == 4


@pytest.mark.parametrize("commits", [True, False])
def test_the_holder_of_a_key_that_is_not_committed_yet_is_waited_for(app: App, database: str, commits: bool) -> None:
    task = app.task(shrink)
    with closing(psycopg.connect(database)) as one, closing(psycopg.connect(database)) as two, ThreadPoolExecutor(1) as thread:
        first = task.options(unique_key="k", within=one).enqueue("a")
        second = thread.submit(task.options(unique_key="k", within=two).enqueue, "a")
        until_waiting(database, two.info.backend_pid)
        (one.commit if commits else one.rollback)()
        found = second.result()
        two.commit()
    assert (found.created, found.id == first.id) == (not commits, commits)
    assert [job.id for job in app.jobs.list()] == [found.id]


def until_waiting(database: str, process: int) -> None:
    """Wait until that process of the server waits for a lock."""
    with closing(psycopg.connect(database, autocommit=True)) as connection:
        question = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
        until(lambda: connection.execute(question, [process]).fetchone() == (True,), within=STALL)


def test_codecs_rows_and_cursors_of_the_caller_are_not_asked(app: App, database: str) -> None:
    task = app.task(shrink)

    async def enqueue() -> None:
        connection = await asyncpg.connect(database)
        for name in ("json", "jsonb", "uuid", "timestamptz", "int8"):
            await connection.set_type_codec(name, encoder=json.dumps, decoder=lambda _: 1 / 0, schema="pg_catalog")
        async with connection.transaction():
            for _ in range(2):
                await task.options(within=connection).aenqueue("a")
                await task.options(within=connection, unique_key="k").aenqueue("b")
        await connection.close()

    asyncio.run(enqueue())
    with closing(psycopg.connect(database, row_factory=dict_row, cursor_factory=psycopg.ClientCursor)) as connection:
        for _ in range(2):
            task.options(within=connection).enqueue("a")
            assert not task.options(within=connection, unique_key="k").enqueue("b").created
        with connection.pipeline():
            connection.execute(ORDER)
            task.options(within=connection).enqueue("a")
        connection.commit()
    assert app.jobs.counts()["available"] == 6


def test_rows_committed_with_a_job_are_durable(app: App, connection: "psycopg.Connection[Any]") -> None:
    def setting() -> str:
        return str(connection.execute("SHOW synchronous_commit").fetchone()[0])  # type: ignore[index]

    task = app.task(shrink)
    for given, durable in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        connection.execute(f"SET synchronous_commit = {given}")
        connection.commit()
        for key in (None, given):
            task.options(within=connection, unique_key=key).enqueue("a")
            assert setting() == durable
            connection.commit()
            assert setting() == given
            connection.commit()


def test_a_missing_or_newer_schema_is_reported_and_aborts_nothing(app: App, database: str) -> None:
    other = App(database, schema="other")
    with closing(psycopg.connect(database)) as connection:
        connection.execute(ORDER)
        with pytest.raises(SchemaMissing, match=r"has no schema 'other' .*holdfast migrate"):
            other.task(shrink).options(within=connection).enqueue("a")
        connection.execute("INSERT INTO holdfast.versions (version) SELECT max(version) + 1 FROM holdfast.versions")
        with pytest.raises(SchemaTooNew, match="upgrade holdfast"):
            app.task(shrink).options(within=connection).enqueue("a")
        connection.execute(ORDER)
        connection.rollback()
    other.close()


def test_a_value_that_is_not_a_connection_is_refused(app: App, connection: "psycopg.Connection[Any]") -> None:
    task = app.task(shrink)
    for wrong in (object(), connection.cursor(), "postgresql://", app):
        with pytest.raises(Unsupported, match=r"needs a connection of asyncpg, psycopg 3, SQLAlchemy or Django"):
            task.options(within=wrong).enqueue("a")


def test_a_connection_to_another_kind_of_database_is_refused(app: App) -> None:
    task = app.task(shrink)
    for kind in (callers.Django, lambda where: callers.AlchemySession(f"sqlite:///{where}")):
        caller = kind(":memory:")
        with pytest.raises(Unsupported, match="this is a connection to sqlite"):
            task.options(within=caller.within).enqueue("a")
        caller.rollback()
        caller.close()


def test_a_connection_is_asked_once_where_it_leads(app: App, database: str) -> None:
    asked: list[str] = []
    order = app.task(shrink)

    async def enqueue() -> None:
        async with asyncpg.create_pool(database, min_size=1, max_size=1) as pool:
            for _ in range(3):
                async with pool.acquire() as connection:
                    with connection.query_logger(lambda record: asked.append(record.query)):
                        await order.options(within=connection).aenqueue("a")

    asyncio.run(enqueue())
    assert [("current_database" in query, "versions" in query) for query in asked] == [
        (True, True),
        (False, True),
        *[(False, False)] * 3,
    ]


if KINDS_OF_HOMES["pooled"]:

    def test_within_works_behind_a_pooler(homes: Homes) -> None:
        home = homes.empty("pooled")
        app = App(f"{home.through}?pooler=transaction")
        with closing(psycopg.connect(str(home.through), prepare_threshold=None)) as connection:
            for commits in (True, False):
                app.task(shrink, name=str(commits)).options(within=connection).enqueue("a")
                (connection.commit if commits else connection.rollback)()
        assert [job.task for job in app.jobs.list()] == ["True"]
        app.close()

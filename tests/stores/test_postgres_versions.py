"""Concurrent migrations, and schemas of other releases."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from holdfast.errors import SchemaMissing, SchemaTooNew
from holdfast.stores.postgres.schema import VERSION
from holdfast.testing.contracts.scene import Scene, done, in_threads, play
from holdfast.testing.servers import PostgresServer
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_faulty_databases import Site, store_at

WORKERS = 20
WAITING = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast %' AND wait_event_type = 'Lock'"
MIGRATE = """
import sys
from tests.stores.postgres_faulty_databases import migrate
sys.stdin.readline()
migrate(sys.argv[1])
"""


@pytest.fixture
def empty(postgres_server: PostgresServer) -> Iterator[str]:
    """Return the address of a database without tables."""
    dsn = postgres_server.create_database()
    yield dsn
    postgres_server.drop_database(dsn)


def catalogue(dsn: str) -> list[tuple[str, ...]]:
    """Return every object that a migration has made."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace ORDER BY 1"
        )
        return found.fetchall()


def test_twenty_workers_that_migrate_a_fresh_database_at_once_make_it_once(empty: str) -> None:
    async def migrate() -> None:
        store = store_at(empty)
        await store.migrate()
        await store.counts()
        await store.close()

    in_threads(*[migrate] * WORKERS)
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT version FROM holdfast.versions ORDER BY 1").fetchall() == [
            (version,) for version in range(1, VERSION + 1)
        ]
    before = catalogue(empty)
    in_threads(migrate)
    assert catalogue(empty) == before


def test_processes_that_migrate_at_once_make_it_once(empty: str) -> None:
    words = [sys.executable, "-c", MIGRATE, empty]
    waiting = [subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in waiting:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in waiting] == [""] * 4
    assert {process.returncode for process in waiting} == {0}


async def test_a_migration_that_was_killed_leaves_nothing(empty: str, postgres_server: PostgresServer) -> None:
    store = store_at(empty)
    with psycopg.connect(empty, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("CREATE SCHEMA holdfast")  # no other session can, until this transaction ends
        migrating = asyncio.ensure_future(store.migrate())
        with psycopg.connect(empty, autocommit=True) as looking:
            await eventually(lambda: looking.execute(WAITING).fetchall(), within=STALL)
        migrating.cancel()
        await asyncio.wait([migrating])
        other.execute("ROLLBACK")
    await store.migrate()
    assert await store.counts() == {}
    await store.close()


def test_a_newer_schema_is_refused(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO holdfast.versions (version) VALUES (%s)", [VERSION + 1])

    async def act(at: Scene) -> None:
        with pytest.raises(SchemaTooNew, match="upgrade holdfast"):
            await at.store.counts()
        with pytest.raises(SchemaTooNew, match="upgrade holdfast"):
            await at.store.migrate()

    play(Site(database), act)


def test_a_missing_schema_is_an_error_that_names_the_remedy(empty: str) -> None:
    async def act(at: Scene) -> None:
        with pytest.raises(SchemaMissing, match="holdfast migrate"):
            await at.store.counts()
        await at.store.migrate()
        active = await at.running()
        await at.settle(done(active))

    play(Site(empty), act)

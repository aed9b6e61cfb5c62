"""Connections of the PostgreSQL store: which settings each session gets, who owns it, and who closes it."""

import asyncio
import gc
import json
import os
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest

import holdfast.stores.postgres
from holdfast._core.job import State
from holdfast.app import App
from holdfast.databases.postgres import session_settings as sessions
from holdfast.errors import ConfigurationError, HoldfastError, MissingExtra, SchemaMissing, StoreUnavailable
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import Scene, in_threads, play
from holdfast.testing.servers import PgBouncer, PostgresServer
from holdfast.testing.servers.pgbouncer import has_pgbouncer
from tests.e2e.waiting import STALL, until
from tests.stores.postgres_faulty_databases import Site, migrate, store_at

OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdfast %' AND datname = current_database()"


def using(store: PostgresStore, act: Callable[[PostgresStore], Awaitable[Any]]) -> Any:
    """Return the result of a coroutine on a store, in a separate event loop that ends without closing the store."""

    async def run() -> Any:
        return await act(store)

    return asyncio.run(run())


def settings_of(store: PostgresStore, *names: str) -> dict[str, str]:
    """Return these settings of a session of the store."""
    store._texts["settings"] = "SELECT name, current_setting(name) AS value FROM unnest($1::text[]) AS name"

    async def ask(store: PostgresStore) -> dict[str, str]:
        return dict(await store._fetch("settings", list(names)))  # type: ignore[arg-type]

    return dict(using(store, ask))


def sessions_of(dsn: str) -> int:
    """Return how many connections of Holdfast that database has."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(OURS).fetchone()
    assert found is not None
    return int(found[0])


def test_each_session_gets_the_settings_it_needs(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_isolation = serializable')
        connection.execute(f'ALTER DATABASE "{name}" SET statement_timeout = 1')
        connection.execute(f'ALTER DATABASE "{name}" SET timezone = "Europe/Berlin"')
    expected = {
        "default_transaction_isolation": "read committed",
        "jit": "off",
        "lock_timeout": "5s",
        "statement_timeout": "20s",
        "idle_in_transaction_session_timeout": "30s",
        "tcp_user_timeout": "15000",
        "TimeZone": "UTC",
        "application_name": "holdfast web-1-42",
    }
    assert settings_of(store_at(database), *expected) == expected


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_commits_are_made_durable_and_never_less_than_the_user_wants(database: str, theirs: str, ours: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = {theirs}')
    assert settings_of(store_at(database), "synchronous_commit") == {"synchronous_commit": ours}


def test_settings_of_the_url_and_of_the_caller_come_last(database: str) -> None:
    store = store_at(f"{database}?application_name=shop&work_mem=8MB", server_settings={"lock_timeout": "1s"})
    assert settings_of(store, "work_mem", "lock_timeout") == {"work_mem": "8MB", "lock_timeout": "1s"}


def test_an_event_loop_that_ends_leaves_no_connection(database: str) -> None:
    store = store_at(database)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert using(store, lambda store: store.counts()) == {}
        gc.collect()
    until(lambda: sessions_of(database) == 0, within=STALL)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio's warning about the closed loop
def test_the_next_event_loop_closes_the_connections_of_a_closed_one(database: str) -> None:
    store = store_at(database)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(store.counts())
    loop.close()
    assert sessions_of(database) == 1
    assert in_threads(store.counts) == ({},)
    until(lambda: sessions_of(database) == 0, within=STALL)
    del loop
    gc.collect()


def test_event_loops_of_many_threads_share_a_store(database: str) -> None:
    store = store_at(database)
    assert in_threads(*[store.counts] * 5) == ({},) * 5
    until(lambda: sessions_of(database) == 0, within=STALL)


def test_a_forked_child_has_its_own_connections(database: str) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        ((count, pids),) = in_child(lambda: in_threads(lambda: counted(at)))
        assert (count, set(pids) & set(backends(at))) == (1, set())
        assert await at.store.counts() == {("", State.AVAILABLE): 1}

    play(Site(database), act)


def in_child(act: Callable[[], Any]) -> Any:
    """Return what a call answers in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        answer = json.load(file)
    os.waitpid(child, 0)
    return answer


async def counted(at: Scene) -> tuple[int, list[int]]:
    found = await at.store.counts()
    return found["", State.AVAILABLE], backends(at)


def backends(at: Scene) -> list[int]:
    """Return the server processes behind the idle connections of the running event loop."""
    return [link.get_server_pid() for link in at.store._here().shared._free]  # type: ignore[attr-defined]


def test_the_sessions_of_a_process_end_with_it_even_when_its_children_live(database: str) -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.close(writing)
        store = store_at(database)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(store.counts())
        if os.fork() == 0:
            os.read(reading, 1)  # until the test is over
        os._exit(0)
    os.close(reading)
    os.waitpid(parent, 0)
    until(lambda: sessions_of(database) == 0, within=STALL)
    assert os.write(writing, b"x") == 1, "the child has ended as well"
    os.close(writing)


def test_a_store_that_was_closed_opens_again(database: str) -> None:
    async def act(at: Scene) -> None:
        for _ in range(2):
            await at.enqueue(at.new())
            await at.store.close()
            await at.store.close()
        assert await at.store.counts() == {("", State.AVAILABLE): 2}

    play(Site(database), act)


def test_closing_a_store_ends_its_running_statements(database: str) -> None:
    async def act(at: Scene) -> None:
        store = at.store
        store._texts["slow"] = "SELECT pg_sleep(60)"  # type: ignore[attr-defined]
        asking = asyncio.ensure_future(store._fetch("slow"))  # type: ignore[attr-defined]
        while not store._here().shared._lent:  # type: ignore[attr-defined]
            await asyncio.wait([asking], timeout=0.01)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await asking

    play(Site(database), act)


def test_a_connection_that_is_closed_between_two_steps_of_a_call_is_unavailable(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(at: Scene) -> None:
        await at.store.counts()
        executing = asyncpg.Connection._do_execute

        async def close_first(connection: asyncpg.Connection, query: str, executor: Any, *more: Any, **options: Any) -> Any:
            async def execute(*arguments: Any) -> Any:
                connection.terminate()
                return executor(*arguments)

            return await executing(connection, query, execute, *more, **options)

        monkeypatch.setattr(asyncpg.Connection, "_do_execute", close_first)
        with pytest.raises(StoreUnavailable, match="closed during the call"):
            await at.store.counts()
        monkeypatch.undo()
        assert await at.store.counts() == {}

    play(Site(database), act)


def test_an_error_of_a_statement_costs_no_connection(database: str) -> None:
    async def act(at: Scene) -> None:
        store = at.store
        store._texts["wrong"] = "SELECT 1 / $1::integer"  # type: ignore[attr-defined]
        await store.counts()
        (link,) = store._here().shared._free  # type: ignore[attr-defined]
        for _ in range(3):
            with pytest.raises(HoldfastError, match=r"wrong: .*division by zero"):
                await store._fetch("wrong", 0)  # type: ignore[attr-defined]
        assert store._here().shared._free == [link]  # type: ignore[attr-defined]

    play(Site(database), act)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("postgresql://nobody@127.0.0.1:{port}/postgres", 'role "nobody" does not exist'),
        ("postgresql://postgres@127.0.0.1:{port}/nowhere", "create the database"),
        ("postgresql://postgres@127.0.0.1:{port}/postgres?nonsense=1", "leave that option out"),
    ],
)
def test_a_connection_that_cannot_succeed_later_is_a_configuration_error(
    postgres_server: PostgresServer, url: str, word: str
) -> None:
    with pytest.raises(ConfigurationError, match=word):
        using(store_at(url.format(port=postgres_server.port)), lambda store: store.counts())


def test_an_old_server_is_refused_by_name(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OLDEST", 1000)
    with pytest.raises(ConfigurationError, match=r"is PostgreSQL 1[0-9], 1000 or newer is needed"):
        using(store_at(database), lambda store: store.counts())


def test_schemas_of_one_database_are_independent(postgres_dsn: str) -> None:
    migrate(postgres_dsn)
    other = store_at(postgres_dsn, schema="other")
    with pytest.raises(SchemaMissing, match="no schema 'other'"):
        using(other, lambda store: store.counts())
    using(other, lambda store: store.migrate())

    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        assert await at.store.counts() == {("", State.AVAILABLE): 1}

    play(Site(postgres_dsn, schema="other"), act)
    assert using(store_at(postgres_dsn), lambda store: store.counts()) == {}
    assert using(other, lambda store: store.prune(10)).total == 0


@pytest.mark.parametrize("schema", ["", "Shop", "1st", "a b", 'a"b', "a.b", "s" * 64, "public", "pg_toast"])
def test_a_schema_name_that_is_not_plain_or_is_reserved_is_refused(schema: str) -> None:
    with pytest.raises(ConfigurationError, match="schema="):
        PostgresStore("postgresql://db/shop", schema=schema, clock=FakeClock(), chance=FakeChance(), process=None)  # type: ignore[arg-type]


def test_an_app_checks_its_url_at_once_and_connects_only_when_it_is_used() -> None:
    App("postgresql://127.0.0.1:1/nowhere", schema="jobs", pooler="transaction")
    with pytest.raises(ConfigurationError, match="port"):
        App("postgresql://127.0.0.1:x/nowhere")
    with pytest.raises(ConfigurationError, match="only a postgresql:// store"):
        App("sqlite:///jobs.db", pooler="transaction")


def test_a_driver_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast.stores, "postgres", holdfast.stores.postgres)  # restored after the test
    for name in [each for each in sys.modules if each.startswith("holdfast.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"asyncpg is not installed: pip install asyncpg 'psycopg\[binary\]'"):
        App("postgresql://127.0.0.1/shop").jobs.counts()


if has_pgbouncer():

    def test_a_pooler_that_the_url_does_not_mention_is_recognised(database: str, postgres_server: PostgresServer) -> None:
        with PgBouncer(postgres_server) as pooler:
            with pytest.raises(ConfigurationError, match="pooler=transaction"):
                using(store_at(pooler.through(database)), lambda store: store.counts())
            assert using(store_at(f"{pooler.through(database)}?pooler=transaction"), lambda store: store.counts()) == {}

    def test_behind_a_pooler_each_transaction_gets_the_settings_it_needs(database: str, postgres_server: PostgresServer) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off')
        with PgBouncer(postgres_server, default_pool_size="1") as pooler:
            store = store_at(pooler.through(database), pooler="transaction")
            expected = {"jit": "off", "lock_timeout": "5s", "synchronous_commit": "on", "transaction_isolation": "read committed"}
            assert settings_of(store, *expected) == expected
            with psycopg.connect(pooler.through(database)) as other:
                assert other.execute("SHOW synchronous_commit").fetchone() == ("off",)  # other clients keep the default

"""A check finds what is wrong with a server or with the store's tables before it does harm, and names the remedy."""

import asyncio
import re
from collections.abc import Iterator

import psycopg
import pytest

from holdfast._core.answers import Check
from holdfast._core.policy import Policy
from holdfast._core.release import UPGRADE
from holdfast.stores.postgres import checks
from holdfast.testing.contracts.scene import Scene, done, play
from holdfast.testing.servers import PostgresServer
from tests.e2e.waiting import STALL, until
from tests.stores.postgres_databases import Home
from tests.stores.postgres_faulty_databases import Ground, store_at
from tests.stores.test_postgres_partitions import In

DAY = 86400.0


def found_at(dsn: str, **options: str) -> dict[str, Check]:
    """Return the worst finding of each name; a check that finds nothing under a name leaves it out."""

    async def act() -> tuple[Check, ...]:
        store = store_at(dsn, **options)
        try:
            return await store.check()
        finally:
            await store.close()

    ranked = sorted(asyncio.run(act()), key=lambda check: ("ok", "warning", "error").index(check.level))
    assert all(check.remedy for check in ranked if check.level != "ok")
    return {check.name: check for check in ranked}


def levels(found: dict[str, Check], *names: str) -> list[str]:
    return [found[name].level if name in found else "-" for name in names]


@pytest.fixture(scope="module")
def _careful() -> Iterator[Ground]:
    with PostgresServer(is_durable=True) as server:
        yield Ground(server)


@pytest.fixture
def careful(_careful: Ground) -> Iterator[Ground]:
    """Return a server that syncs its disk, and that a test may configure."""
    yield _careful
    _careful.repair()


def test_a_check_of_a_healthy_store_has_no_findings(careful: Ground) -> None:
    found = found_at(careful.database())
    assert {name: check.level for name, check in found.items()} == dict.fromkeys(
        ("postgres", "durability", "clock", "schema", "partitions", "job"), "ok"
    )


def test_a_check_makes_no_schema(postgres_dsn: str) -> None:
    found = found_at(postgres_dsn)
    assert (found["schema"].level, "holdfast migrate" in found["schema"].remedy) == ("error", True)
    with psycopg.connect(postgres_dsn) as connection:
        assert connection.execute("SELECT to_regnamespace('holdfast')").fetchone() == (None,)


def test_a_newer_schema_is_an_error(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO holdfast.versions VALUES (1000)")
    found = found_at(database)["schema"]
    assert (found.level, found.remedy) == ("error", UPGRADE)


def test_a_server_that_is_not_there_is_an_error() -> None:
    found = found_at("postgresql://jobs:s3cr3t@127.0.0.1:1/shop")
    assert (found["server"].level, "s3cr3t" in found["server"].message) == ("error", False)


@pytest.mark.parametrize(
    ("settings", "name", "level", "word"),
    [
        ({"fsync": "off"}, "durability", "warning", "fsync is off"),
        ({"full_page_writes": "off"}, "durability", "warning", "full_page_writes is off"),
        ({"synchronous_commit": "off"}, "durability", "warning", "synchronous_commit is off"),
        ({"autovacuum": "off"}, "autovacuum", "error", "without limit"),
        ({"track_counts": "off"}, "autovacuum", "error", "without limit"),
        ({"default_transaction_read_only": "on"}, "read-only", "error", "nothing can be written"),
        ({"synchronous_standby_names": "gone", "synchronous_commit": "local"}, "replication", "warning", "commits wait"),
    ],
)
def test_settings_that_lose_or_stop_work_are_reported(
    careful: Ground, settings: dict[str, str], name: str, level: str, word: str
) -> None:
    dsn = careful.database()
    careful.server.configure(**settings)
    found = found_at(dsn)
    assert (found[name].level, word in found[name].message) == (level, True)


@pytest.mark.parametrize("what", ["DATABASE {0}", "ROLE {1}", "ROLE {1} IN DATABASE {0}", "SYSTEM"])
def test_a_read_only_default_is_gone_after_the_statements_of_its_remedy(careful: Ground, what: str) -> None:
    dsn = careful.database()
    place = what.format(dsn.rpartition("/")[2], "postgres")
    careful.server.sql(f"ALTER {place} SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    statements = re.findall(r"`([A-Z][^`]+)`", found_at(dsn)["read-only"].remedy)
    assert statements
    careful.server.sql(*statements, dsn=dsn)  # in sessions that are read-only themselves
    assert until(lambda: "read-only" not in found_at(dsn), within=STALL)


def test_a_stand_by_is_an_error(careful: Ground) -> None:
    with careful.server.replicate() as follower:
        assert levels(found_at(follower.dsn()), "read-only", "schema") == ["error", "error"]
        assert found_at(careful.server.dsn()).get("replication") is None
        until(lambda: careful.server.sql("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), within=STALL)
        for names, state, level in (("gone", "async", "warning"), ("*", "sync", "-")):
            careful.server.configure(synchronous_standby_names=names, synchronous_commit="local")
            state_of_it = f"SELECT 1 FROM pg_stat_replication WHERE sync_state = '{state}'"
            until(lambda asked=state_of_it: careful.server.sql(asked), within=STALL)
            assert levels(found_at(careful.server.dsn()), "replication") == [level]


def test_tables_without_autovacuum_are_reported(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE holdfast.pending SET (autovacuum_enabled = false)")
    found = found_at(database)["autovacuum"]
    assert (found.level, "pending" in found.message) == ("error", True)


def test_dead_rows_that_stay_are_reported(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "dead rows" not in found_at(database)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE holdfast.queues SET (autovacuum_enabled = false)")
        connection.execute("ALTER TABLE holdfast.unique_keys SET (autovacuum_vacuum_threshold = 1000000)")
        connection.execute(
            "INSERT INTO holdfast.unique_keys SELECT 'task', n::text, gen_random_uuid(), '' FROM generate_series(1, 100001) AS s (n)"
        )
        connection.execute("DELETE FROM holdfast.unique_keys")
        connection.execute("SELECT pg_stat_force_next_flush()")
    found = found_at(database)["dead rows"]
    assert (found.level, "unique_keys 10000" in found.message) == ("warning", True)


def test_a_transaction_that_is_open_for_long_is_reported(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(database, application_name="reporter") as connection:
        connection.execute("SELECT 1")
        assert "transactions" not in found_at(database)
        monkeypatch.setattr(checks, "LONG", 0.0)
        found = found_at(database)["transactions"]
        assert (found.level, "reporter" in found.message, str(connection.info.backend_pid) in found.message) == (
            "warning",
            True,
            True,
        )
    assert "transactions" not in found_at(database)


def test_an_old_prepared_transaction_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LONG", 0.0)
    with PostgresServer(settings={"max_prepared_transactions": "1"}) as server:
        server.sql("BEGIN; CREATE TABLE mine (); PREPARE TRANSACTION 'mine'")
        assert "PREPARED" in found_at(server.dsn())["transactions"].remedy


def test_a_server_with_few_free_connections_is_reported(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "connections" not in found_at(database)
    monkeypatch.setattr(checks, "SPARE", 1000)
    assert found_at(database)["connections"].level == "warning"


def test_a_server_clock_that_differs_from_the_local_clock_is_reported(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "APART", -1.0)
    assert found_at(database)["clock"].level == "warning"


def test_a_clock_that_was_set_back_is_reported(home: Home) -> None:
    async def act(at: Scene) -> None:
        await at.lease()
        home.clock.advance(-checks.STEP - 1.0)
        found = [check for check in await at.store.check() if check.name == "clock" and "set back" in check.message]
        assert len(found) == 1

    play(In(home), act)


def test_finished_jobs_past_their_retention_are_reported(home: Home) -> None:
    async def act(at: Scene) -> None:
        async def pruning_messages() -> list[str]:
            return [check.message for check in await at.store.check() if check.name == "pruning"]

        job = at.new(policy=Policy(retention=0.0))
        await at.enqueue(job)
        (claim,) = await at.claim(await at.lease(), policy=job.policy)
        await at.settle(done(claim.job))
        at.advance(checks.LATE - 1.0)
        assert await pruning_messages() == []
        at.advance(2.0)
        (message,) = await pruning_messages()
        assert message.startswith("1 finished jobs")
        await at.store.prune(10)
        assert await pruning_messages() == []

    play(In(home), act)


def test_missing_and_overdue_partitions_are_reported(home: Home) -> None:
    async def act(at: Scene) -> None:
        async def warnings() -> dict[str, str]:
            found = await at.store.check()
            return {
                check.name: check.message for check in found if check.name in ("partitions", "pruning") and check.level != "ok"
            }

        assert await warnings() == {}
        at.advance(2 * DAY)
        assert list(await warnings()) == ["partitions"]
        at.advance(2 * DAY)
        assert list(await warnings()) == ["pruning", "partitions"]
        await at.store.prune(10)
        assert await warnings() == {}

    play(In(home), act)

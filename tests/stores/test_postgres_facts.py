"""Queries on the server's catalogs answer about the store's schema and this database, and about nothing else."""

import asyncio
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest

from holdfast._core.job import State
from holdfast._core.policy import Policy
from holdfast.stores.postgres import checks
from holdfast.testing.contracts.scene import Scene, play
from holdfast.testing.servers import PostgresServer
from tests.stores.postgres_concurrent_sessions import Stage
from tests.stores.postgres_databases import Home
from tests.stores.postgres_faulty_databases import store_at
from tests.stores.test_postgres_partitions import DAY, finished, names, today

BESIDE = """
CREATE SCHEMA beside;
CREATE TABLE beside.pending (n integer) WITH (autovacuum_enabled = false);
CREATE TABLE beside.logs (day date NOT NULL) PARTITION BY LIST (day);
CREATE TABLE beside.logs_20000101 PARTITION OF beside.logs FOR VALUES IN ('2000-01-01');
CREATE TABLE beside.finished_20000101 (n integer);
CREATE SEQUENCE beside.numbers;
CREATE FUNCTION beside.nothing () RETURNS integer LANGUAGE sql AS 'SELECT 1';
"""
DEAD = """
INSERT INTO {0} SELECT {1} FROM generate_series(1, {2}) AS n;
DELETE FROM {0};
"""
FINISHED = """
INSERT INTO holdfast.finished (
    id, task, queue, priority, state, created_at, policy, claim_number, cancel_requested, attempt, failures, crashes, available_at,
    finished_at, delete_after, payload
) SELECT gen_random_uuid(), 'due', 'default', 0, %s, now(), '{}', 1, false, 1, 0, 0, now(), now(), now() + interval '7 days', '\\x7b7d'
FROM generate_series(1, %s)
"""


def asked(dsn: str, name: str, *values: Any) -> list[Any]:
    """Return the rows of one of the store's statements."""

    async def act() -> list[Any]:
        store = store_at(dsn)
        try:
            return await store._fetch(name, *values)
        finally:
            await store.close()

    return asyncio.run(act())


def facts(dsn: str) -> Any:
    (row,) = asked(dsn, "server_facts", "holdfast")
    return row


def test_facts_leave_out_tables_of_other_schemas(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(BESIDE)
        owner.execute("ALTER TABLE holdfast.unique_keys SET (autovacuum_vacuum_threshold = 1000000)")
        owner.execute(DEAD.format("beside.pending", "n", 100_001))
        owner.execute(DEAD.format("holdfast.queues", "n::text, now()", 100_001))
        owner.execute(DEAD.format("holdfast.unique_keys", "'', n::text, gen_random_uuid(), ''", 5))
        owner.execute("SELECT pg_stat_force_next_flush()")
    found = facts(database)
    assert (found["unvacuumed"], found["dead"]) == (None, None)


def test_the_oldest_transaction_is_one_and_of_this_database(database: str, postgres_server: PostgresServer) -> None:
    with (
        psycopg.connect(postgres_server.dsn()) as elsewhere,
        psycopg.connect(database) as first,
        psycopg.connect(database) as second,
    ):
        elsewhere.execute("SELECT 1")
        assert facts(database)["oldest"] is None
        for each in (first, second):
            each.execute("SELECT 1")
        assert f"pid {first.info.backend_pid}" in facts(database)["whose"]


def test_connections_are_those_of_clients(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as link:
        before = link.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchone()
        assert before is not None
        assert abs(facts(database)["connections"] - before[0] - 1) <= 1


def test_late_jobs_are_counted_as_far_as_it_matters(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST", 2)

    async def act(at: Scene) -> None:
        for _ in range(3):
            await finished(at, Policy(retention=0.0))
        at.advance(checks.LATE + 1.0)
        (text,) = [check.message for check in await at.store.check() if check.name == "pruning"]
        assert text.startswith("1 or more")

    play(Stage(home), act)


def test_past_partitions_leave_out_tables_of_other_schemas(home: Home) -> None:
    async def act(at: Scene) -> None:
        day = today(at)
        at.advance(3 * DAY)
        found = await at.store._fetch("past_partitions", "holdfast", day + timedelta(days=3))  # type: ignore[attr-defined]
        expected = [
            (f"{parent}_{name}", True) for name in names(day + timedelta(days=1), 2) for parent in ("finished", "attempts")
        ]
        assert [(row["name"], row["is_attached"]) for row in found] == expected
        assert all(row["is_ours"] and not row["is_pending"] for row in found)
        assert [row["is_finished"] for row in found] == [True, False] * 2

    home.sql(BESIDE)
    home.sql("CREATE VIEW holdfast.finished_20000101 AS SELECT 1")
    home.sql("CREATE TABLE holdfast.mine_20000101 (n integer)")
    home.sql("CREATE TABLE holdfast.finished_1 (n integer)")
    try:
        play(Stage(home), act)
    finally:
        home.sql("DROP VIEW holdfast.finished_20000101; DROP TABLE holdfast.mine_20000101, holdfast.finished_1")
        home.sql("DROP SCHEMA beside CASCADE")


def test_a_check_reports_no_partitions_of_other_schemas(home: Home) -> None:
    async def act(at: Scene) -> None:
        assert [check.name for check in await at.store.check() if check.name == "pruning"] == []

    home.sql(BESIDE)
    try:
        play(Stage(home), act)
    finally:
        home.sql("DROP SCHEMA beside CASCADE")


def test_a_new_owner_is_given_the_objects_of_the_schema_that_it_does_not_own(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as link:
        link.execute(BESIDE)
        link.execute("DROP ROLE IF EXISTS an_owner")
        link.execute("CREATE ROLE an_owner")
        link.execute("ALTER TABLE holdfast.pending OWNER TO an_owner")
        link.execute("ALTER FUNCTION holdfast.again OWNER TO an_owner")
        kinds = {"r": "TABLE", "p": "TABLE", "v": "VIEW", "S": "SEQUENCE"}
        question = "SELECT relkind::text, relname::text FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace"
        there = {(kinds[kind], name) for kind, name in link.execute(question) if kind in kinds} - {("TABLE", "pending")}
        there |= {
            ("FUNCTION", "take_key"),
            ("FUNCTION", "take_keys"),
            ("FUNCTION", "hold_key"),
            ("FUNCTION", "hold_keys"),
            ("FUNCTION", "holds_key"),
            ("FUNCTION", "make_partitions"),
            ("FUNCTION", "has_signal"),
        }
    found = [row["statement"] for row in asked(database, "objects_to_reassign", "holdfast", "an_owner")]
    assert found[0] == "ALTER SCHEMA holdfast OWNER TO an_owner"
    assert sorted(found[1:]) == sorted(f"ALTER {kind} holdfast.{name} OWNER TO an_owner" for kind, name in there)
    with psycopg.connect(database, autocommit=True) as link:
        link.execute("ALTER SCHEMA holdfast OWNER TO an_owner")
        assert "SCHEMA" not in " ".join(
            row["statement"] for row in asked(database, "objects_to_reassign", "holdfast", "an_owner")
        )
        link.execute("REASSIGN OWNED BY an_owner TO postgres")
        link.execute("DROP ROLE an_owner")


def test_a_schema_counts_as_existing_when_it_has_a_table_of_versions(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as link:
        link.execute(BESIDE)
    found = {schema: asked(database, "connected_database", schema)[0]["exists"] for schema in ("holdfast", "beside", "nowhere")}
    assert found == {"holdfast": True, "beside": False, "nowhere": False}


LONG = b"x" * 5000


def rows(home: Home) -> tuple[list[date], list[date], int]:
    """Return the days of jobs, the days of attempts, and the number of payloads in their separate table."""
    days = [
        [day for (day,) in home.sql(f"SELECT delete_day FROM holdfast.{table} WHERE delete_day > '-infinity' ORDER BY 1")]
        for table in ("finished", "attempts")
    ]
    return days[0], sorted(set(days[1])), home.sql("SELECT count(*) FROM holdfast.payloads")[0][0]


def test_only_records_of_past_days_are_deleted_with_their_partition(home: Home) -> None:
    async def act(at: Scene) -> None:
        async def forget(limit: int, *, whole: bool) -> tuple[int, int]:
            ((jobs, attempts),) = await at.store._fetch("empty_partitions", cutoff, limit, whole)  # type: ignore[attr-defined]
            return jobs, attempts

        cutoff = today(at) + timedelta(days=3)
        for days in (2, 3):
            for payload in (b"{}", LONG, LONG):
                await finished(at, Policy(retention=days * DAY), payload)
        await finished(at, Policy(retention=0.0), LONG)
        await finished(at, Policy(retention=0.0))
        passed, coming = cutoff - timedelta(days=1), cutoff
        assert rows(home) == ([passed] * 3 + [coming] * 3, [passed, coming], 5)
        assert await forget(1, whole=False) == (1, 0)
        assert rows(home) == ([passed] * 2 + [coming] * 3, [passed, coming], 4)
        assert await forget(10, whole=False) == (1, 0)
        assert rows(home) == ([passed] + [coming] * 3, [passed, coming], 3)
        assert await forget(10, whole=False) == (0, 0)
        attempts = len(home.sql("SELECT 1 FROM holdfast.attempts WHERE delete_day = %s", passed))
        assert await forget(attempts - 1, whole=True) == (1, attempts - 1)
        assert await forget(10, whole=True) == (0, 1)
        assert rows(home) == ([coming] * 3, [coming], 3)
        assert len(home.sql("SELECT 1 FROM holdfast.finished")) == 5
        assert len(home.sql("SELECT 1 FROM holdfast.attempts")) == 5 * attempts // 3

    play(Stage(home), act)


def test_no_more_records_are_deleted_at_once_than_asked(home: Home) -> None:
    async def act(at: Scene) -> None:
        for payload in (LONG, b"{}", b"{}", b"{}"):
            await finished(at, Policy(retention=2 * DAY), payload)
        cutoff, left = today(at) + timedelta(days=5), 4
        for expected in (2, 2, 0):
            ((jobs, _),) = await at.store._fetch("empty_partitions", cutoff, 2, True)  # type: ignore[attr-defined]
            left -= jobs
            assert (jobs, len(home.sql("SELECT 1 FROM holdfast.finished"))) == (expected, left)

    play(Stage(home), act)


def test_estimates_of_finished_jobs_follow_the_tables_and_read_none_of_them(database: str) -> None:
    assert estimated(database) == {}, "statistics come with the first vacuum or analyze"
    with psycopg.connect(database, autocommit=True) as owner:
        for state, jobs in (("completed", 5000), ("failed", 700), ("cancelled", 40)):
            owner.execute(FINISHED, (state, jobs))
        owner.execute("VACUUM ANALYZE holdfast.finished_other")
        assert estimated(database) == {State.COMPLETED: 5000, State.FAILED: 700, State.CANCELLED: 40}
        owner.execute(FINISHED, ("completed", 5000))
    assert estimated(database)[State.COMPLETED] == pytest.approx(10_000, rel=0.1), "the table has grown since"


def estimated(dsn: str) -> dict[State, int]:
    async def act() -> dict[State, int]:
        store = store_at(dsn)
        try:
            return await store.estimates()
        finally:
            await store.close()

    return asyncio.run(act())

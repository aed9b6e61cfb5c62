"""Beside a million rows every statement reads little more than it answers, with statistics of any age."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence
from holdfast.rows.postgres.statements import Statements
from holdfast.rows.postgres.table import PostgresTable
from holdfast.rows.sqlite.database import RowsFile
from holdfast.rows.sqlite.statements import Statements as SqliteStatements
from holdfast.rows.sqlite.table import SqliteTable
from holdfast.testing.servers import PostgresServer
from tests.rows.databases import Ground, file_in, watch
from tests.stores.test_postgres_plans import looked_at

MILLION = 1_000_000
BATCH = 1000
pytestmark = pytest.mark.timeout(180)  # of all, so that they come after each other, and one process fills the tables
STUCK, DUE = "holdfast_pastes_stuck", "holdfast_pastes_due"
COLUMNS = "id bigint PRIMARY KEY, status text NOT NULL, claimed_at {stamp}, resets int, expires_at {stamp} NOT NULL"
WHERE = "expires_at < CURRENT_TIMESTAMP"
# Of ten rows eight are done, one is pending and not due for long; of the last, one in a hundred is in progress, and the others due.
_KIND = "CASE WHEN n % 10 < 8 THEN 'GONE' WHEN n % 1000 = 9 THEN 'BUSY' ELSE 'NEW' END"
_FILL = {
    "postgres": f"""
        INSERT INTO pastes SELECT n, {_KIND}, CASE WHEN n % 1000 = 9 THEN now() - n * interval '20 milliseconds' END, 0,
            now() + CASE WHEN n % 10 = 8 THEN 1 ELSE -1 END * interval '1 day' FROM generate_series(1, {MILLION}) AS n
    """,
    "sqlite": f"""
        WITH RECURSIVE ns (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ns WHERE n < {MILLION})
        INSERT INTO pastes SELECT n, {_KIND}, CASE WHEN n % 1000 = 9 THEN datetime('now', -n / 50 || ' seconds') END, 0,
            datetime('now', CASE WHEN n % 10 = 8 THEN '1 day' ELSE '-1 day' END) FROM ns
    """,
}


def filled(ground: Ground, *, before: Callable[[], None] = lambda: None) -> Ground:
    """Fill a table with the indexes that are suggested."""
    ground.say(f"CREATE TABLE pastes ({COLUMNS})")
    before()
    ground.say(_FILL[ground.kind])

    async def create() -> None:
        assert len(await ground.open(watching()).create_indexes()) == 3

    ground.run(create)
    return ground


def watching(**options: Any) -> Any:
    """Make the spec by which the tables here are watched."""
    return watch(where=WHERE, stale_after="2h", resets="resets", retention="1h", **options)


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[Ground]:
    """Make a table that was never analyzed."""
    dsn = postgres_server.create_database()
    ground = Ground("postgres", dsn)
    yield filled(ground, before=lambda: ground.say("ALTER TABLE pastes SET (autovacuum_enabled = false)") and None)
    postgres_server.drop_database(dsn)


def questions(statements: Statements) -> dict[str, tuple[tuple[Any, ...], int, str]]:
    """List each statement with how many rows it may read, and which index it has to use."""
    keys = [(n,) for n in range(1009, MILLION, 1000)]
    stamp = RowFence("2024-01-02T03:04:05.000006", "")
    return {
        "claim": (statements.claim("", BATCH), 4 * BATCH, DUE),
        "has_due": ((statements.texts.of("has_due"),), 2, DUE),
        "reset": (statements.reset(100), 300, STUCK),
        "adopt": (statements.adopt(100), 2, STUCK),
        "move": (statements.move(RowFence("2024-01-02T03:04:05.000006", ""), keys, RowOutcome.DONE), 1100, ""),
        "release": (statements.release(stamp), 2, STUCK),
        "prune": (statements.prune(100), 4, "holdfast_pastes_done"),
    }


class Undone(Exception):
    """Nothing of it stays."""


async def explained(table: PostgresTable, question: tuple[Any, ...]) -> dict[str, Any]:
    """Return the plan by which it ran, in a session as the table's own."""
    sql, *values = question
    found: list[str] = []
    try:
        async with table._way._transaction() as link:
            ((plan,),) = await link.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *values)
            found.append(plan)
            raise Undone
    except Undone:
        pass
    plan = json.loads(found[0])[0]["Plan"]
    assert isinstance(plan, dict)
    return plan


@pytest.mark.parametrize("statistics", ["none", "fresh", "stale"])
def test_no_statement_of_postgresql_reads_more_than_it_answers(full: Ground, statistics: str) -> None:
    if statistics == "fresh":
        full.say("ANALYZE pastes")
    if statistics == "stale":  # made when there was nothing to do, and all is to be done now
        full.say("UPDATE pastes SET status = 'DONE' WHERE status <> 'GONE'")
        full.say("VACUUM ANALYZE pastes")
        full.say(f"UPDATE pastes SET status = {_KIND.replace('n %', 'id %')} WHERE status = 'DONE'")
        full.say("VACUUM pastes")

    async def act() -> None:
        table = full.open(watching())
        assert isinstance(table, PostgresTable)
        for name, (question, most, index) in questions(await table._ready()).items():
            plan = await explained(table, question)
            assert looked_at(plan) <= most, (name, looked_at(plan), plan)
            assert f'"Index Name": "{index}' in json.dumps(plan), (name, plan)

    full.run(act)


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder: Path = tmp_path_factory.mktemp("heap")
    return filled(file_in(folder))


@pytest.mark.parametrize("statistics", ["none", "fresh"])
def test_every_statement_of_sqlite_goes_along_an_index(heap: Ground, statistics: str) -> None:
    if statistics == "fresh":
        heap.say("ANALYZE")

    async def act() -> None:
        table = heap.open(watching())
        assert isinstance(table, SqliteTable)
        statements = await table._ready()
        for name, (sql, values, index) in sqlite_questions(statements).items():

            def explain(file: RowsFile, sql: str = sql, values: Any = values) -> list[str]:
                return [str(row[3]) for row in file.ask("explain", f"EXPLAIN QUERY PLAN {sql}", values)]

            plan = await table._thread.run(explain)
            assert any(index in line for line in plan), (name, plan)
            assert not any(line.startswith("SCAN pastes") and "INDEX" not in line for line in plan), (name, plan)

    heap.run(act)


def sqlite_questions(statements: SqliteStatements) -> dict[str, tuple[str, Any, str]]:
    """List each statement with the index it has to use."""
    mark, named = (
        RowFence("2024-01-02 03:04:05.000006", ""),
        {"limit": 9, "now": "", "stale": "3", "ahead": "4", "forgettable": "2", "from": "", "past": 0, "fence": "", "owner": ""},
    )
    ((move, moved),) = statements.move(mark, [(1,), (2,)], RowOutcome.DONE, "", lambda: 0.0)
    ((reset, taken),) = statements.reset([("", 1), ("", 2)])
    return {
        "claim": (statements.claim, named, DUE),
        "has_due": (statements.texts.of("has_due"), named, DUE),
        "stuck": (statements.texts.of("stuck"), named, STUCK),
        "reset": (reset, taken, STUCK),
        "adopt": (statements.texts.of("adopt"), named, STUCK),
        "move": (move, moved, "pastes"),
        "move, all of a batch": (*statements.move_all(mark, RowOutcome.DONE, "", lambda: 0.0), f"{STUCK} (claimed_at=?)"),
        "release": (statements.release(), named, STUCK),
        "prune": (statements.texts.of("prune"), named, "holdfast_pastes_done"),
    }


def test_a_claim_takes_its_batch_beside_a_million_rows(heap: Ground) -> None:
    async def act() -> None:
        claimed = await heap.open(watching()).claim("", BATCH)
        assert len(claimed.rows) == BATCH
        assert all(row["id"] % 10 == 9 for row in claimed.rows)

        assert heap.say("SELECT count(*) FROM pastes WHERE status = 'BUSY' AND id % 10 <> 9") == [(0,)]

    heap.run(act)

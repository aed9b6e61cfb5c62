"""The schema is created on first use, once, and never in part."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast._core.job import State
from holdfast.databases.sqlite.sql import statements
from holdfast.errors import HoldfastError, SchemaTooNew
from holdfast.stores.sqlite import schema
from holdfast.testing.clock import FakeChance
from tests.stores.support import new_job, sql, store_on, using

OPEN_AT_ONCE = """
import asyncio, sys
from holdfast._core.identity import ProcessIdentity
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.sqlite.store import SqliteStore

async def main() -> None:
    store = SqliteStore(sys.argv[1], clock=SystemClock(), chance=SystemRandomness(), process=ProcessIdentity("", 0))
    sys.stdin.read()
    print(await store.counts())
    await store.close()

asyncio.run(main())
"""


def test_a_new_file_gets_the_whole_schema(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    assert using(store_on(path), lambda store: store.migrate()) == (0, schema.VERSION)
    assert using(store_on(path), lambda store: store.migrate()) == (schema.VERSION, schema.VERSION)
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]
    assert using(store_on(path), lambda store: store.counts()) == {}


def test_a_file_of_a_newer_release_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    using(store_on(path), lambda store: store.migrate())
    sql(path, "UPDATE holdfast_schema SET version = ?", schema.VERSION + 1)
    for verb in (lambda store: store.migrate(), lambda store: store.counts()):
        with pytest.raises(SchemaTooNew, match="upgrade holdfast"):
            using(store_on(path), verb)
    assert sql(path, "SELECT version FROM holdfast_schema") == [(schema.VERSION + 1,)]


def test_a_store_shares_the_database_of_an_application_and_leaves_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    for statement in (
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY)",
        "CREATE TABLE schema (version)",
        "CREATE INDEX waiting ON jobs (id)",
        "PRAGMA user_version = 77",
        "PRAGMA application_id = 1234",
    ):
        sql(path, statement)
    before = sql(path, "SELECT name, sql FROM sqlite_schema")
    chance = FakeChance()
    using(store_on(path), lambda store: store.enqueue(chance.uuid4(), [new_job(chance)]))
    assert using(store_on(path), lambda store: store.counts()) == {("", State.AVAILABLE): 1}
    assert sql(path, "SELECT name, sql FROM sqlite_schema WHERE tbl_name NOT LIKE 'holdfast~_%' ESCAPE '~'") == before
    assert sql(path, "PRAGMA user_version") == [(77,)]
    assert sql(path, "PRAGMA application_id") == [(1234,)]
    assert sql(path, "SELECT * FROM jobs") == []


def test_every_name_in_the_schema_has_the_prefix_holdfast(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    using(store_on(path), lambda store: store.migrate())
    names = [name for (name,) in sql(path, "SELECT name FROM sqlite_schema WHERE sql IS NOT NULL")]
    assert [name for name in names if not name.startswith("holdfast_")] == []


def test_processes_that_start_at_once_make_it_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    children = [
        subprocess.Popen([sys.executable, "-c", OPEN_AT_ONCE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    for child in children:
        assert child.stdout is not None
        assert child.stdout.read().strip() == b"{}"
        child.stdout.close()
        assert child.wait() == 0
    assert sql(path, "SELECT count(*), max(claim_number) FROM holdfast_sequence") == [(1, 0)]


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    broken = tmp_path / "0002_broken.sql"
    broken.write_text("CREATE TABLE halves (a);\nCREATE TABLE halves (b);\n")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_MIGRATIONS", [*schema._MIGRATIONS, broken])
        patch.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(HoldfastError, match="halves already exists"):
            using(store_on(path), lambda store: store.migrate())
    assert sql(path, "SELECT name FROM sqlite_schema") == []
    assert using(store_on(path), lambda store: store.migrate()) == (0, schema.VERSION)


def test_an_upgrade_keeps_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, chance = tmp_path / "jobs.db", FakeChance()
    using(store_on(path), lambda store: store.enqueue(chance.uuid4(), [new_job(chance)]))
    wider = tmp_path / "0002_wider.sql"
    wider.write_text("-- One more column.\nALTER TABLE holdfast_jobs ADD COLUMN color TEXT; -- why not\n")
    monkeypatch.setattr(schema, "_MIGRATIONS", [*schema._MIGRATIONS, wider])
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    assert using(store_on(path), lambda store: store.migrate()) == (schema.VERSION - 1, schema.VERSION)
    assert using(store_on(path), lambda store: store.counts()) == {("", State.AVAILABLE): 1}


def test_a_script_is_cut_into_its_statements() -> None:
    script = "-- one\nCREATE TABLE a (b);\nCREATE TRIGGER c AFTER INSERT ON a BEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\nSELECT 3;\n"
    found = list(statements(script))
    assert [each.splitlines()[-1] for each in found] == ["CREATE TABLE a (b);", "END;", "SELECT 3;"]
    assert all(sqlite3.complete_statement(each) for each in found)


def test_files_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in schema._MIGRATIONS]
    assert numbers == list(range(1, schema.VERSION + 1))

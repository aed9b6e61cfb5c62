"""What only SQLite is like: one file of the user's, whose settings and tables Holdfast leaves as they are."""

import asyncio
import os
import re
import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowWriter, Table
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import ConfigurationError, HoldfastError, StoreUnavailable
from holdfast.rows.sqlite.checks import checks_in
from holdfast.rows.sqlite.statements import MOST_VALUES
from holdfast.rows.sqlite.table import SqliteTable
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import PROCESS
from tests.rows.databases import OWNED, Ground, keys, watch
from tests.rows.test_inspection import inspected, the_problem


def table_on(ground: Ground, **options: Any) -> SqliteTable:
    """Make a table with these options."""
    chosen = {"clock": SystemClock(), "chance": SystemRandomness(), "process": PROCESS, **options}
    return SqliteTable(ground.place, watch(), **chosen)


def test_holdfast_makes_nothing_in_the_file_and_its_settings_stay(tmp_path: Path) -> None:
    path = tmp_path / "plain.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    ground = Ground("sqlite", str(path))
    ground.make(2)
    before = ground.say("SELECT name FROM sqlite_schema ORDER BY name")

    async def act(table: Table) -> None:
        await table.inspect()
        mark = (await table.claim("", 1)).fence
        async with table.transaction(mark) as tx:
            await tx.move([(1,)], RowOutcome.DONE)
        assert ground.say("SELECT name FROM sqlite_schema ORDER BY name") == before
        assert (ground.say("PRAGMA journal_mode"), ground.say("PRAGMA user_version")) == ([("delete",)], [(7,)])

    ground.play(act)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    ground = Ground("sqlite", str(tmp_path / "none.db"))
    assert "there is no such file" in the_problem(ground)
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_may_not_be_written(sqlite: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.make()
    monkeypatch.setattr(os, "access", lambda path, how: False)  # the user who runs this may be root
    assert re.search("may not read and write the folder .*`ch(mod|attr) ", the_problem(sqlite))


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("words " * 1000)
    assert "this one is no SQLite database" in the_problem(Ground("sqlite", str(tmp_path / "text")))


def test_a_virtual_table(sqlite: Ground) -> None:
    sqlite.say("CREATE VIRTUAL TABLE pastes USING fts5 (id, status, claimed_at)")
    assert "pastes is a virtual table" in the_problem(sqlite)


def test_a_stamp_too_coarse_to_be_a_fence(sqlite: Ground) -> None:
    sqlite.make(stamp="INTEGER")
    assert "INTEGER, whole seconds, too coarse" in the_problem(sqlite)
    assert inspected(sqlite, **OWNED).problems == ()


def test_now_is_spelt_otherwise(sqlite: Ground) -> None:
    sqlite.make(more=", at TEXT")
    assert "SQLite writes CURRENT_TIMESTAMP, or datetime('now')" in the_problem(sqlite, where="at < now()")


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ('CREATE TABLE t (a INT CHECK(a>0), "check" INT, CHECK ((a) < (b)))', ["a>0", "(a) < (b)"]),
        ("CREATE TABLE t (a -- CHECK (no\n CHECK (a /* ) */ <> ')'), [CHECK (x] INT)", ["a /* ) */ <> ')'"]),
        ("CREATE TABLE t (`check` INT, a DEFAULT 'CHECK (1)')", []),
    ],
)
def test_checks_are_found_in_the_text_of_a_table(sql: str, found: list[str]) -> None:
    assert [expression for expression, _ in checks_in(sql)] == found


@pytest.mark.parametrize(
    ("column", "then"),
    [
        (", CHECK (is_word(status))", ""),
        ("", "CREATE INDEX words ON pastes (is_word(status))"),
        (", word INT AS (is_word(status))", ""),
    ],
    ids=["check", "index", "column"],
)
def test_rows_that_need_a_function_of_another_program_cannot_be_changed(sqlite: Ground, column: str, then: str) -> None:
    with closing(sqlite3.connect(sqlite.place, isolation_level=None)) as connection:
        connection.create_function("is_word", 1, bool, deterministic=True)
        connection.execute(f"CREATE TABLE pastes (id INTEGER PRIMARY KEY, status TEXT, claimed_at TEXT{column})")
        connection.execute(then)
    assert "rows of pastes cannot be changed from here: unknown function: is_word(): " in the_problem(
        sqlite, where="true", columns=("id",)
    )


def test_a_trigger_of_a_table_that_is_gone(sqlite: Ground) -> None:
    sqlite.make()
    sqlite.say("CREATE TRIGGER log AFTER UPDATE ON pastes BEGIN INSERT INTO gone VALUES (new.id); END")
    assert "cannot be changed from here: no such table: main.gone: " in the_problem(sqlite)


@pytest.mark.parametrize(("status", "stamp", "what"), [("INT", "TEXT", "pending"), ("TEXT", "BLOB", "in_progress")])
def test_a_strict_table_that_does_not_take_what_is_to_be_put_there(sqlite: Ground, status: str, stamp: str, what: str) -> None:
    sqlite.say(f"CREATE TABLE pastes (id INTEGER PRIMARY KEY, status {status} NOT NULL, claimed_at {stamp}) STRICT")
    problems = inspected(sqlite, where="true").problems
    assert any(problem.startswith(f"{what}: pastes is STRICT: cannot store TEXT value") for problem in problems)
    assert all("name another value, or a column of another type" in problem for problem in problems)


def test_the_lock_of_another_is_waited_for(sqlite: Ground) -> None:
    sqlite.make(1)

    async def act(table: Table) -> None:
        await table.has_due()
        with closing(sqlite3.connect(sqlite.place, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            claiming = asyncio.create_task(table.claim("", 1))
            await asyncio.to_thread(other.execute, "UPDATE pastes SET reason = 'x'")
            assert not claiming.done()
            other.execute("COMMIT")
            assert (await claiming).rows[0]["reason"] == "x"

    sqlite.play(act)


def test_a_lock_that_is_held_for_too_long_is_an_outage(sqlite: Ground) -> None:
    sqlite.make(1)

    async def act() -> None:
        table = table_on(sqlite, busy_limit=0.01)
        await table.has_due()
        with closing(sqlite3.connect(sqlite.place, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="busy for"):
                await table.claim("", 1)
        assert len((await table.claim("", 1)).rows) == 1
        await table.close()

    sqlite.run(act)


def test_a_constraint_that_forbids_a_move_is_not_an_outage(sqlite: Ground) -> None:
    sqlite.make(1, more=", CHECK (status <> 'GONE' OR NOT is_due)")

    async def act(table: Table) -> None:
        mark = (await table.claim("", 1)).fence
        with pytest.raises(HoldfastError, match="CHECK constraint failed") as caught:
            await table.move(mark, [(1,)], RowOutcome.DONE)
        assert not isinstance(caught.value, StoreUnavailable)
        assert await table.release(mark) == 1

    sqlite.play(act)


def test_two_claims_in_one_moment_have_different_stamps(sqlite: Ground) -> None:
    sqlite.make(2)

    async def act() -> None:
        table = table_on(sqlite, clock=FakeClock())
        one, two = await table.claim("", 1), await table.claim("", 1)
        assert one.fence.stamp < two.fence.stamp
        assert await table.release(one.fence) == 1
        await table.close()

    sqlite.run(act)


def test_two_claims_of_two_processes_in_one_microsecond_have_different_stamps(sqlite: Ground) -> None:
    sqlite.make(2)

    async def act() -> None:
        clock = FakeClock()
        tables = [table_on(sqlite, clock=clock) for _ in range(2)]
        marks = [(await table.claim("", 1)).fence for table in tables]
        assert marks[0] != marks[1]
        assert set(sqlite.statuses().values()) == {"BUSY"}
        assert [await table.release(mark) for table, mark in zip(tables, marks, strict=True)] == [1, 1]
        for table in tables:
            await table.close()

    sqlite.run(act)


class SlowClock(FakeClock):
    """A microsecond passes with each ten looks at it."""

    looks = 0

    def wall(self) -> float:
        self.looks += 1
        return super().wall() + self.looks // 10 / 1e6


def test_s2_no_two_processes_reserve_one_stamp(sqlite: Ground) -> None:
    sqlite.make(1)

    async def act() -> None:
        clock = SlowClock()
        tables = [table_on(sqlite, clock=clock) for _ in range(3)]
        reserved = [stamp for _ in range(3) for table in tables for stamp in await table.stamps(16)]
        assert len(set(reserved)) == 9 * 16
        for table in tables:
            await table.close()

    sqlite.run(act)


def test_a_row_that_ended_between_the_look_and_the_reset_is_left_alone(sqlite: Ground) -> None:
    sqlite.make(1)
    sqlite.say("UPDATE pastes SET status = 'GONE', claimed_at = 'then'")

    async def act() -> None:
        table = table_on(sqlite)
        ((sql, values),) = (await table._ready()).reset([("then", 1)])
        assert await table._thread.run(lambda file: file.ask("reset", sql, values)) == []
        assert sqlite.statuses() == {1: "GONE"}
        await table.close()

    sqlite.run(act)


def test_more_keys_than_one_statement_takes(sqlite: Ground) -> None:
    sqlite.make(MOST_VALUES + 7)

    async def act(table: Table) -> None:
        claimed = await table.claim("", MOST_VALUES + 7)
        assert len(await table.move(claimed.fence, keys(claimed), RowOutcome.DONE)) == MOST_VALUES + 7
        assert await table.states() == await sqlite.open(table.watch).states()

    sqlite.play(act)


def test_the_same_with_apsw_as_the_store_has_it(sqlite: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SQLITE", "apsw")
    sqlite.make(4)

    async def act() -> None:
        table = table_on(sqlite)
        assert (await table.inspect()).problems == ()
        mark = (await table.claim("", 3)).fence
        async with table.transaction(mark) as tx:
            assert await tx.move([(1,)], RowOutcome.DONE) == [(1,)]
        assert len(await table.move(mark, [(1,), (2,), (3,)], RowOutcome.RETRY)) == 2
        await table.close()

    sqlite.run(act)


async def dawdle(block: AbstractAsyncContextManager[RowWriter]) -> None:
    """Send statements to the file until cancelled."""
    async with block as tx:
        await tx.move([(1,)], RowOutcome.DONE)
        while True:
            tx.connection.execute("SELECT 1").fetchall()


def test_a_block_that_is_open_for_too_long_is_rolled_back(sqlite: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.make(1)
    monkeypatch.setattr("holdfast.rows.sqlite.moves.IDLE", 0.05)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 1)).fence
        with pytest.raises(HoldfastError, match=r"batch\.transaction\(\) was open for longer than 0\.05 s"):
            await dawdle(table.transaction(mark))
        assert sqlite.statuses() == {1: "BUSY"}

    sqlite.play(act)


def test_a_forked_child_opens_the_file_itself(sqlite: Ground) -> None:
    sqlite.make(2)

    async def act(table: Table) -> None:
        await table.claim("", 1)

    table = sqlite.open(watch())
    sqlite.run(lambda: act(table))
    child = os.fork()
    if not child:
        asyncio.run(act(table))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(sqlite.statuses().values()) == ["BUSY", "BUSY"]


def test_a_table_that_goes_away_is_reported(sqlite: Ground) -> None:
    sqlite.make(1)

    async def act(table: Table) -> None:
        await table.claim("", 1)
        sqlite.say("DROP TABLE pastes")
        with pytest.raises(HoldfastError, match="no such table: pastes"):
            await table.has_due()
        with pytest.raises(ConfigurationError, match="there is no table"):
            await sqlite.open(table.watch).has_due()

    sqlite.play(act)


@pytest.mark.parametrize(
    "head", ["plain /* on INSERT */ AFTER", '"on INSERT" AFTER', "[insert] /* ' */ BEFORE", "t -- DELETE\n AFTER"]
)
def test_a_triggers_event_is_not_read_from_its_name_or_a_comment(sqlite: Ground, head: str) -> None:
    sqlite.make(1)
    sqlite.say(f"CREATE TRIGGER {head} UPDATE ON pastes BEGIN SELECT 1; END")

    async def act(table: Table) -> None:
        assert ["runs whenever rows are claimed" in each for each in (await table.inspect()).warnings] == [True]

    sqlite.play(act)

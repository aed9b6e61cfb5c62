"""Claims are disjoint, whole, and of what is due; a row that ends stays as it is."""

import asyncio
from enum import StrEnum
from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence, Table
from holdfast.errors import ConfigurationError
from tests.rows.databases import ENDING, OWNED, Ground, keys


def test_a_claim_marks_and_stamps_rows_and_answers_with_all_their_columns(ground: Ground) -> None:
    ground.make(3, more=", note text DEFAULT 'n'")

    async def act(table: Table) -> None:
        claimed = await table.claim("me", 2)
        assert len(claimed.rows) == 2
        assert all((row["status"], row["owner"], row["note"]) == ("BUSY", "me", "n") for row in claimed.rows)
        assert claimed.fence.owner == "me"
        assert sorted(ground.statuses().values()) == ["BUSY", "BUSY", "NEW"]

    ground.play(act, **OWNED)


def test_only_the_columns_that_are_asked_for_are_read_and_the_key(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        assert (await table.claim("", 9)).rows == ({"id": 1, "reason": None},)

    ground.play(act, columns=("reason",))


def test_only_due_rows_are_claimed(ground: Ground) -> None:
    ground.make(4)
    ground.say("UPDATE pastes SET is_due = false WHERE id = 1")
    ground.say("UPDATE pastes SET status = 'GONE' WHERE id = 2")

    async def act(table: Table) -> None:
        assert await table.has_due()
        assert sorted(keys(await table.claim("", 9))) == [(3,), (4,)]
        assert not await table.has_due()
        nothing = await table.claim("", 9)
        assert (nothing.fence, nothing.rows) == (RowFence(nothing.fence.stamp, ""), ())
        assert await table.release(nothing.fence) == 0

    ground.play(act)


def test_a_condition_with_an_alternative_is_one_condition(ground: Ground) -> None:
    ground.make(2)
    ground.say("UPDATE pastes SET status = 'GONE' WHERE id = 2")

    async def act(table: Table) -> None:
        assert keys(await table.claim("", 9)) == [(1,)]

    ground.play(act, where="is_due OR true -- and why")


@pytest.mark.parametrize("order_by", ["id DESC", "id DESC -- the newest first"])
def test_rows_come_in_the_order_that_was_asked_for(ground: Ground, order_by: str) -> None:
    ground.make(20)

    async def act(table: Table) -> None:
        assert keys(await table.claim("", 5)) == [(id,) for id in (20, 19, 18, 17, 16)]
        assert keys(await table.claim("", 2)) == [(15,), (14,)]

        await table.create_indexes()

    ground.play(act, order_by=order_by)


def test_claims_of_several_at_once_are_disjoint_and_leave_nothing(ground: Ground) -> None:
    ground.make(600)

    async def act(table: Table) -> None:
        tables = [table, *(ground.open(table.watch) for _ in range(3))]

        async def drain(each: Table, name: int) -> list[tuple[int]]:
            found: list[tuple[int]] = []
            while rows := keys(await each.claim(f"{name}.{len(found)}", 17)):
                found += rows
            return found

        await asyncio.gather(*(each.has_due() for each in tables))  # no table is ahead because others still connect
        found = await asyncio.gather(*(drain(each, name) for name, each in enumerate(tables)))
        ids = [id for part in found for (id,) in part]
        assert sorted(ids) == list(range(1, 601))
        assert sum(map(bool, found)) > 1

    ground.play(act, **OWNED)


def test_a_row_is_done_retried_or_failed(ground: Ground) -> None:
    ground.make(4)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence
        assert await table.move(mark, [(1,)], RowOutcome.DONE) == [(1,)]
        assert await table.move(mark, [(2,)], RowOutcome.RETRY) == [(2,)]
        assert await table.move(mark, [(3,)], RowOutcome.FAIL, "bro\0ken") == [(3,)]
        assert ground.statuses() == {1: "GONE", 2: "NEW", 3: "BAD", 4: "BUSY"}
        assert ground.say("SELECT claimed_at, owner FROM pastes WHERE id = 2") == [(None, None)]
        assert ground.say("SELECT owner, reason FROM pastes WHERE id = 3") == [("me", "bro�ken")]
        assert await table.release(mark) == 1
        assert ground.statuses()[4] == "NEW"

    ground.play(act, **OWNED, **ENDING)


def test_what_has_moved_is_not_moved_again_and_what_is_not_there_not_at_all(ground: Ground) -> None:
    ground.make(3)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 2)).fence
        mine = [id for id, status in ground.statuses().items() if status == "BUSY"]
        assert sorted(await table.move(mark, [(id,) for id in (1, 2, 3, 99)], RowOutcome.DONE)) == [(id,) for id in mine]
        assert await table.move(mark, [(id,) for id in mine], RowOutcome.RETRY) == []
        assert await table.move(mark, [], RowOutcome.DONE) == []
        assert await table.release(mark) == 0

    ground.play(act)


def test_rows_cannot_fail_without_a_word_for_it(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 1)).fence
        with pytest.raises(ConfigurationError, match="failed='FAILED'"):
            await table.move(mark, [(1,)], RowOutcome.FAIL, "why")

    ground.play(act)


def test_rows_that_are_done_are_deleted_where_that_is_asked_for(ground: Ground) -> None:
    ground.make(3)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 2)).fence
        assert len(await table.move(mark, [(1,), (2,), (3,)], RowOutcome.DONE)) == 2
        assert list(ground.statuses().values()) == ["NEW"]

    ground.play(act, deletes=True)


def test_a_declared_foreign_key_holds_for_what_is_deleted(ground: Ground) -> None:
    ground.make(1)
    ground.say("CREATE TABLE lines (paste int REFERENCES pastes (id) ON DELETE CASCADE)")
    ground.say("INSERT INTO lines VALUES (1)")

    async def act(table: Table) -> None:
        assert await table.move((await table.claim("", 2)).fence, [(1,)], RowOutcome.DONE) == [(1,)]
        assert ground.say("SELECT * FROM lines") == []

    ground.play(act, deletes=True)


def test_done_rows_are_kept_for_their_retention(ground: Ground) -> None:
    ground.make(5)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence
        ground.age()
        aged = await table.move(mark, [(1,)], RowOutcome.DONE)
        assert aged == []  # its stamp is another
        ground.say("UPDATE pastes SET status = 'NEW' WHERE id > 1")
        mark = (await table.claim("", 9)).fence
        assert len(await table.move(mark, [(id,) for id in (2, 3, 4, 5)], RowOutcome.DONE)) == 4
        assert await table.prune(9) == 0
        ground.say("UPDATE pastes SET claimed_at = {long_ago} WHERE id IN (2, 3, 4)")
        assert [await table.prune(2), await table.prune(2), await table.prune(2)] == [2, 1, 0]
        assert ground.statuses() == {1: "BUSY", 5: "GONE"}

    ground.play(act, retention="1h")


def test_the_time_of_retention_begins_when_a_row_is_done(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence
        ground.age()
        assert await table.move(mark, [(1,)], RowOutcome.DONE) == [(1,)]
        assert await table.prune(9) == 0

    ground.play(act, retention="1h", **OWNED)


def test_nothing_is_pruned_without_a_retention(ground: Ground) -> None:
    ground.make(1)
    ground.say("UPDATE pastes SET status = 'GONE', claimed_at = {long_ago}")

    async def act(table: Table) -> None:
        assert await table.prune(9) == 0

    ground.play(act)


def test_no_two_claims_of_one_microsecond_have_one_stamp(postgres: Ground) -> None:
    postgres.make(3)

    async def act(table: Table) -> None:
        for _ in range(3):
            await table.claim("", 1)
        found = postgres.say("SELECT extract(microseconds FROM claimed_at)::int % 1000, xmin::text::bigint % 1000 FROM pastes")
        assert len({transaction for _, transaction in found}) == 3
        assert all(stamp == transaction for stamp, transaction in found)

    postgres.play(act)


def touch(ground: Ground, change: str) -> None:
    """Add a trigger: when a row is changed, another program's code changes it too."""
    if ground.kind == "postgres":
        ground.say(f"CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.{change}; RETURN new; END$$")
        ground.say("CREATE TRIGGER touch BEFORE UPDATE ON pastes FOR EACH ROW EXECUTE FUNCTION touch()")
    else:
        ground.say(f"CREATE TRIGGER touch AFTER UPDATE ON pastes BEGIN UPDATE pastes SET {change} WHERE id = new.id; END")


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({}, "claimed_at = CURRENT_TIMESTAMP"),
        ({"order_by": "id"}, "claimed_at = CURRENT_TIMESTAMP"),
        ({}, "status = 'NEW'"),
        (OWNED, "owner = 'somebody'"),
    ],
    ids=["stamp", "in order", "status", "owner"],
)
def test_a_claim_that_a_trigger_changes_is_none(ground: Ground, options: dict[str, Any], change: str) -> None:
    ground.make(3)
    touch(ground, change)
    before = ground.say("SELECT * FROM pastes ORDER BY id")

    async def act(table: Table) -> None:
        with pytest.raises(ConfigurationError, match=r"rows pastes: a trigger of pastes changes .*, so nothing was: "):
            await table.claim("me", 2)
        assert ground.say("SELECT * FROM pastes ORDER BY id") == before

    ground.play(act, **options)


@pytest.mark.parametrize("options", [{}, OWNED], ids=["stamp", "owner"])
def test_a_trigger_may_change_columns_that_holdfast_does_not_write(ground: Ground, options: dict[str, Any]) -> None:
    ground.make(3)
    touch(ground, "reason = 'touched'")

    async def act(table: Table) -> None:
        claimed = await table.claim("me", 2)
        assert sorted(await table.move(claimed.fence, keys(claimed), RowOutcome.DONE)) == keys(claimed)

    ground.play(act, order_by="id", **options)


@pytest.mark.parametrize("options", [{}, OWNED, {"columns": ("status", "text", "owner")}], ids=["stamp", "owner", "columns"])
def test_a_claim_answers_what_reading_its_rows_would(ground: Ground, options: dict[str, Any]) -> None:
    doubled = ", twice int GENERATED ALWAYS AS (length(status)) STORED"
    ground.make(4, more=f", text text DEFAULT 'it''s'{doubled}")

    async def act(table: Table) -> None:
        claimed = await table.claim("me", 3)
        names = ["id", *options["columns"]] if "columns" in options else [*claimed.rows[0]]
        assert len(names) == (4 if "columns" in options else 9)
        found = ground.say(f"SELECT {', '.join(names)} FROM pastes WHERE status = 'BUSY' ORDER BY id")
        assert [tuple(row.values()) for row in sorted(claimed.rows, key=lambda row: int(row["id"]))] == found
        assert [*claimed.rows[0]] == names
        assert claimed.keys == tuple(keys(claimed))

    ground.play(act, **options)


@pytest.mark.parametrize(
    ("kind", "status"), [("TEXT", 1), ("INTEGER", "1"), ("REAL", 1), ("NUMERIC", "1"), ("", True), ("ANY", "1"), ("BLOB", "a'b")]
)
@pytest.mark.parametrize("strict", ["", "STRICT"])
def test_a_status_is_answered_as_its_column_keeps_it(sqlite: Ground, kind: str, status: Any, strict: str) -> None:
    if strict and kind not in ("TEXT", "INTEGER", "REAL", "ANY"):
        kind = "ANY"
    sqlite.say(f"CREATE TABLE pastes (id INTEGER PRIMARY KEY, status {kind}, claimed_at TEXT) {strict}")
    sqlite.say("INSERT INTO pastes VALUES (1, 7, NULL)")

    async def act(table: Table) -> None:
        claimed = await table.claim("", 3)
        ((found,),) = sqlite.say("SELECT status FROM pastes")
        assert (claimed.rows[0]["status"], type(claimed.rows[0]["status"])) == (found, type(found))

    sqlite.play(act, where="true", pending=7, in_progress=status, done=9)


def test_a_claim_has_the_stamp_that_it_was_given_unless_that_is_somebodys(sqlite: Ground) -> None:
    sqlite.make(4)

    async def act(table: Table) -> None:
        stamps = await table.stamps(3)
        assert len({*stamps}) == 3
        one = await table.claim("", 1, stamps[0])
        assert (one.fence, one.rows[0]["claimed_at"]) == (RowFence(stamps[0], ""), stamps[0])
        two = await table.claim("", 1, stamps[0])
        assert two.fence.stamp > stamps[2]
        assert await table.release(one.fence) == await table.release(two.fence) == 1

    sqlite.play(act)


def test_stamps_are_reserved_only_where_they_are_the_fence_and_the_clock_is_local(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        assert await table.stamps(2) == []

    ground.play(act, **(OWNED if ground.kind == "sqlite" else {}))


class Columns(StrEnum):
    TEXT = "text"


def test_columns_may_be_named_by_an_enumeration(ground: Ground) -> None:
    ground.make(1, more=", text text DEFAULT 'a'")

    async def act(table: Table) -> None:
        assert (await table.claim("", 1)).rows == ({"id": 1, "text": "a"},)

    ground.play(act, columns=(Columns.TEXT,))

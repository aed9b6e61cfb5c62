"""Rows that are all of a batch are found by their fence, and judged as if each had been named."""

from functools import partial
from typing import Any

import pytest

from holdfast._core.table_spec import Key, RowOutcome
from holdfast._ports.table import RowFence, Table
from holdfast.rows.sqlite.database import RowsFile
from holdfast.rows.sqlite.statements import Statements
from holdfast.rows.sqlite.table import SqliteTable
from tests.rows.databases import OWNED, Ground, keys, watch

FENCES = pytest.mark.parametrize("options", [{}, OWNED], ids=["stamp", "owner"])
WAYS = pytest.mark.parametrize("way", ["alone", "in a transaction", "in a thread's transaction"])


def indexed(ground: Ground, **options: Any) -> Table:
    """Make the table as it is watched once it has its indexes."""

    async def create() -> None:
        assert len(await ground.open(watch(**options)).create_indexes()) == 2

    ground.run(create)
    return ground.open(watch(**options))


async def move(table: Table, mark: RowFence, names: list[Key], end: RowOutcome, way: str) -> list[Key]:
    """Move all rows of a batch."""
    if way == "alone":
        return list(await table.move(mark, names, end, is_all=True))
    if way == "in a transaction":
        async with table.transaction(mark) as tx:
            return list(await tx.move(names, end, is_all=True))
    with table.blocking_transaction(mark) as blocking:
        return list(blocking.move(names, end, is_all=True))


@WAYS
@FENCES
@pytest.mark.parametrize("end", list(RowOutcome))
def test_they_move_and_those_of_other_batches_do_not(ground: Ground, options: dict[str, Any], end: RowOutcome, way: str) -> None:
    ground.make(5)
    table = indexed(ground, order_by="id", failed="BAD", **options)

    async def act() -> None:
        one, two = await table.claim("one", 2), await table.claim("two", 2)
        status = {RowOutcome.DONE: "GONE", RowOutcome.RETRY: "NEW", RowOutcome.FAIL: "BAD"}[end]
        assert await move(table, one.fence, keys(one), end, way) == [(1,), (2,)]
        assert ground.statuses() == {1: status, 2: status, 3: "BUSY", 4: "BUSY", 5: "NEW"}
        assert await move(table, one.fence, keys(one), end, way) == []
        assert await move(table, two.fence, keys(two), end, way) == [(3,), (4,)]

    ground.run(act)


@WAYS
@FENCES
@pytest.mark.parametrize("deletes", [False, True])
def test_s2_a_row_that_another_owner_took_stays_and_the_others_move(
    ground: Ground, options: dict[str, Any], way: str, *, deletes: bool
) -> None:
    ground.make(3)
    table = indexed(ground, order_by="id", deletes=deletes, **options)

    async def act() -> None:
        zombie = await table.claim("zombie", 3)
        ground.age(where="id = 2")
        assert [each.key for each in await table.reset(9)] == [(2,)]
        heir = await table.claim("heir", 3)
        before = ground.say("SELECT * FROM pastes WHERE id = 2")
        assert sorted(await move(table, zombie.fence, keys(zombie), RowOutcome.DONE, way)) == [(1,), (3,)]
        assert ground.say("SELECT * FROM pastes WHERE id = 2") == before
        assert ground.statuses() == ({2: "BUSY"} if deletes else {1: "GONE", 2: "BUSY", 3: "GONE"})
        assert await move(table, heir.fence, keys(heir), RowOutcome.DONE, way) == [(2,)]

    ground.run(act)


@WAYS
@FENCES
def test_s2_a_zombies_batch_that_another_owner_took_whole_stays(ground: Ground, options: dict[str, Any], way: str) -> None:
    ground.make(2)
    table = indexed(ground, failed="BAD", **options)

    async def act() -> None:
        zombie = await table.claim("zombie", 9)
        ground.age()
        assert len(await table.reset(9)) == 2
        await table.claim("heir", 9)
        before = ground.say("SELECT * FROM pastes ORDER BY id")
        for end in RowOutcome:
            assert await move(table, zombie.fence, keys(zombie), end, way) == []
        assert ground.say("SELECT * FROM pastes ORDER BY id") == before

    ground.run(act)


def test_an_owners_batch_is_found_by_its_new_stamp(ground: Ground) -> None:
    ground.make(2)
    table = indexed(ground, **OWNED)

    async def act() -> None:
        claimed = await table.claim("me", 9)
        renewed = await table.renew(claimed.fence)
        assert renewed is not None
        assert sorted(await table.move(claimed.fence, keys(claimed), RowOutcome.RETRY, is_all=True)) == [(1,), (2,)]
        again = await table.claim("me", 9)
        renewed = await table.renew(again.fence)
        assert renewed is not None
        assert sorted(await table.move(renewed, keys(again), RowOutcome.DONE, is_all=True)) == [(1,), (2,)]

    ground.run(act)


@pytest.mark.parametrize("deletes", [False, True])
def test_s2_a_zombies_batch_that_another_owner_took_in_the_same_second_stays(sqlite: Ground, *, deletes: bool) -> None:
    sqlite.make(1, stamp="INTEGER")
    table = indexed(sqlite, deletes=deletes, **OWNED)

    async def act() -> None:
        zombie = await table.claim("zombie", 1)
        assert await table.release(zombie.fence) == 1
        heir = await table.claim("heir", 1)
        sqlite.say("UPDATE pastes SET claimed_at = %s", int(zombie.fence.stamp))
        assert await table.move(zombie.fence, [(1,)], RowOutcome.DONE, is_all=True) == []
        assert sqlite.statuses() == {1: "BUSY"}
        assert await table.move(heir.fence, [(1,)], RowOutcome.DONE, is_all=True) == [(1,)]

    sqlite.run(act)


@FENCES
@pytest.mark.parametrize("deletes", [False, True])
def test_a_row_that_another_program_has_ended_is_left_as_it_is(ground: Ground, options: dict[str, Any], *, deletes: bool) -> None:
    ground.make(2)
    table = indexed(ground, deletes=deletes, **options)

    async def act() -> None:
        claimed = await table.claim("me", 9)
        ground.say("UPDATE pastes SET status = 'OTHER'")
        assert await table.move(claimed.fence, keys(claimed), RowOutcome.DONE, is_all=True) == []
        assert ground.statuses() == {1: "OTHER", 2: "OTHER"}

    ground.run(act)


@FENCES
@pytest.mark.parametrize("deletes", [False, True])
def test_they_are_found_along_the_index_of_stuck_rows(sqlite: Ground, options: dict[str, Any], *, deletes: bool) -> None:
    sqlite.make(1)
    table = indexed(sqlite, deletes=deletes, **options)
    assert isinstance(table, SqliteTable)

    def explain(file: RowsFile, statements: Statements) -> str:
        sql, values = statements.move_all(RowFence("2024-01-02 03:04:05.000006", "me"), RowOutcome.DONE, "", lambda: 0.0)
        ((*_, plan),) = file.ask("explain", f"EXPLAIN QUERY PLAN {sql}", values)
        return str(plan)

    async def act() -> None:
        assert await table._run(explain) == "SEARCH pastes USING INDEX holdfast_pastes_stuck (claimed_at=?)"

    sqlite.run(act)


@pytest.mark.parametrize(("kind", "options"), [("REAL", {}), ("INTEGER", OWNED), ("TIMESTAMP", {}), ("", {})])
def test_stuck_rows_are_found_by_every_form_of_stamp_in_a_sqlite_file(sqlite: Ground, kind: str, options: dict[str, Any]) -> None:
    sqlite.make(3, stamp=kind)
    table = indexed(sqlite, order_by="id", **options)

    assert isinstance(table, SqliteTable)

    def move(file: RowsFile, statements: Statements, mark: RowFence) -> bool:
        return file.all_of("move", *statements.move_all(mark, RowOutcome.DONE, "", file.stamp), 2)

    async def act() -> None:
        claimed = await table.claim("me", 2)
        assert await table._run(partial(move, mark=claimed.fence))
        assert sqlite.statuses() == {1: "GONE", 2: "GONE", 3: "NEW"}

    sqlite.run(act)


@pytest.mark.parametrize(
    "index",
    [
        "pastes_i ON pastes (claimed_at) WHERE status <> 'BUSY'",
        "pastes_i ON pastes (claimed_at) WHERE status = 'BUSY' AND resets > 0",
        "holdfast_pastes_stuck ON pastes (claimed_at) WHERE status = 'WORKING'",
        "pastes_i ON pastes (status)",
    ],
)
def test_an_index_that_does_not_find_them_is_not_taken_for_one_that_does(sqlite: Ground, index: str) -> None:
    sqlite.make(2)
    sqlite.say(f"CREATE INDEX {index}")

    async def act(table: Table) -> None:
        assert isinstance(table, SqliteTable)
        claimed = await table.claim("", 9)
        assert not (await table._ready()).finds_fences
        assert sorted(await table.move(claimed.fence, keys(claimed), RowOutcome.DONE, is_all=True)) == [(1,), (2,)]

    sqlite.play(act)


@pytest.mark.parametrize("index", ["(claimed_at)", "(status, claimed_at, id)", "(claimed_at) WHERE status = 'BUSY'"])
def test_an_index_of_ones_own_finds_them_too_once_it_is_there(sqlite: Ground, index: str) -> None:
    sqlite.make(1)

    async def act(table: Table) -> None:
        assert isinstance(table, SqliteTable)
        assert not (await table._ready()).finds_fences
        sqlite.say(f"CREATE INDEX pastes_i ON pastes {index}")
        await table.create_indexes()
        assert (await table._ready()).finds_fences

    sqlite.play(act)


def test_what_a_trigger_has_made_beside_them_is_not_taken_for_one_of_them(sqlite: Ground) -> None:
    sqlite.make(1)
    sqlite.say(
        "CREATE TRIGGER twin AFTER UPDATE ON pastes WHEN NEW.status = 'BUSY' AND NEW.id < 100 BEGIN "
        "INSERT INTO pastes (id, status, claimed_at) VALUES (NEW.id + 100, NEW.status, NEW.claimed_at); END"
    )
    table = indexed(sqlite)

    async def act() -> None:
        claimed = await table.claim("me", 1)
        sqlite.say("UPDATE pastes SET status = 'OTHER' WHERE id = 1")
        assert await table.move(claimed.fence, keys(claimed), RowOutcome.DONE, is_all=True) == []
        assert sqlite.statuses() == {1: "OTHER", 101: "BUSY"}

    sqlite.run(act)

"""A row that a constraint or a trigger refuses to change is alone with that: all others of its batch move, and it is reported."""

from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import Refusal, Table
from holdfast.errors import HoldfastError
from tests.rows.databases import ENDING, OWNED, Ground, keys

HOWS = ["trigger", "check"]
FROZEN = "row is frozen"


def made(ground: Ground, how: str, count: int, refused: str, **options: Any) -> None:
    """Make the table, which refuses new rows to which ``refused`` applies."""
    if how == "check":
        ground.make(count, more=f", CHECK (NOT ({refused}))", **options)
        return
    ground.make(count, **options)
    frozen(ground, " AND ".join(f"NEW.{part}" for part in refused.split(" AND ")))


def frozen(ground: Ground, when: str, event: str = "BEFORE UPDATE", raised: str = "ABORT") -> None:
    """Add a trigger that refuses changes."""
    if ground.kind == "sqlite":
        body = f"BEGIN SELECT RAISE({raised}, '{FROZEN}'); END"
        ground.say(f"CREATE TRIGGER frozen {event} ON pastes WHEN {when} {body}")
        return
    ground.say(f"CREATE FUNCTION freeze() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{FROZEN}'; END $$")
    name = "CONSTRAINT TRIGGER" if "AFTER" in event else "TRIGGER"
    deferred = "DEFERRABLE INITIALLY DEFERRED" if "AFTER" in event else ""
    ground.say(f"CREATE {name} frozen {event} ON pastes {deferred} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION freeze()")


def names(table: Table) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the keys that were refused since the last look."""
    return [(each.verb, each.key) for each in table.refused()]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("options", [{}, OWNED, {"order_by": "id DESC"}], ids=["stamp", "owner", "order"])
def test_a_claim_takes_all_others(ground: Ground, how: str, options: dict[str, Any]) -> None:
    made(ground, how, 9, "id = 5 AND status = 'BUSY'")

    async def act(table: Table) -> None:
        claimed = await table.claim("me", 9)
        order = [id for id in range(9, 0, -1) if id != 5]
        assert sorted(claimed.keys) == sorted(keys(claimed)) == [(id,) for id in sorted(order)]
        if "order_by" in options:
            assert claimed.keys == tuple((id,) for id in order)
        assert names(table) == [("claim", (5,))]
        assert sorted(await table.move(claimed.fence, claimed.keys, RowOutcome.DONE)) == sorted(claimed.keys)
        with pytest.raises(HoldfastError):
            await table.claim("you", 9)
        assert ground.statuses()[5] == "NEW"

    ground.play(act, **options)


def test_the_refusal_of_a_server_is_quoted_without_the_row(ground: Ground) -> None:
    made(ground, "check", 3, "id = 2 AND status = 'BUSY'")
    ground.say("UPDATE pastes SET reason = 'secret'")

    async def act(table: Table) -> None:
        await table.claim("", 9)
        (refusal,) = table.refused()
        assert isinstance(refusal, Refusal)
        assert "constraint" in refusal.error
        assert "secret" not in refusal.error
        assert "\n" not in refusal.error
        assert table.refused() == []

    ground.play(act)


@pytest.mark.parametrize("options", [{}, OWNED], ids=["stamp", "owner"])
def test_a_release_returns_all_others_and_goes_on_where_none_moves(ground: Ground, options: dict[str, Any]) -> None:
    ground.make(9)

    async def act(table: Table) -> None:
        claimed = await table.claim("me", 9)
        frozen(ground, "OLD.id = 5")
        assert await table.release(claimed.fence) == 8
        assert (names(table), ground.statuses()) == (
            [("release", (5,))],
            {id: "BUSY" if id == 5 else "NEW" for id in range(1, 10)},
        )
        assert await table.release(claimed.fence) == 0

    ground.play(act, **options)


def test_a_reset_takes_all_others_back(ground: Ground) -> None:
    ground.make(9)

    async def act(table: Table) -> None:
        await table.claim("me", 9)
        ground.age()
        frozen(ground, "OLD.id IN (3, 5)")
        found = await table.reset(9)
        assert sorted(each.key for each in found) == [(id,) for id in range(1, 10) if id not in (3, 5)]
        assert {(each.to, each.owner) for each in found} == {(RowOutcome.RETRY, "me")}
        assert sorted(names(table)) == [("reset", (3,)), ("reset", (5,))]
        assert (await table.reset(9), names(table)) == ([], [])
        assert ground.say("SELECT id, resets FROM pastes WHERE status = 'BUSY' ORDER BY id") == [(3, None), (5, None)]

    ground.play(act, **OWNED, **ENDING)


def test_rows_without_a_stamp_get_one_beside_one_that_is_refused(ground: Ground) -> None:
    ground.make(9)
    ground.say("UPDATE pastes SET status = 'BUSY'")
    frozen(ground, "OLD.id = 5")

    async def act(table: Table) -> None:
        assert sorted(await table.stamp_unstamped(9)) == [(id,) for id in range(1, 10) if id != 5]
        assert names(table) == [("adopt", (5,))]
        assert (await table.stamp_unstamped(9), names(table)) == ([], [])
        assert ground.say("SELECT id FROM pastes WHERE claimed_at IS NULL") == [(5,)]

    ground.play(act)


@pytest.mark.parametrize("how", ["trigger", "reference"])
def test_rows_that_are_done_are_deleted_beside_one_that_is_refused(ground: Ground, how: str) -> None:
    ground.make(9)
    ground.say("UPDATE pastes SET status = 'GONE', claimed_at = {long_ago}")
    if how == "trigger":
        frozen(ground, "OLD.id = 5", "BEFORE DELETE")
    else:
        ground.say("CREATE TABLE bills (paste int REFERENCES pastes (id))")
        ground.say("INSERT INTO bills VALUES (5)")

    async def act(table: Table) -> None:
        assert await table.prune(9) == 8
        assert names(table) == [("prune", (5,))]
        assert ground.statuses() == {5: "GONE"}

    ground.play(act, retention=3600.0)


@pytest.mark.parametrize(("batch", "raises"), [(10, 0), (1, 2)])
def test_more_refused_rows_than_a_batch_has_are_gone_past(ground: Ground, batch: int, raises: int) -> None:
    ground.make(30)

    async def act(table: Table) -> None:
        frozen(ground, "OLD.id <= 20")
        for _ in range(raises):  # a claim skips this many batches
            with pytest.raises(HoldfastError):
                await table.claim("", batch)
        claimed = await table.claim("", batch)
        assert sorted(claimed.keys) == [(id,) for id in range(21, 21 + batch)]
        assert len(table.refused()) == 20

    ground.play(act, order_by="id")


def test_what_is_not_refused_any_more_moves_at_once(ground: Ground) -> None:
    ground.make(5)

    async def act(table: Table) -> None:
        frozen(ground, "OLD.id = 2")
        assert len((await table.claim("", 9)).rows) == 4
        ground.say("DROP TRIGGER frozen" + (" ON pastes" if ground.kind == "postgres" else ""))
        assert (await table.claim("", 9)).keys == ((2,),)

    ground.play(act)


def test_a_key_of_several_columns(ground: Ground) -> None:
    ground.make(key="shop text NOT NULL, id int NOT NULL", more=", PRIMARY KEY (shop, id)")
    for shop, id in (("a", 1), ("a", 2), ("b", 1), ("b", 2)):
        ground.say("INSERT INTO pastes (shop, id, status) VALUES (%s, %s, 'NEW')", shop, id)

    async def act(table: Table) -> None:
        frozen(ground, "OLD.id = 1 AND OLD.shop = 'b'")
        claimed = await table.claim("me", 9)
        assert sorted(claimed.keys) == [("a", 1), ("a", 2), ("b", 2)]
        assert await table.release(claimed.fence) == 3
        assert names(table) == [("claim", ("b", 1))]

    ground.play(act, key=("shop", "id"), **OWNED)


def test_a_constraint_that_is_looked_at_when_all_is_written(postgres: Ground) -> None:
    postgres.make(5)
    frozen(postgres, "NEW.id = 3", "AFTER UPDATE")

    async def act(table: Table) -> None:
        assert sorted((await table.claim("", 9)).keys) == [(1,), (2,), (4,), (5,)]

    postgres.play(act)


@pytest.mark.parametrize("raised", ["FAIL", "ROLLBACK"])
def test_a_trigger_of_sqlite_raises_in_every_way(sqlite: Ground, raised: str) -> None:
    sqlite.make(5)
    frozen(sqlite, "NEW.id = 3", raised=raised)

    async def act(table: Table) -> None:
        claimed = await table.claim("", 9)
        assert sorted(claimed.keys) == [(1,), (2,), (4,), (5,)]
        assert await table.release(claimed.fence) == 4

    sqlite.play(act)


def test_a_table_that_refuses_all_rows_reports_it(ground: Ground) -> None:
    ground.make(4)

    async def act(table: Table) -> None:
        frozen(ground, "OLD.id > 0")
        for _ in range(2):
            with pytest.raises(HoldfastError, match=FROZEN):
                await table.claim("", 9)
        assert (len(table.refused()), set(ground.statuses().values())) == (4, {"NEW"})

    ground.play(act)


def test_a_reset_begins_behind_rows_that_are_gone_past(ground: Ground) -> None:
    ground.make(6)
    ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = {long_ago}")
    older = "claimed_at - id * interval '1 hour'" if ground.kind == "postgres" else "datetime(claimed_at, -id || ' hours')"
    ground.say(f"UPDATE pastes SET claimed_at = {older}")

    async def act(table: Table) -> None:
        assert sorted(each.key for each in await table.reset(2, 2)) == [(3,), (4,)]
        frozen(ground, "OLD.id = 1")
        assert [each.key for each in await table.reset(9, 2)] == [(2,)]
        assert [each.key for each in await table.reset(9, 1)] == [(5,)]
        assert names(table) == [("reset", (1,))]

    ground.play(act)


def test_rows_that_are_not_due_take_no_place_among_the_others(ground: Ground) -> None:
    ground.make(29)
    ground.say("UPDATE pastes SET status = 'GONE' WHERE id <= 20")
    frozen(ground, "OLD.id = 25")

    async def act(table: Table) -> None:
        assert len((await table.claim("", 9)).rows) == 8

    ground.play(act)

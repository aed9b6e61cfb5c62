"""Rows are taken from owners that have had them for too long: few at a time, the oldest first, each as it is at that moment."""

import asyncio
from typing import Any

import psycopg
import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence, Table
from tests.rows.databases import ENDING, OWNED, Ground, keys


def test_resets_are_bounded_and_begin_with_the_oldest(ground: Ground) -> None:
    ground.make(5)

    async def act(table: Table) -> None:
        await table.claim("me", 4)
        ground.age()
        oldest = "now() - interval '9 hours'" if ground.kind == "postgres" else "'2001-02-03 04:05:06.000000'"
        ground.say(f"UPDATE pastes SET claimed_at = {oldest} WHERE id = 3")
        first = await table.reset(1)
        assert [(each.key, each.to, each.owner) for each in first] == [((3,), RowOutcome.RETRY, "me")]
        assert first[0].held > 8 * 3600
        assert [len(await table.reset(2)) for _ in range(3)] == [2, 1, 0]
        assert list(ground.statuses().values()) == ["NEW"] * 5

    ground.play(act, order_by="id", **OWNED)


def test_rows_that_are_held_for_shorter_stay(ground: Ground) -> None:
    ground.make(2)

    async def act(table: Table) -> None:
        await table.claim("", 9)
        ground.age(where="id = 1")
        assert [(each.key, each.owner) for each in await table.reset(9)] == [((1,), None)]
        assert ground.statuses() == {1: "NEW", 2: "BUSY"}

    ground.play(act)


def test_rows_that_have_ended_are_in_nobodys_way(ground: Ground) -> None:
    ground.make(3)
    ground.say("UPDATE pastes SET status = 'GONE', claimed_at = {long_ago} WHERE id < 3")

    async def act(table: Table) -> None:
        await table.claim("", 9)
        ground.age()
        assert [each.key for each in await table.reset(1)] == [(3,)]
        assert await table.reset(1) == []
        assert ground.statuses() == {1: "GONE", 2: "GONE", 3: "NEW"}

    ground.play(act)


def test_several_supervisors_reset_a_row_once(ground: Ground) -> None:
    ground.make(200)

    async def act(table: Table) -> None:
        await table.claim("", 200)
        ground.age()
        tables = [table, *(ground.open(table.watch) for _ in range(2))]

        async def drain(each: Table) -> list[tuple[int, ...]]:
            found = []
            while reset := await each.reset(9):
                found += [one.key for one in reset]
            return found

        found = await asyncio.gather(*map(drain, tables))
        assert sorted(key for part in found for key in part) == [(id,) for id in range(1, 201)]
        assert ground.say("SELECT DISTINCT resets FROM pastes") == [(1,)]

    ground.play(act, resets="resets")


def test_poison_rows_fail_after_max_resets(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        for number in (1, 2, 3):
            await table.claim(f"owner {number}", 9)
            ground.age()
            (reset,) = await table.reset(9)
            assert (reset.to, reset.owner) == (RowOutcome.FAIL if number == 3 else RowOutcome.RETRY, f"owner {number}")
        assert await table.reset(9) == []
        found = ground.say("SELECT status, owner, resets, reason, claimed_at IS NULL FROM pastes")
        assert found == [("BAD", "owner 3", 3, "held for longer than 7200 s more than 2 times", False)]

    ground.play(act, **OWNED, **ENDING)


def test_a_reset_row_is_nobodys(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        await table.claim("me", 9)
        ground.age()
        await table.reset(9)
        assert ground.say("SELECT status, claimed_at, owner, resets, reason FROM pastes") == [("NEW", None, None, 1, None)]

    ground.play(act, **OWNED, **ENDING)


def test_rows_that_another_program_left_without_a_stamp_get_one_and_are_reset_when_that_is_old(ground: Ground) -> None:
    ground.make(6)
    ground.say("UPDATE pastes SET status = 'BUSY' WHERE id > 3")

    async def act(table: Table) -> None:
        assert len(await table.stamp_unstamped(2)) == 2
        assert ground.say("SELECT count(*) FROM pastes WHERE claimed_at IS NOT NULL AND status = 'BUSY'") == [(2,)]
        assert (len(await table.stamp_unstamped(2)), len(await table.stamp_unstamped(2))) == (1, 0)
        assert await table.reset(9) == []
        assert ground.say("SELECT id FROM pastes WHERE claimed_at IS NULL ORDER BY id") == [(1,), (2,), (3,)]
        ground.age()
        assert sorted(each.key for each in await table.reset(9)) == [(4,), (5,), (6,)]

    ground.play(act)


@pytest.mark.parametrize("stamp", ["{stamp}", "{stamp} NOT NULL DEFAULT '2001-02-03 04:05:06'"], ids=["plain", "required"])
def test_rows_whose_stamp_is_far_ahead_do_not_stay_stuck(ground: Ground, stamp: str) -> None:
    ground.make(stamp=stamp)
    ground.fill(4)
    ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = '2999-01-01 00:00:00' WHERE id < 3")
    ahead = "infinity" if ground.kind == "postgres" else "9999-12-31 23:59:59"
    ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = %s WHERE id = 3", ahead)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 1)).fence
        before = ground.say("SELECT claimed_at FROM pastes WHERE id = 4")
        assert (len(await table.stamp_unstamped(9)), len(await table.stamp_unstamped(9)), await table.reset(9)) == (3, 0, [])
        assert ground.say("SELECT claimed_at FROM pastes WHERE id = 4") == before, "that is as it should be"
        assert ground.say("SELECT count(*) FROM pastes WHERE claimed_at < '2999-01-01 00:00:00'") == [(4,)]
        assert await table.release(mark) == 1
        ground.age()
        assert sorted(each.key for each in await table.reset(9)) == [(1,), (2,), (3,)]

    ground.play(act)


def test_rows_whose_stamp_is_long_ago_are_reset_too(ground: Ground) -> None:
    stamps = ["1066-10-14 09:00:00", "0001-01-01 00:00:00" if ground.kind == "sqlite" else "-infinity"]
    ground.make(len(stamps), stamp="timestamp")
    for id, stamp in enumerate(stamps, 1):
        ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = %s WHERE id = %s", stamp, id)

    async def act(table: Table) -> None:
        assert (await table.states()).rows == {"BUSY": len(stamps)}
        found = await table.reset(9)
        assert sorted(each.key for each in found) == [(id,) for id, _ in enumerate(stamps, 1)]
        assert all(0 <= each.held < 1e12 for each in found)

    ground.play(act)


@pytest.mark.parametrize(("options", "mark"), [({}, RowFence("", "one")), (OWNED, RowFence("2024-01-02 03:04:05.000006", ""))])
def test_a_fence_of_a_time_when_the_watch_was_another_releases_nothing(
    ground: Ground, options: dict[str, Any], mark: RowFence
) -> None:
    ground.make(2)
    ground.say("UPDATE pastes SET status = 'BUSY', owner = '', claimed_at = {now} WHERE id = 1")

    async def act(table: Table) -> None:
        assert await table.release(mark) == 0
        assert ground.statuses() == {1: "BUSY", 2: "NEW"}

    ground.play(act, **options)


def test_a_table_whose_stamp_is_never_null_keeps_the_last_one(ground: Ground) -> None:
    ground.make(stamp="{stamp} NOT NULL DEFAULT '2001-02-03 04:05:06'", more=", note int")
    ground.fill(1)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence
        ground.age()
        assert [each.key for each in await table.reset(9)] == [(1,)]
        again = await table.claim("", 9)
        assert again.fence != mark
        assert await table.release(again.fence) == 1

    ground.play(act)


def test_a_row_that_is_locked_is_passed_by_and_judged_as_it_is_then(postgres: Ground) -> None:
    postgres.make(2)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence
        postgres.age()
        with psycopg.connect(postgres.place) as other:
            other.execute("UPDATE pastes SET status = 'GONE' WHERE id = 1")
            assert [each.key for each in await table.reset(9)] == [(2,)]
            assert keys(await table.claim("", 9)) == [(2,)]
        assert await table.reset(9) == []
        assert await table.move(mark, [(1,)], RowOutcome.RETRY) == []

    postgres.play(act)


def test_rows_whose_stamp_a_trigger_removes_are_reported_again(postgres: Ground) -> None:
    postgres.make(3)
    postgres.say("UPDATE pastes SET status = 'BUSY'")
    postgres.say("UPDATE pastes SET claimed_at = '2999-01-01' WHERE id = 3")
    postgres.say(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN IF NEW.id > 1 THEN NEW.claimed_at := OLD.claimed_at; END IF; RETURN NEW; END'"
    )
    postgres.say("CREATE TRIGGER keep BEFORE UPDATE ON pastes FOR EACH ROW EXECUTE FUNCTION keep()")

    async def act(table: Table) -> None:
        assert [sorted(await table.stamp_unstamped(9)) for _ in range(2)] == [[(1,), (2,), (3,)], [(2,), (3,)]]

    postgres.play(act)


@pytest.mark.parametrize("order_by", [None, "id"])
def test_nothing_waits_for_a_row_that_another_session_has_locked(postgres: Ground, order_by: str | None) -> None:
    postgres.make(10)
    for id, status in ((3, "BUSY"), (4, "BUSY"), (5, "GONE"), (6, "GONE")):
        postgres.say("UPDATE pastes SET status = %s, claimed_at = now() - interval '3 hours' WHERE id = %s", status, id)
    postgres.say("UPDATE pastes SET status = 'BUSY' WHERE id > 6")
    postgres.say("UPDATE pastes SET claimed_at = '2999-01-01' WHERE id > 8")

    async def act(table: Table) -> None:
        with psycopg.connect(postgres.place) as other:
            other.execute("SELECT FROM pastes WHERE id IN (1, 3, 5, 7, 9) FOR UPDATE")
            assert keys(await table.claim("", 9)) == [(2,)]
            assert ([each.key for each in await table.reset(9)], len(await table.stamp_unstamped(9))) == ([(4,)], 2)
            assert postgres.say("SELECT id FROM pastes WHERE status = 'BUSY' AND claimed_at IS NULL") == [(7,)]
            assert postgres.say("SELECT id FROM pastes WHERE claimed_at = '2999-01-01'") == [(9,)]
            assert await table.prune(9) == 1
        assert sorted(postgres.statuses()) == [1, 2, 3, 4, 5, 7, 8, 9, 10]

    postgres.play(act, retention="1h", order_by=order_by)


def test_a_row_that_others_refer_to_is_claimed_at_the_same_time(postgres: Ground) -> None:
    postgres.make(1)
    postgres.say("CREATE TABLE lines (paste int REFERENCES pastes (id))")

    async def act(table: Table) -> None:
        with psycopg.connect(postgres.place) as other:
            other.execute("INSERT INTO lines VALUES (1)")
            assert keys(await table.claim("", 9)) == [(1,)]
            postgres.age()
            assert [each.key for each in await table.reset(9)] == [(1,)]

    postgres.play(act)


@pytest.mark.parametrize("is_owned", [False, True])
def test_how_it_stands(ground: Ground, is_owned: bool) -> None:
    ground.make(7)

    async def act(table: Table) -> None:
        empty = await table.states()
        assert (empty.rows, empty.due, empty.stuck, empty.oldest, empty.holders) == ({"NEW": 7}, 7, 0, None, ())
        ground.say("UPDATE pastes SET is_due = false WHERE id = 7")
        await table.claim("one", 2)
        ground.age()
        mark = (await table.claim("two", 3)).fence
        done = next(id for id, status in ground.statuses().items() if status == "BUSY" and id > 2)
        assert await table.move(mark, [(done,)], RowOutcome.DONE) == [(done,)]
        states = await table.states()
        assert (states.rows, states.due, states.stuck) == ({"NEW": 2, "BUSY": 4, "GONE": 1}, 1, 2)
        assert states.oldest is not None
        assert 3 * 3600 - 1 < states.oldest < 4 * 3600
        held = [(each.owner, each.rows) for each in states.holders]
        assert held == ([("one", 2), ("two", 2)] if is_owned else [("", 4)])
        assert states.holders[0].oldest == pytest.approx(states.oldest, abs=5)

    ground.play(act, order_by="id", **(OWNED if is_owned else {}))


def test_only_the_oldest_owners_are_listed(ground: Ground) -> None:
    ground.make(25)

    async def act(table: Table) -> None:
        for number in range(25):
            await table.claim(f"owner {number}", 1)
        holders = (await table.states()).holders
        assert [each.owner for each in holders] == [f"owner {number}" for number in range(20)]

    ground.play(act, order_by="id", **OWNED)

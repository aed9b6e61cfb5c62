"""States of rows and the user's own statements commit together, or not at all."""

import asyncio
from typing import Any

import asyncpg
import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence, Table
from holdfast.errors import HoldfastError
from tests.rows.databases import ENDING, OWNED, Ground

LESS = "UPDATE contents SET number = number - 1"
STORY = pytest.mark.parametrize("is_blocking", [False, True], ids=["awaited", "blocking"])


class Tx:
    """Both kinds of transaction in one way."""

    def __init__(self, ground: Ground, moves: Any, *, is_blocking: bool) -> None:
        self.ground, self.moves, self.is_blocking = ground, moves, is_blocking

    async def say(self, statement: str) -> None:
        connection = self.moves.connection
        answer = connection.execute(statement)
        if self.ground.kind == "postgres" and not self.is_blocking:
            await answer

    async def ask(self, question: str) -> Any:
        if self.is_blocking:
            return self.moves.connection.execute(question).fetchone()[0]
        return await self.moves.connection.fetchval(question)

    async def move(self, *arguments: Any) -> list[Any]:
        answer = self.moves.move(*arguments)
        return answer if self.is_blocking else await answer


async def transact(ground: Ground, table: Table, mark: RowFence, use: Any, *, is_blocking: bool) -> None:
    """Use a transaction in a thread, or here."""
    if not is_blocking:
        async with table.transaction(mark) as moves:
            await use(Tx(ground, moves, is_blocking=False))
        return

    def transact() -> None:
        with table.blocking_transaction(mark) as moves:
            asyncio.run(use(Tx(ground, moves, is_blocking=True)))

    await asyncio.to_thread(transact)


def prepared(ground: Ground) -> None:
    """Make rows, and what counts them."""
    ground.make(3)
    ground.say("CREATE TABLE contents (number int)")
    ground.say("INSERT INTO contents VALUES (10)")


def number(ground: Ground) -> int:
    """Read the count of effects."""
    return int(ground.say("SELECT number FROM contents")[0][0])


@STORY
def test_both_are_there_after_it(ground: Ground, is_blocking: bool) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence

        async def use(tx: Tx) -> None:
            await tx.say(LESS)
            assert await tx.move([(1,), (2,)], RowOutcome.DONE) == [(1,), (2,)]
            assert await tx.move([], RowOutcome.DONE) == []
            assert await tx.move([(3,)], RowOutcome.FAIL, "why") == [(3,)]

        await transact(ground, table, mark, use, is_blocking=is_blocking)
        assert (ground.statuses(), number(ground)) == ({1: "GONE", 2: "GONE", 3: "BAD"}, 9)
        assert ground.say("SELECT reason FROM pastes WHERE id = 3") == [("why",)]

    ground.play(act, **OWNED, **ENDING)


@STORY
def test_neither_is_there_when_the_block_raises(ground: Ground, is_blocking: bool) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence

        async def use(tx: Tx) -> None:
            await tx.say(LESS)
            assert len(await tx.move([(1,), (2,), (3,)], RowOutcome.DONE)) == 3
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await transact(ground, table, mark, use, is_blocking=is_blocking)
        assert (set(ground.statuses().values()), number(ground)) == ({"BUSY"}, 10)
        assert await table.release(mark) == 3

    ground.play(act)


@STORY
def test_rows_that_are_lost_raise_inside_so_that_an_effect_is_not_applied_twice(ground: Ground, is_blocking: bool) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        zombie = (await table.claim("zombie", 9)).fence
        ground.age(where="id > 1")
        await table.reset(9)
        heir = (await table.claim("heir", 9)).fence
        for mark in (heir, zombie):

            async def use(tx: Tx) -> None:
                await tx.say(LESS)
                moved = await tx.move([(1,), (2,), (3,)], RowOutcome.DONE)
                if moved not in ([(1,)], [(2,), (3,)]):
                    raise LookupError(f"{moved}")

            await transact(ground, table, mark, use, is_blocking=is_blocking)
        assert (set(ground.statuses().values()), number(ground)) == ({"GONE"}, 8)

    ground.play(act, order_by="id")


@pytest.mark.parametrize("driver", ["python", "apsw"])
@STORY
def test_rows_may_move_while_the_answer_of_a_write_is_still_read(
    sqlite: Ground, driver: str, monkeypatch: pytest.MonkeyPatch, is_blocking: bool
) -> None:
    monkeypatch.setenv("HOLDFAST_SQLITE", driver)
    sqlite.make(3)
    sqlite.say("CREATE TABLE contents (row int, uses int)")
    sqlite.say("INSERT INTO contents VALUES (1, 1), (2, 1), (3, 1)")

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence

        async def use(tx: Tx) -> None:
            for (row,) in tx.moves.connection.execute("UPDATE contents SET uses = uses - 1 RETURNING row"):
                assert await tx.move([(row,)], RowOutcome.DONE) == [(row,)]

        await transact(sqlite, table, mark, use, is_blocking=is_blocking)
        assert sqlite.statuses() == {1: "GONE", 2: "GONE", 3: "GONE"}
        assert sqlite.say("SELECT sum(uses) FROM contents") == [(0,)]

    sqlite.play(act, **OWNED)


@STORY
def test_a_block_that_ends_its_transaction_itself_gets_an_error(ground: Ground, is_blocking: bool) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence

        async def use(tx: Tx) -> None:
            await tx.say("COMMIT")

        with pytest.raises(HoldfastError, match=r"batch\.transaction\(\) commits when its block ends.*leave out COMMIT"):
            await transact(ground, table, mark, use, is_blocking=is_blocking)

    ground.play(act)


@STORY
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("again", ["", "SAVEPOINT second; ROLLBACK TO second"])
def test_s9_rows_whose_move_a_savepoint_reverted_are_not_reported_as_done(
    ground: Ground, is_blocking: bool, delete: bool, again: str
) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence

        async def use(tx: Tx) -> None:
            await tx.say(LESS)
            await tx.say("SAVEPOINT mine")
            assert await tx.move([(1,)], RowOutcome.DONE) == [(1,)]
            await tx.say("ROLLBACK TO mine")
            assert await tx.move([(2,), (3,)], RowOutcome.DONE) == [(2,), (3,)]
            for statement in filter(None, again.split(";")):
                await tx.say(statement)

        with pytest.raises(
            HoldfastError, match=r"a savepoint was rolled back after done.*Call them after the savepoint has ended"
        ):
            await transact(ground, table, mark, use, is_blocking=is_blocking)
        assert (set(ground.statuses().values()), number(ground)) == ({"BUSY"}, 10)
        assert await table.release(mark) == 3

    ground.play(act, deletes=delete)


@STORY
@pytest.mark.parametrize("options", [{}, OWNED, {"deletes": True}])
def test_s9_savepoints_that_took_no_move_back_are_in_nobodys_way(
    ground: Ground, is_blocking: bool, options: dict[str, Any]
) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence

        async def use(tx: Tx) -> None:
            await tx.say("SAVEPOINT first")
            await tx.say(LESS)
            await tx.say("ROLLBACK TO first")
            assert await tx.move([(1,), (2,)], RowOutcome.DONE) == [(1,), (2,)]
            assert await tx.move([(2,)], RowOutcome.DONE) == []
            await tx.say("RELEASE first")
            await tx.say("SAVEPOINT second")
            await tx.say("ROLLBACK TO second")
            await tx.say(LESS)

        await transact(ground, table, mark, use, is_blocking=is_blocking)
        assert ({*ground.statuses().values()} - {"GONE"}, number(ground)) == ({"BUSY"}, 9)

    ground.play(act, **options)


def test_a_reset_does_not_wait_for_a_transaction_and_does_not_take_its_rows(postgres: Ground) -> None:
    prepared(postgres)

    async def act(table: Table) -> None:
        mark = (await table.claim("", 9)).fence
        postgres.say("UPDATE pastes SET status = 'NEW' WHERE id = 3")
        async with table.transaction(mark) as tx:
            assert await tx.move([(1,)], RowOutcome.DONE) == [(1,)]
            assert [each.key for each in await postgres.open(table.watch).reset(9)] == []
            assert (await table.claim("", 9)).rows[0]["id"] == 3
        assert postgres.statuses() == {1: "GONE", 2: "BUSY", 3: "BUSY"}

    postgres.play(act)


def test_what_is_waited_for_in_a_thread_is_prepared_there(ground: Ground) -> None:
    prepared(ground)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence
        fresh = ground.open(table.watch)

        def transact() -> None:
            with fresh.blocking_transaction(mark) as tx:
                assert tx.move([(1,)], RowOutcome.DONE) == [(1,)]

        await asyncio.to_thread(transact)
        assert ground.statuses()[1] == "GONE"

    ground.play(act, **OWNED)


TRACES = (
    "SET statement_timeout = '77s'",
    "SET ROLE nobody_else",
    "CREATE TEMP TABLE left_behind ()",
    "SELECT pg_advisory_lock(7)",
    "LISTEN something",
    "DECLARE what CURSOR WITH HOLD FOR SELECT 1",
)
TRACE = """
    SELECT concat_ws(' ', current_setting('statement_timeout'), current_user, to_regclass('left_behind'),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_cursors WHERE is_holdable))
"""


async def session(ground: Ground, table: Table, *, is_blocking: bool, say: tuple[str, ...] = (), fails: bool = False) -> Any:
    """Return which session a transaction had."""
    found = []

    async def use(tx: Tx) -> None:
        assert await tx.ask(TRACE) == "0 postgres 0 0 0"
        found.append(await tx.ask("SELECT pg_backend_pid()"))
        for statement in say:
            await tx.say(statement)
        if fails:
            raise ValueError("no")

    await transact(ground, table, RowFence("2024-01-02T03:04:05.000006", ""), use, is_blocking=is_blocking)
    return found[0]


@STORY
def test_a_session_is_used_again_and_nothing_of_the_one_before_is_found_in_it(postgres: Ground, is_blocking: bool) -> None:
    prepared(postgres)
    postgres.say("DROP ROLE IF EXISTS nobody_else")
    postgres.say("CREATE ROLE nobody_else")

    async def act(table: Table) -> None:
        first = await session(postgres, table, is_blocking=is_blocking, say=TRACES)
        assert await session(postgres, table, is_blocking=is_blocking) == first

        with pytest.raises(ValueError, match="no"):
            await session(postgres, table, is_blocking=is_blocking, fails=True)
        other = await session(postgres, table, is_blocking=is_blocking)
        assert other != first

        await table.close()
        assert postgres.say(f"SELECT count(*) FROM pg_stat_activity WHERE pid IN ({first}, {other})") in ([(0,)], [(1,)])

    postgres.play(act)


def test_what_a_block_has_left_running_does_not_speak_in_the_next_ones_transaction(postgres: Ground) -> None:
    prepared(postgres)

    async def act(table: Table) -> None:
        mark = RowFence("2024-01-02T03:04:05.000006", "")
        async with table.transaction(mark) as before:
            first = await before.connection.fetchval("SELECT pg_backend_pid()")
        async with table.transaction(mark) as after:
            assert await after.connection.fetchval("SELECT pg_backend_pid()") == first
            with pytest.raises(asyncpg.InterfaceError, match="has been released"):
                await before.connection.execute(LESS)
            assert isinstance(after.connection, asyncpg.Connection)
        assert number(postgres) == 10

    postgres.play(act)


@STORY
def test_a_session_that_the_server_has_ended_is_not_used_again(postgres: Ground, is_blocking: bool) -> None:
    prepared(postgres)

    async def act(table: Table) -> None:
        first = await session(postgres, table, is_blocking=is_blocking)
        postgres.say(f"SELECT pg_terminate_backend({first}, 5000)")
        assert await session(postgres, table, is_blocking=is_blocking) != first

    postgres.play(act)

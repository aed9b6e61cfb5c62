"""A handler's rows on its own connection to the file, by every library for SQLite."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast.errors import HoldfastError, JobLost, StoreUnavailable
from holdfast.testing.contracts.scene import rescued
from tests.stores.callers import Caller
from tests.stores.own_block_cases import Desk, OwnBlockStories, at_desk, insert, never
from tests.stores.test_sqlite_transactions import LONG, OnFile
from tests.stores.test_sqlite_within_callers import KINDS

CRASH = LeaseEnd(RescueReason.CRASHED)
CHOSEN = ["sqlite3", "aiosqlite", "SQLAlchemy Session", "SQLAlchemy AsyncSession", "Django"]
"""One of each kind of block; ``any_kind`` is one of all kinds."""

Kind = Callable[[], Caller]


@pytest.fixture
def part(tmp_path: Path) -> OnFile:
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    return OnFile(file)


@pytest.fixture(params=KINDS)
def any_kind(request: pytest.FixtureRequest, part: OnFile) -> Kind:
    return lambda: KINDS[request.param](part.path)


@pytest.fixture(params=CHOSEN)
def kind(request: pytest.FixtureRequest, part: OnFile) -> Kind:
    return lambda: KINDS[request.param](part.path)


@pytest.fixture(params=CHOSEN)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return lambda: KINDS[request.param](tmp_path / "elsewhere.db")


@pytest.fixture
def orders(part: OnFile) -> Callable[[], int]:
    """Return a function that counts the orders which other connections see."""

    def count() -> int:
        with closing(sqlite3.connect(part.path)) as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])

    return count


class TestOwnBlocksOnSqlite(OwnBlockStories):
    """Run every test on every kind of connection."""

    def test_s3_no_other_takes_the_job_while_the_block_is_open(
        self, part: OnFile, kind: Kind, orders: Callable[[], int]
    ) -> None:
        async def act(desk: Desk) -> None:
            active = await desk.at.running()

            def be_rescued(caller: Caller) -> None:
                with pytest.raises(StoreUnavailable):
                    desk.wait(desk.at.store.end_lease(active.lease, CRASH))
                insert(caller)

            await desk.block(active, be_rescued)
            assert (orders(), await desk.at.state(active.id)) == (1, State.RUNNING)

        at_desk(part, kind, act)

    def test_a_block_that_was_open_for_too_long_is_rolled_back(
        self, part: OnFile, kind: Kind, orders: Callable[[], int]
    ) -> None:
        async def act(desk: Desk) -> None:
            active = await desk.at.running()

            def take_long(caller: Caller) -> None:
                insert(caller)
                desk.at.advance(6.0)

            with pytest.raises(HoldfastError, match="open for longer than 5 s and was rolled back"):
                await desk.block(active, take_long, idle=5.0)
            assert orders() == 0
            await desk.block(active, insert, idle=5.0)
            assert orders() == 1

        at_desk(part, kind, act)


def test_s3_a_job_that_was_taken_after_the_block_gave_up_its_lock_keeps_the_rows_out(
    part: OnFile, orders: Callable[[], int]
) -> None:
    async def act(desk: Desk) -> None:
        active = await desk.at.running()

        async def lose() -> None:
            await desk.at.store.end_lease(active.lease, CRASH)
            await desk.at.settle(rescued(active, CRASH))

        def give_up(caller: Caller) -> None:
            caller.execute("COMMIT")
            desk.wait(lose())
            caller.execute("BEGIN")
            caller.execute("SAVEPOINT holdfast_block")
            insert(caller)

        with pytest.raises(JobLost, match="no longer active"):
            await desk.block(active, give_up, idle=LONG)
        assert orders() == 0

    at_desk(part, lambda: KINDS["sqlite3"](part.path), act)

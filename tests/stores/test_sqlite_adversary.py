"""Attacks on the store's file, and the promises that hold under them."""

import asyncio
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.transactions import TransactionTurns
from holdfast.errors import HoldfastError
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part, Scene, play
from tests.engine.support import turns as turns_of_the_loop


class OnFile(Part):
    """Scenes on an application's own file."""

    def __init__(self, path: Path, *, use_apsw: bool) -> None:
        self.path, self.use_apsw = path, use_apsw

    def make_store(self, clock: FakeClock) -> SqliteStore:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=PROCESS, use_apsw=self.use_apsw)


@pytest.fixture(params=["sqlite3", "apsw"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> OnFile:
    return OnFile(tmp_path / "app.db", use_apsw=request.param == "apsw")


@pytest.mark.parametrize("goes_on", [True, False])
def test_nothing_lands_without_the_check_after_sqlite_itself_rolled_back(file: OnFile, *, goes_on: bool) -> None:
    with closing(driver.connect(file.path, use_apsw=file.use_apsw)) as connection:
        connection.execute("CREATE TABLE notes (place INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO notes VALUES (1)")

    async def use(at: Scene) -> None:
        active = await at.running()
        async with at.store.transaction(active.id, active.token, idle=60.0) as mine:
            mine.execute("INSERT INTO notes VALUES (2)")
            with suppress(Exception):
                mine.execute("INSERT OR ROLLBACK INTO notes VALUES (1)")
            if goes_on:
                mine.execute("INSERT INTO notes VALUES (2)")  # known already: a compiled copy of it would be used

    async def act(at: Scene) -> None:
        with pytest.raises(HoldfastError, match="rolled back by SQLite itself"):
            await use(at)
        with closing(driver.connect(file.path, use_apsw=file.use_apsw)) as connection:
            assert connection.execute("SELECT place FROM notes").fetchall() == [(1,)]

    play(file, act)


def test_of_many_transactions_of_a_process_one_at_a_time_tries_for_the_lock(file: OnFile) -> None:
    """Otherwise they would block each other, and the beats of all workers, for seconds."""
    trying = list[int]()

    async def act(at: Scene) -> None:
        active_jobs = [await at.running() for _ in range(8)]
        store = at.store
        assert isinstance(store, SqliteStore)
        turns = store._begin.keywords["turns"]

        async def one(number: int) -> None:
            async with store.transaction(active_jobs[number].id, active_jobs[number].token, idle=60.0):
                assert turns._lock.locked()
                trying.append(number)
                await turns_of_the_loop()
                assert trying[-1] == number

        await asyncio.gather(*map(one, range(8)))
        assert sorted(trying) == list(range(8))
        assert not turns._lock.locked()

    play(file, act)


def test_a_turn_ends_with_the_time_a_transaction_may_be_open(file: OnFile) -> None:
    async def both(at: Scene) -> None:
        one, two = await at.running(), await at.running()
        async with at.store.transaction(one.id, one.token, idle=0.01), at.store.transaction(two.id, two.token, idle=60.0):
            pass

    async def act(at: Scene) -> None:
        with pytest.raises(HoldfastError, match="open for longer"):
            await both(at)
        assert isinstance(at.store, SqliteStore)
        assert not at.store._begin.keywords["turns"]._lock.locked()

    play(file, act)


def test_a_forked_child_waits_for_no_turn_of_its_parent() -> None:
    turns = TransactionTurns()
    end = turns.take(FakeChance(), 60.0, lambda: False)
    turns.before_fork()
    turns.after_fork_in_child()
    own = turns.take(FakeChance(), 0.0, lambda: True)
    assert own is not end
    own()
    end()

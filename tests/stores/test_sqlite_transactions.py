"""A handler's rows land if and only if its worker still owns the job, and its transaction blocks no other for long."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._ports.store import Store
from holdfast.databases.sqlite import driver
from holdfast.errors import HoldfastError, JobLost, StoreUnavailable
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part, Scene, done, play, rescued, stale

LONG, SHORT = 60.0, 0.05


class OnFile(Part):
    """Scenes on an application's own file."""

    def __init__(self, path: Path, *, use_apsw: bool = False) -> None:
        self.path, self.use_apsw = path, use_apsw

    def make_store(self, clock: FakeClock) -> Store:
        return self.store_that_waits(clock, 0.05, FakeChance())

    def store_that_waits(self, clock: FakeClock, busy_limit: float, chance: FakeChance) -> SqliteStore:
        """Return a store that waits for the lock for that long."""
        return SqliteStore(self.path, clock=clock, chance=chance, process=PROCESS, use_apsw=self.use_apsw, busy_limit=busy_limit)


class ThirdWait(FakeChance):
    """Randomness that calls a function when a store waits for the third time."""

    def __init__(self, notify: Callable[[], object]) -> None:
        super().__init__()
        self.notify, self.waits = notify, 0

    def jitter(self) -> float:
        self.waits += 1
        if self.waits == 3:
            self.notify()
        return -1.0


def on_file(path: Path, *, use_apsw: bool) -> OnFile:
    file = OnFile(path, use_apsw=use_apsw)
    with closing(driver.connect(path, use_apsw=use_apsw)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    return file


@pytest.fixture(params=["sqlite3", "apsw"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> OnFile:
    return on_file(tmp_path / "app.db", use_apsw=request.param == "apsw")


@pytest.fixture
def plain(tmp_path: Path) -> OnFile:
    return on_file(tmp_path / "app.db", use_apsw=False)


def notes(file: OnFile) -> list[str]:
    with closing(driver.connect(file.path, use_apsw=file.use_apsw)) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes").fetchall()]


def write(connection: Any, text: str = "mine") -> None:
    connection.execute("INSERT INTO notes VALUES (?)", (text,))


def blocking(at: Scene, active: ActiveJob, use: Callable[[Any], None], *, idle: float = LONG) -> None:
    with at.store.blocking_transaction(active.id, active.token, idle=idle) as connection:
        use(connection)


async def waiting(at: Scene, active: ActiveJob, use: Callable[[Any], None], *, idle: float = LONG) -> None:
    async with at.store.transaction(active.id, active.token, idle=idle) as connection:
        use(connection)


async def blocking_in_thread(at: Scene, active: ActiveJob, use: Callable[[Any], None], *, idle: float = LONG) -> None:
    await asyncio.to_thread(blocking, at, active, use, idle=idle)


both = pytest.mark.parametrize("transact", [waiting, blocking_in_thread])


async def free(at: Scene) -> None:
    """Wait until a write of another store succeeds."""
    for _ in range(400):
        try:
            await at.enqueue(at.new(task="other"))
        except StoreUnavailable:
            continue
        return
    raise AssertionError("the file stayed locked")


@both
def test_rows_land_while_the_worker_owns_the_job(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        await transact(at, active, write)
        assert notes(file) == ["mine"]
        assert await at.settle(done(active))
        with pytest.raises(JobLost, match="no longer active under token"):
            await transact(at, active, write)
        assert notes(file) == ["mine"]

    play(file, act)


@both
def test_another_file_is_read_and_not_written_because_it_would_not_commit_together(file: OnFile, transact: Any) -> None:
    other = on_file(file.path.with_name("other.db"), use_apsw=file.use_apsw)

    async def act(at: Scene) -> None:
        active = await at.running()

        def use(connection: Any, *more: str) -> None:
            connection.execute("ATTACH ? AS other", (str(other.path),))
            write(connection)
            assert list(connection.execute("SELECT text FROM other.notes")) == []
            connection.execute("CREATE TEMP TABLE found (text)")
            connection.execute("INSERT INTO found VALUES ('a')")
            for statement in more:
                connection.execute(statement)

        for statement in ("INSERT INTO other.notes VALUES ('a')", "CREATE TABLE other.more (text)"):
            with pytest.raises(HoldfastError, match=r"own file only, and 'other' is another.*after the block"):
                await transact(at, active, lambda connection, statement=statement: use(connection, statement))
        assert (notes(file), notes(other)) == ([], [])
        await transact(at, active, use)
        assert notes(file) == ["mine"]

    play(file, act)


@both
def test_another_token_is_refused_before_the_lock_is_waited_for(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        with closing(driver.connect(file.path, use_apsw=file.use_apsw)) as other:
            other.execute("BEGIN IMMEDIATE")
            lost = structs.replace(active, token=stale(active.token))
            with pytest.raises(JobLost):
                await transact(at, lost, write)

    play(file, act)


@both
def test_a_rescue_between_entry_and_lock_keeps_the_rows_out(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        other = at.another()

        def lose(connection: Any) -> None:
            write(connection)
            # As a supervisor's rescue would that got the lock first.
            connection.execute("UPDATE holdfast_jobs SET claim_id = NULL, state = 'available'")

        with pytest.raises(JobLost):
            await transact(at, active, lose)
        assert notes(file) == []
        assert (await at.row(active.id)).token == active.token
        await other.end_lease(active.lease, LeaseEnd(RescueReason.CRASHED))
        await at.settle(rescued(active, LeaseEnd(RescueReason.CRASHED)))
        with pytest.raises(JobLost):
            await transact(at, active, write)

    play(file, act)


@both
def test_s7_jobs_enqueued_within_it_land_with_its_rows(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active, jobs = await at.running(), [at.new(), at.new(key="k")]

        def enqueue(connection: Any) -> None:
            write(connection)
            for job in jobs:
                assert at.store.enqueue_within(connection, at.chance.uuid4(), [job]) == EnqueueAnswer()

        def fail(connection: Any) -> None:
            enqueue(connection)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await transact(at, active, fail)
        assert (notes(file), [await at.store.get(job.id) for job in jobs]) == ([], [None, None])
        await transact(at, active, enqueue)
        assert (notes(file), [await at.state(job.id) for job in jobs]) == (["mine"], [State.AVAILABLE] * 2)

    play(file, act)


@both
def test_an_error_of_the_block_rolls_back_and_is_raised(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        def fail(connection: Any) -> None:
            write(connection)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await transact(at, active, fail)
        assert notes(file) == []
        await free(at)
        assert await at.state(active.id) is State.RUNNING

    play(file, act)


ENDS: dict[str, Callable[[Any], object]] = {
    "COMMIT": lambda connection: connection.execute("COMMIT"),
    "END": lambda connection: connection.execute("  end transaction"),
    "ROLLBACK": lambda connection: connection.execute("ROLLBACK"),
    "a script": lambda connection: connection.cursor().execute("COMMIT; BEGIN"),
}


@both
@pytest.mark.parametrize("end", ENDS)
def test_only_the_end_of_the_block_ends_the_transaction(file: OnFile, transact: Any, end: str) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        def commit(connection: Any) -> None:
            write(connection)
            ENDS[end](connection)

        with pytest.raises((HoldfastError, sqlite3.Error)) as failure:
            await transact(at, active, commit)
        if not (end == "a script" and isinstance(failure.value, sqlite3.Error)):  # sqlite3 takes one statement at a time
            assert isinstance(failure.value, HoldfastError)
            assert "leave out COMMIT" in str(failure.value)
        assert notes(file) == []

    play(file, act)


@pytest.mark.parametrize("end", ["commit", "rollback", "__exit__"])
def test_the_methods_of_sqlite3_do_not_end_the_transaction(plain: OnFile, end: str) -> None:

    async def act(at: Scene) -> None:
        active = await at.running()

        def finish(connection: Any) -> None:
            write(connection)
            getattr(connection, end)(*((None, None, None) if end == "__exit__" else ()))

        with pytest.raises(HoldfastError, match="leave out COMMIT"):
            blocking(at, active, finish)
        assert notes(plain) == []

    play(plain, act)


@both
def test_savepoints_are_the_users_own(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        def use(connection: Any) -> None:
            write(connection, "one")
            connection.execute("SAVEPOINT inner")
            write(connection, "two")
            connection.execute("ROLLBACK TO inner")
            connection.execute("RELEASE inner")

        await transact(at, active, use)
        assert notes(file) == ["one"]

    play(file, act)


@both
def test_a_block_that_stays_open_is_rolled_back_and_none_of_its_writes_land(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        is_free = threading.Event()

        def dawdle(connection: Any) -> None:
            write(connection, "early")
            cursor = connection.cursor()
            cursor.execute("SELECT 1 FROM holdfast_schema UNION ALL SELECT 2")  # half read
            cursor.fetchone()
            threading.Thread(target=lambda: (asyncio.run(free(at)), is_free.set())).start()
            assert is_free.wait(20.0)
            with pytest.raises(Exception, match=r"readonly|not authorized|AuthError"):
                connection.cursor().executemany("INSERT INTO notes VALUES (?)", [("late",), ("later",)])
            write(connection, "latest")

        with pytest.raises(HoldfastError, match=rf"open for longer than {SHORT} s and was rolled back"):
            await transact(at, active, dawdle, idle=SHORT)
        assert notes(file) == []

    play(file, act)


@both
def test_a_statement_that_takes_too_long_is_stopped(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO notes SELECT i FROM n WHERE i < 0"
        with pytest.raises(HoldfastError, match="open for longer than"):
            await transact(at, active, lambda connection: connection.execute(endless), idle=SHORT)
        assert notes(file) == []
        await free(at)

    play(file, act)


@both
def test_a_block_that_swallows_the_error_gets_it_again_at_its_end(file: OnFile, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        is_free = threading.Event()

        def dawdle(connection: Any) -> None:
            write(connection)
            threading.Thread(target=lambda: (asyncio.run(free(at)), is_free.set())).start()
            assert is_free.wait(20.0)

        with pytest.raises(HoldfastError, match="open for longer than"):
            await transact(at, active, dawdle, idle=SHORT)
        assert notes(file) == []

    play(file, act)


def test_the_loop_runs_on_while_the_lock_is_waited_for(plain: OnFile) -> None:

    async def act(at: Scene) -> None:
        one, two = await at.running(), await at.running()
        async with at.store.transaction(one.id, one.token, idle=LONG) as connection:
            write(connection, "one")
            second = asyncio.create_task(waiting(at, two, lambda connection: write(connection, "two")))
            with pytest.raises(StoreUnavailable, match=r"transaction: .*app\.db.*locked"):
                await second
        await waiting(at, two, lambda connection: write(connection, "two"))
        assert notes(plain) == ["one", "two"]

    play(plain, act)


def test_a_transaction_waits_for_a_file_that_is_locked_against_readers(plain: OnFile) -> None:
    """SQLite locks the file this way while it recovers the log after a process was killed."""

    async def act(at: Scene) -> None:
        active = await at.running()
        await at.store.close()
        with closing(sqlite3.connect(plain.path, isolation_level=None, check_same_thread=False)) as exclusive:
            exclusive.execute("PRAGMA locking_mode = EXCLUSIVE")
            exclusive.execute("INSERT INTO notes VALUES ('alone')")
            patient = plain.store_that_waits(at.clock, 3600.0, ThirdWait(exclusive.close))
            async with patient.transaction(active.id, active.token, idle=LONG) as connection:
                write(connection, "after")
        assert notes(plain) == ["alone", "after"]

    play(plain, act)


def test_a_cancelled_waiter_waits_no_longer(plain: OnFile) -> None:
    async def act(at: Scene) -> None:
        one, two = await at.running(), await at.running()
        loop, is_waiting = asyncio.get_running_loop(), asyncio.Event()
        patient = plain.store_that_waits(at.clock, 3600.0, ThirdWait(lambda: loop.call_soon_threadsafe(is_waiting.set)))

        async def second() -> None:
            async with patient.transaction(two.id, two.token, idle=LONG) as connection:
                write(connection)

        async with at.store.transaction(one.id, one.token, idle=LONG):
            task = asyncio.create_task(second())
            await is_waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await free(at)
        assert notes(plain) == []

    play(plain, act)


def test_a_cancelled_block_leaves_nothing_open(plain: OnFile) -> None:
    async def act(at: Scene) -> None:
        two = await at.running()
        entered = asyncio.Event()

        async def stay() -> None:
            async with at.store.transaction(two.id, two.token, idle=LONG) as connection:
                write(connection)
                entered.set()
                await asyncio.Event().wait()

        third = asyncio.create_task(stay())
        await entered.wait()
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        await free(at)
        assert notes(plain) == []

    play(plain, act)


def test_a_connection_that_was_closed_inside_the_block_is_an_error(plain: OnFile) -> None:

    async def act(at: Scene) -> None:
        active = await at.running()
        with pytest.raises(HoldfastError, match="leave its connection open"):
            await waiting(at, active, lambda connection: connection.close())
        await free(at)

    play(plain, act)


def test_rows_of_a_transaction_survive_a_power_failure(file: OnFile) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        found = []
        await waiting(at, active, lambda connection: found.extend(connection.execute("PRAGMA synchronous").fetchall()))
        assert found == [(2,)]

    play(file, act)


def test_a_deleted_file_is_not_created_again(plain: OnFile) -> None:

    async def act(at: Scene) -> None:
        active = await at.running()
        await at.store.close()
        plain.path.unlink()
        with pytest.raises(StoreUnavailable, match="there is no file"):
            await waiting(at, active, write)
        assert not plain.path.exists()

    play(plain, act)

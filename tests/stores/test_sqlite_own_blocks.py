"""A handler's rows on its own connection to the file, by every library for SQLite."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import App, Job, SyncJob, Unsupported
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast.errors import HoldfastError, JobLost, StoreUnavailable
from holdfast.testing.contracts.scene import rescued
from tests.stores import callers
from tests.stores.callers import Caller
from tests.stores.own_block_cases import OwnBlockStories, OwnThread, in_own_thread, insert
from tests.stores.test_sqlite_transactions import LONG, OnFile
from tests.stores.test_sqlite_within_callers import KINDS

CRASH = LeaseEnd(RescueReason.CRASHED)
CHOSEN = ["sqlite3", "aiosqlite", "SQLAlchemy Session", "SQLAlchemy AsyncSession", "Django"]
"""One of each kind of block; the other kinds share their code with these."""

Kind = Callable[[], Caller]


@pytest.fixture
def part(tmp_path: Path) -> OnFile:
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    return OnFile(file)


@pytest.fixture(params=[name if name in CHOSEN else pytest.param(name, marks=pytest.mark.prove) for name in KINDS])
def any_kind(request: pytest.FixtureRequest, part: OnFile) -> Kind:
    return lambda: KINDS[request.param](part.path)


@pytest.fixture(params=CHOSEN)
def kind(request: pytest.FixtureRequest, part: OnFile) -> Kind:
    return lambda: KINDS[request.param](part.path)


@pytest.fixture(params=["sqlite3", "SQLAlchemy AsyncSession"])
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

    def test_s3_no_other_takes_the_job_while_the_block_is_open(self, part: OnFile, kind: Kind, orders: Callable[[], int]) -> None:
        async def act(own: OwnThread) -> None:
            active = await own.at.running()

            def be_rescued(caller: Caller) -> None:
                with pytest.raises(StoreUnavailable):
                    own.wait(own.at.store.end_lease(active.lease, CRASH))
                insert(caller)

            await own.block(active, be_rescued)
            assert (orders(), await own.at.state(active.id)) == (1, State.RUNNING)

        in_own_thread(part, kind, act)

    def test_a_block_that_was_open_for_too_long_is_rolled_back(self, part: OnFile, kind: Kind, orders: Callable[[], int]) -> None:
        async def act(own: OwnThread) -> None:
            active = await own.at.running()

            def take_long(caller: Caller) -> None:
                insert(caller)
                own.at.advance(6.0)

            with pytest.raises(HoldfastError, match="open for longer than 5 s and was rolled back"):
                await own.block(active, take_long, idle=5.0)
            assert orders() == 0
            await own.block(active, insert, idle=5.0)
            assert orders() == 1

        in_own_thread(part, kind, act)


def test_s3_a_job_that_was_taken_after_the_block_gave_up_its_lock_keeps_the_rows_out(
    part: OnFile, orders: Callable[[], int]
) -> None:
    async def act(own: OwnThread) -> None:
        active = await own.at.running()

        async def lose() -> None:
            await own.at.store.end_lease(active.lease, CRASH)
            await own.at.settle(rescued(active, CRASH))

        def give_up(caller: Caller) -> None:
            caller.execute("COMMIT")
            own.wait(lose())
            caller.execute("BEGIN")
            caller.execute("SAVEPOINT holdfast_block")
            insert(caller)

        with pytest.raises(JobLost, match="no longer active"):
            await own.block(active, give_up, idle=LONG)
        assert orders() == 0

    in_own_thread(part, lambda: KINDS["sqlite3"](part.path), act)


class Apsw(callers.Sqlite3):
    """A connection of apsw, whose `commit()` is a statement."""

    def open(self) -> None:
        self.within = apsw.Connection(self.where)

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")


def test_a_connection_of_apsw_is_used_where_the_store_uses_apsw(part: OnFile) -> None:
    async def act(own: OwnThread) -> None:
        active = await own.at.running()
        await own.block(active, insert)
        with closing(apsw.Connection(str(part.path))) as reader:
            assert reader.execute("SELECT count(*) FROM orders").fetchall() == [(1,)]
        with (
            closing(sqlite3.connect(":memory:")) as other,
            pytest.raises(Unsupported, match="of sqlite3, and the sqlite store uses apsw"),
        ):
            own.at.store.transaction_within(other, active.id, active.token, idle=LONG)  # type: ignore[attr-defined]

    in_own_thread(OnFile(part.path, use_apsw=True), lambda: Apsw(str(part.path)), act)


def test_handlers_write_and_enqueue_by_their_own_sessions_in_loops_and_in_threads(
    part: OnFile, orders: Callable[[], int]
) -> None:
    app, engine = App(f"sqlite:///{part.path}"), sqlalchemy.create_engine(f"sqlite:///{part.path}")
    awaited = create_async_engine(f"sqlite+aiosqlite:///{part.path}")
    order = sqlalchemy.text("INSERT INTO orders VALUES (1)")

    @app.task
    def pack(path: str) -> None: ...

    @app.task
    async def ship(job: Job) -> None:
        async with AsyncSession(awaited) as session, job.transaction(within=session) as given:
            assert given is session
            await session.execute(order)
            await pack.options(within=session).aenqueue("a")
        await awaited.dispose()

    @app.task
    async def ship_without_awaiting(job: Job) -> None:
        with closing(sqlite3.connect(part.path)) as connection:
            async with job.transaction(within=connection):
                connection.execute("INSERT INTO orders VALUES (1)")

    @app.task(max_attempts=1)
    def invoice(job: SyncJob, fails: bool) -> None:
        with Session(engine) as session, job.transaction(within=session):
            session.execute(order)
            pack.options(within=session).enqueue("b")
            if fails:
                raise ValueError("no")

    handles = [ship.enqueue(), ship_without_awaiting.enqueue(), invoice.enqueue(False)]
    failing = invoice.enqueue(True)
    app.run_due()
    assert [each.get().state for each in handles] == ["completed"] * 3
    assert failing.get().state == "failed"
    assert orders() == 3
    assert [job.payload for job in app.jobs.list() if job.task == "pack"] == [{"path": "b"}, {"path": "a"}]
    engine.dispose()
    app.close()

"""A handler's rows land if and only if its worker still owns the job, and its transaction blocks no other for long."""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from msgspec import structs

import holdfast.databases.postgres
from holdfast import App
from holdfast._core.job import ActiveJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import ProgressUpdate
from holdfast._ports.store import Store
from holdfast.databases.postgres.transactions import CONNECTIONS
from holdfast.errors import HoldfastError, JobLost, MissingExtra, StoreUnavailable
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Part, Scene, done, play, rescued, stale
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_databases import KINDS, Home, Homes
from tests.stores.postgres_faulty_databases import store_at

LONG, SHORT = 60.0, 0.2
CRASH = LeaseEnd(RescueReason.CRASHED)

Send = Callable[[str], Awaitable[Any]]
Use = Callable[[Send], Awaitable[None]]


class Notes(Part):
    """Scenes on an application's own database, with real time."""

    def __init__(self, home: Home) -> None:
        self.home, self.dsn = home, home.through or home.dsn

    def make_store(self, clock: FakeClock) -> Store:
        return store_at(self.dsn, pooler="transaction" if self.home.through else None)

    def written(self) -> list[str]:
        """Return the notes that other sessions see."""
        return [text for (text,) in self.home.sql("SELECT text FROM fake.notes ORDER BY text")]

    def open_ones(self) -> int:
        """Count the connections of handlers; behind a pooler, which keeps connections open, only those in a transaction."""
        question = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdfast transaction%'"
        ((count,),) = self.home.sql(f"{question} AND xact_start IS NOT NULL" if self.home.through else question)
        return int(count)

    def asleep(self) -> bool:
        """Return whether a handler's statement sleeps on the server."""
        return bool(self.home.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))


@pytest.fixture(
    params=[
        pytest.param(kind, marks=[pytest.mark.prove] * (kind == "serializable"))
        for kind in ("18", "serializable", "pooled")
        if KINDS[kind]
    ]
)
def notes(request: pytest.FixtureRequest, homes: Homes) -> Iterator[Notes]:
    """Return scenes on each kind of home: plain, with SERIALIZABLE as default, and behind PgBouncer if it is installed."""
    yield from on(homes.empty(request.param))


@pytest.fixture
def plain(home: Home) -> Iterator[Notes]:
    yield from on(home)


def on(home: Home) -> Iterator[Notes]:
    home.sql("CREATE TABLE fake.notes (text text)")
    yield Notes(home)
    home.sql("DROP TABLE fake.notes")


async def awaiting(at: Scene, active: ActiveJob, use: Use, *, idle: float = LONG) -> None:
    """Run a block on asyncpg's connection."""
    async with at.store.transaction(active.id, active.token, idle=idle) as connection:
        assert isinstance(connection, asyncpg.Connection)
        await use(connection.execute)


async def blocking(at: Scene, active: ActiveJob, use: Use, *, idle: float = LONG) -> None:
    """Run a block on psycopg's connection in a thread, driven from the event loop."""
    loop = asyncio.get_running_loop()

    def transact() -> None:
        with at.store.blocking_transaction(active.id, active.token, idle=idle) as connection:
            assert isinstance(connection, psycopg.Connection)

            async def send(statement: str) -> None:
                await asyncio.to_thread(connection.execute, statement)

            asyncio.run_coroutine_threadsafe(use(send), loop).result()  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as thread:  # a separate pool: `send` needs a thread too
        await loop.run_in_executor(thread, transact)


both = pytest.mark.parametrize("transact", [awaiting, blocking])


def writing(text: str = "mine") -> Use:
    """Return a block that writes a note."""

    async def write(send: Send) -> None:
        await send(f"INSERT INTO notes VALUES ('{text}')")

    return write


@both
def test_rows_land_while_the_worker_owns_the_job(notes: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        await transact(at, active, writing())
        assert notes.written() == ["mine"]
        assert await at.settle(done(active))
        with pytest.raises(JobLost, match="no longer active under token"):
            await transact(at, active, writing())
        assert notes.written() == ["mine"]
        await eventually(lambda: notes.open_ones() == 0, within=STALL)

    play(notes, act)


@both
def test_another_token_is_refused_before_the_block_begins(notes: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def never(_: Send) -> None:
            pytest.fail("the block has begun")

        for token in (stale(active.token), structs.replace(active.token, claim=at.chance.uuid4())):
            with pytest.raises(JobLost):
                await transact(at, structs.replace(active, token=token), never)

    play(notes, act)


@both
def test_a_rescue_inside_the_block_does_not_wait_and_keeps_the_rows_out(notes: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def lose(send: Send) -> None:
            await writing()(send)
            await at.store.end_lease(active.lease, CRASH)
            await at.settle(rescued(active, CRASH))

        with pytest.raises(JobLost):
            await transact(at, active, lose)
        assert (notes.written(), await at.state(active.id)) == ([], State.AVAILABLE)

    play(notes, act)


@both
def test_progress_reports_do_not_disturb_the_transaction_of_their_job(notes: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def report(send: Send) -> None:
            await writing()(send)
            assert await at.store.report([ProgressUpdate(job=active.id, token=active.token, fraction=0.5)]) == frozenset()

        await transact(at, active, report)
        assert (notes.written(), (await at.row(active.id)).fraction) == (["mine"], 0.5)

    play(notes, act)


def test_the_last_lock_of_a_transaction_lets_reports_and_beats_through(plain: Notes) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        with closing(psycopg.connect(plain.dsn)) as other:
            text = at.store._sql("transaction_ends")  # type: ignore[attr-defined]
            found = psycopg.RawCursor(other).execute(text, [active.id, active.token.claim, active.token.number]).fetchone()
            assert found is not None
            assert found[0] is True
            async with asyncio.timeout(STALL):
                assert await at.store.report([ProgressUpdate(job=active.id, token=active.token, checkpoint=b"1")]) == frozenset()
                assert (await at.store.beat([active.lease])).alive == {active.lease}

    play(plain, act)


@both
def test_an_error_of_the_block_rolls_back_and_is_raised(plain: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def fail(send: Send) -> None:
            await writing()(send)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await transact(at, active, fail)
        assert (plain.written(), await at.state(active.id)) == ([], State.RUNNING)
        await eventually(lambda: plain.open_ones() == 0, within=STALL)

    play(plain, act)


@both
def test_a_statement_that_fails_is_the_drivers_own_error(plain: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def fail(send: Send, *, is_swallowed: bool) -> None:
            await writing()(send)
            try:
                await send("SELECT 1 / 0")
            except (asyncpg.PostgresError, psycopg.Error):
                if not is_swallowed:
                    raise

        with pytest.raises((asyncpg.DivisionByZeroError, psycopg.errors.DivisionByZero)):
            await transact(at, active, lambda send: fail(send, is_swallowed=False))
        with pytest.raises((asyncpg.InFailedSQLTransactionError, psycopg.errors.InFailedSqlTransaction)):
            await transact(at, active, lambda send: fail(send, is_swallowed=True))
        assert plain.written() == []

    play(plain, act)


@both
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN"])
def test_a_block_that_ends_its_transaction_itself_gets_an_error(plain: Notes, transact: Any, end: str) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def finish(send: Send) -> None:
            await writing("first")(send)
            await send(end)
            await writing("second")(send)

        with pytest.raises(HoldfastError, match="leave out COMMIT"):
            await transact(at, active, finish)
        assert "second" not in plain.written() or (transact is awaiting and ";" not in end)  # asyncpg's own autocommit

    play(plain, act)


def test_the_methods_of_psycopg_that_end_it_are_refused(plain: Notes) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        for end in ("commit", "rollback"):

            def transact(end: str = end) -> None:
                with at.store.blocking_transaction(active.id, active.token, idle=LONG) as connection:
                    connection.execute("INSERT INTO notes VALUES ('mine')")
                    getattr(connection, end)()

            with pytest.raises(psycopg.ProgrammingError, match="forbidden within a Transaction context"):
                await asyncio.to_thread(transact)
        assert plain.written() == []

    play(plain, act)


def test_blocks_within_the_block_are_savepoints(plain: Notes) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        async with at.store.transaction(active.id, active.token, idle=LONG) as connection:
            await connection.execute("INSERT INTO notes VALUES ('one')")
            inner = connection.transaction()
            await inner.start()
            await connection.execute("INSERT INTO notes VALUES ('two')")
            await inner.rollback()

        def transact() -> None:
            with at.store.blocking_transaction(active.id, active.token, idle=LONG) as connection:
                connection.execute("INSERT INTO notes VALUES ('three')")
                with connection.transaction(force_rollback=True):
                    connection.execute("INSERT INTO notes VALUES ('four')")

        await asyncio.to_thread(transact)
        assert plain.written() == ["one", "three"]

    play(plain, act)


@both
@pytest.mark.parametrize("is_swallowed", [False, True])
def test_a_transaction_that_is_idle_for_too_long_is_rolled_back_by_the_server(
    notes: Notes, transact: Any, is_swallowed: bool
) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def dawdle(send: Send) -> None:
            await send("INSERT INTO notes VALUES ('mine')")
            await eventually(lambda: notes.open_ones() == 0, within=STALL)
            try:
                await send("INSERT INTO notes VALUES ('late')")
            except (asyncpg.PostgresError, asyncpg.InterfaceError, psycopg.Error):
                if not is_swallowed:
                    raise

        with pytest.raises(HoldfastError, match=rf"idle for longer than {SHORT} s and was rolled back"):
            await transact(at, active, dawdle, idle=SHORT)
        assert notes.written() == []
        assert await at.state(active.id) is State.RUNNING

    play(notes, act)


@both
def test_a_transaction_that_works_for_long_is_not_cut_off_and_does_not_count_as_idle(plain: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def work(send: Send, *, then: str) -> None:
            await writing()(send)
            await send("SELECT pg_sleep(2.1)")
            await send(then)

        await transact(at, active, lambda send: work(send, then="SELECT 1"), idle=2.0)
        assert plain.written() == ["mine"]
        with pytest.raises(StoreUnavailable, match="closed before its block ended"):
            await transact(at, active, lambda send: work(send, then="SELECT pg_terminate_backend(pg_backend_pid())"), idle=2.0)
        assert plain.written() == ["mine"]

    play(plain, act)


@both
def test_a_connection_that_is_lost_inside_keeps_nothing_and_one_lost_at_the_commit_is_in_doubt(
    plain: Notes, transact: Any
) -> None:
    plain.home.sql(
        "CREATE FUNCTION fake.die() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
    )
    plain.home.sql(
        "CREATE CONSTRAINT TRIGGER deadly AFTER INSERT ON fake.notes DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (new.text = 'deadly') EXECUTE FUNCTION fake.die()"
    )

    async def act(at: Scene) -> None:
        active = await at.running()

        async def die(send: Send) -> None:
            await writing()(send)
            await send("SELECT pg_terminate_backend(pg_backend_pid())")

        with pytest.raises(StoreUnavailable, match="nothing of it is kept"):
            await transact(at, active, die)
        with pytest.raises(StoreUnavailable, match="lost while it was committed, so whether it was is unknown"):
            await transact(at, active, writing("deadly"))
        assert plain.written() == []

    play(plain, act)
    plain.home.sql("DROP FUNCTION fake.die CASCADE")


@both
def test_a_failure_at_the_commit_is_the_drivers_own_error(plain: Notes, transact: Any) -> None:
    plain.home.sql(
        "ALTER TABLE fake.notes ADD UNIQUE (text) DEFERRABLE INITIALLY DEFERRED; INSERT INTO fake.notes VALUES ('mine')"
    )

    async def act(at: Scene) -> None:
        active = await at.running()
        with pytest.raises((asyncpg.UniqueViolationError, psycopg.errors.UniqueViolation)):
            await transact(at, active, writing())
        assert plain.written() == ["mine"]

    play(plain, act)


def test_a_cancelled_block_leaves_nothing_open(plain: Notes) -> None:
    async def act(at: Scene) -> None:
        for statement in ("INSERT INTO notes VALUES ('mine')", "SELECT pg_sleep(60)"):
            active = await at.running()
            entered = asyncio.Event()

            async def stay(active: ActiveJob = active, statement: str = statement, entered: asyncio.Event = entered) -> None:
                async with at.store.transaction(active.id, active.token, idle=LONG) as connection:
                    await connection.execute("INSERT INTO notes VALUES ('mine')")
                    entered.set()
                    await connection.execute(statement)
                    await asyncio.Event().wait()

            task = asyncio.create_task(stay())
            await entered.wait()
            if "sleep" in statement:  # PostgreSQL ignores a request to cancel a statement that it has not begun
                await eventually(plain.asleep, within=STALL)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await eventually(lambda: plain.open_ones() == 0, within=STALL)
        assert plain.written() == []

    play(plain, act)


@pytest.mark.parametrize("fails", [False, True])
def test_a_connection_that_cannot_be_closed_does_not_change_the_outcome_of_its_block(
    plain: Notes, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stall(link: asyncpg.Connection, *, timeout: float) -> None:
        link.terminate()
        raise TimeoutError

    async def act(at: Scene) -> None:
        active = await at.running()
        with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError) if fails else nullcontext():
            patched.setattr(asyncpg.Connection, "close", stall)
            async with at.store.transaction(active.id, active.token, idle=LONG) as connection:
                await connection.execute("INSERT INTO notes VALUES ('mine')")
                assert 1 / (not fails)
        assert plain.written() == ["mine"] * (not fails)

    play(plain, act)


@both
def test_transactions_use_few_connections(plain: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active_jobs = [await at.running() for _ in range(2 * CONNECTIONS)]
        most = 0

        async def look(send: Send) -> None:
            nonlocal most
            await writing()(send)
            most = max(most, await asyncio.to_thread(plain.open_ones))

        async with asyncio.TaskGroup() as tasks:
            for active in active_jobs:
                tasks.create_task(transact(at, active, look))
        assert 1 < most <= CONNECTIONS
        assert len(plain.written()) == len(active_jobs)

    play(plain, act)


@pytest.mark.parametrize("fails", [False, True])
def test_s7_jobs_can_be_enqueued_within_a_handlers_transaction(plain: Notes, fails: bool) -> None:
    app = App(plain.dsn)

    @app.task
    def child(text: str) -> None: ...

    async def act(at: Scene) -> None:
        for kind in ("asyncpg", "psycopg"):
            active = await at.running()

            def transact(active: ActiveJob = active) -> None:
                with at.store.blocking_transaction(active.id, active.token, idle=LONG) as connection:
                    child.options(within=connection).enqueue("a")
                    assert not fails

            try:
                if kind == "psycopg":
                    await asyncio.to_thread(transact)
                else:
                    async with at.store.transaction(active.id, active.token, idle=LONG) as connection:
                        await child.options(within=connection).aenqueue("a")
                        assert not fails
            except AssertionError:
                assert fails

    play(plain, act)
    assert app.jobs.counts()["available"] == (0 if fails else 2)
    app.close()


@both
def test_committed_rows_are_durable(plain: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()

        async def look(send: Send) -> None:
            await send("INSERT INTO notes SELECT current_setting('synchronous_commit')")

        for given, durable in (("off", "on"), ("remote_apply", "remote_apply")):
            plain.home.sql(f"ALTER DATABASE {plain.home._owner.info.dbname} SET synchronous_commit = {given}")
            await transact(at, active, look)
            assert plain.written() == [durable]
            plain.home.sql("DELETE FROM fake.notes")
        plain.home.sql(f"ALTER DATABASE {plain.home._owner.info.dbname} RESET synchronous_commit")

    play(plain, act)


@both
def test_a_server_that_is_not_running_is_reported(plain: Notes, transact: Any, free_port: int) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        plain.dsn = f"postgresql://127.0.0.1:{free_port}/nowhere?connect_timeout=2"
        at.store = at.another()
        with pytest.raises(StoreUnavailable, match=r"postgresql://127\.0\.0\.1:\d+/nowhere.* cannot be reached"):
            await transact(at, active, writing())

    play(plain, act)


@pytest.fixture
def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        return int(plug.getsockname()[1])


@both
def test_transactions_use_the_settings_of_the_url_and_of_the_store(plain: Notes, transact: Any) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        settings = {"holdfast_test.words": "a b\\c' -c"}
        at.store = store_at(f"{plain.dsn}?statement_timeout=7s&options=-c%20lock_timeout%3D3s", server_settings=settings)

        async def look(send: Send) -> None:
            for name in ("statement_timeout", "lock_timeout", "holdfast_test.words"):
                await send(f"INSERT INTO notes VALUES (current_setting('{name}'))")

        await transact(at, active, look)
        assert plain.written() == ["3s", "7s", "a b\\c' -c"]
        await at.store.close()

    play(plain, act)


def test_a_missing_psycopg_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "holdfast.databases.postgres.transactions_psycopg", raising=False)
    monkeypatch.delattr(holdfast.databases.postgres, "transactions_psycopg", raising=False)
    blocking = store_at("postgresql:///nowhere").blocking_transaction(UUID(int=1), Token(UUID(int=2), 3), idle=LONG)
    with pytest.raises(MissingExtra, match=r"psycopg is not installed: pip install asyncpg 'psycopg\[binary\]'"):
        blocking.__enter__()

"""A handler's rows on its own connection, by every library for PostgreSQL, and the statements by which its job is checked."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections
from sqlalchemy import event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from holdfast import Fail, MissingExtra, Unsupported
from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import ProgressUpdate
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast.errors import HoldfastError, JobLost
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Part, rescued
from tests.e2e.waiting import STALL, eventually, until
from tests.stores import callers
from tests.stores.callers import Caller
from tests.stores.own_block_cases import OwnBlockStories, OwnThread, in_own_thread, insert, never, works
from tests.stores.postgres_databases import Home, Homes
from tests.stores.postgres_faulty_databases import store_at
from tests.stores.test_postgres_within import CHOSEN, KINDS

CRASH = LeaseEnd(RescueReason.CRASHED)
few = pytest.mark.parametrize(
    "kind_name",
    [
        pytest.param(name, marks=pytest.mark.prove) if name in ("psycopg async", "SQLAlchemy AsyncSession, asyncpg") else name
        for name in CHOSEN
    ],
)

Kind = Callable[[], Caller]


class Shop(Part):
    """Scenes on an application's own database, with real time."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def make_store(self, clock: FakeClock) -> Store:
        return store_at(self.home.dsn)


@pytest.fixture
def part(home: Home) -> Iterator[Shop]:
    home.sql("CREATE TABLE fake.orders (id INTEGER)")  # first on every session's path there
    yield Shop(home)
    home.sql("DROP TABLE fake.orders")


@pytest.fixture(params=[name if name in CHOSEN else pytest.param(name, marks=pytest.mark.prove) for name in KINDS])
def any_kind(request: pytest.FixtureRequest, part: Shop) -> Kind:
    return lambda: KINDS[request.param](part.home.dsn)


@pytest.fixture(params=CHOSEN)
def kind_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kind(kind_name: str, part: Shop) -> Kind:
    return lambda: KINDS[kind_name](part.home.dsn)


@pytest.fixture(params=["asyncpg", "Django"])
def elsewhere(request: pytest.FixtureRequest, postgres_dsn: str) -> Kind:
    return lambda: KINDS[request.param](postgres_dsn)


@pytest.fixture
def orders(part: Shop) -> Callable[[], int]:
    """Return a function that counts the orders which other sessions see."""

    def count() -> int:
        ((found,),) = part.home.sql("SELECT count(*) FROM fake.orders")
        return int(found)

    return count


async def lose(own: OwnThread, active: ActiveJob) -> None:
    """Have another worker take the job."""
    await own.at.store.end_lease(active.lease, CRASH)
    await own.at.settle(rescued(active, CRASH))


class TestOwnBlocksOnPostgres(OwnBlockStories):
    """Run every test on every kind of connection."""

    def test_s3_a_rescue_inside_the_block_does_not_wait_and_keeps_the_rows_out(
        self, part: Shop, kind: Kind, orders: Callable[[], int]
    ) -> None:
        async def act(own: OwnThread) -> None:
            active = await own.at.running()

            def be_rescued(caller: Caller) -> None:
                insert(caller)
                own.wait(lose(own, active))

            with pytest.raises(JobLost):
                await own.block(active, be_rescued)
            assert (orders(), await own.at.state(active.id)) == (0, State.AVAILABLE)
            await own.act(works)
            assert orders() == 1

        in_own_thread(part, kind, act)

    @few
    def test_s3_the_job_is_locked_from_the_last_statement_until_the_commit_and_reports_go_on(
        self, part: Shop, kind: Kind, orders: Callable[[], int]
    ) -> None:
        part.home.sql(
            "CREATE FUNCTION fake.pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$"
        )
        part.home.sql(
            "CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON fake.orders DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION fake.pause()"
        )

        def at_commit() -> bool:
            waiting = "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'"
            return [query.rstrip(";").upper() for (query,) in part.home.sql(waiting)] == ["COMMIT"]

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            with psycopg.connect(part.home.dsn) as other:
                other.execute("SELECT pg_advisory_xact_lock(7)")
                committing = asyncio.ensure_future(own.block(active, insert))
                await eventually(at_commit, within=STALL)
                with psycopg.connect(part.home.dsn) as rescuer, pytest.raises(psycopg.errors.LockNotAvailable):
                    rescuer.execute("SELECT FROM holdfast.active WHERE id = %s FOR UPDATE NOWAIT", [active.id])
                update = ProgressUpdate(job=active.id, token=active.token, fraction=0.5)
                assert await own.at.store.report([update]) == frozenset()
            await committing
            assert orders() == 1

        try:
            in_own_thread(part, kind, act)
        finally:
            part.home.sql("DROP FUNCTION fake.pause() CASCADE")

    @few
    def test_a_commit_that_the_server_refuses_keeps_nothing_and_the_connection_stays_usable(
        self, part: Shop, kind: Kind, orders: Callable[[], int]
    ) -> None:
        def twice(caller: Caller) -> None:
            insert(caller)
            insert(caller)

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            with pytest.raises(Exception, match="duplicate key"):
                await own.block(active, twice)
            assert orders() == 0
            await own.block(active, insert)
            assert orders() == 1

        part.home.sql("ALTER TABLE fake.orders ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
        in_own_thread(part, kind, act)

    @few
    def test_the_block_has_the_idle_limit_and_is_durable_and_the_session_keeps_neither(self, part: Shop, kind: Kind) -> None:
        asks = (
            "INSERT INTO orders SELECT 1000 * extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) "
            "+ CASE current_setting('synchronous_commit') WHEN 'on' THEN 1 ELSE 0 END"
        )

        def before(caller: Caller) -> None:
            caller.begin()
            caller.execute("SET synchronous_commit = off")
            caller.commit()

        def after(caller: Caller) -> None:
            caller.begin()
            caller.execute(asks)
            caller.commit()

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            await own.act(before)
            await own.block(active, lambda caller: caller.execute(asks), idle=61.0)
            assert part.home.sql("DELETE FROM fake.orders RETURNING id") == [(61_001,)]
            await own.act(after)
            assert part.home.sql("SELECT id FROM fake.orders") == [(0,)]

        in_own_thread(part, kind, act)

    @few
    def test_a_block_that_was_idle_for_too_long_is_rolled_back_by_the_server_and_the_error_explains_it(
        self, part: Shop, kind: Kind, orders: Callable[[], int]
    ) -> None:
        def ended() -> bool:
            return not part.home.sql("SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")

        def dawdle(caller: Caller) -> None:
            insert(caller)
            until(ended, within=STALL)
            insert(caller)

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            with pytest.raises(HoldfastError, match=r"was idle for longer than 0\.2 s and was rolled back"):
                await own.block(active, dawdle, idle=0.2)
            assert orders() == 0

        in_own_thread(part, kind, act)

    @few
    def test_an_error_of_the_users_code_is_passed_on_although_the_connection_was_lost(
        self, part: Shop, kind: Kind, orders: Callable[[], int]
    ) -> None:
        def use(caller: Caller) -> None:
            insert(caller)
            with suppress(Exception):
                caller.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            raise Fail("no such order")

        async def act(own: OwnThread) -> None:
            with pytest.raises(Fail, match="no such order"):
                await own.block(await own.at.running(), use)
            assert orders() == 0

        in_own_thread(part, kind, act)

    @pytest.mark.parametrize("kind_name", ["psycopg async", "Django"])
    def test_another_isolation_level_is_refused(self, homes: Homes, kind_name: str) -> None:
        home = homes.empty("serializable")

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            for _ in range(2):
                with pytest.raises(
                    Unsupported, match=r"the transaction is SERIALIZABLE, .* READ COMMITTED, or leave out within="
                ):
                    await own.block(active, never)

        in_own_thread(Shop(home), lambda: KINDS[kind_name](home.dsn), act)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def added(caller: Caller) -> None:
    caller.within.add(Order(id=7))


@pytest.mark.parametrize("kind_name", ["SQLAlchemy Session, psycopg", "SQLAlchemy AsyncSession, asyncpg"])
def test_s3_a_session_is_flushed_before_the_last_check_which_is_the_last_statement(
    part: Shop, kind_name: str, orders: Callable[[], int]
) -> None:
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    async def act(own: OwnThread) -> None:
        active = await own.at.running()
        engine = own.caller.engine  # type: ignore[attr-defined]
        event.listen(getattr(engine, "sync_engine", engine), "before_cursor_execute", note)
        await own.block(active, added)
        assert orders() == 1
        assert ["INSERT" in each for each in sent[-2:]] == [True, False]
        assert "FOR KEY SHARE" in sent[-1]

    in_own_thread(part, lambda: KINDS[kind_name](part.home.dsn), act)


def test_rows_that_a_session_would_write_by_a_second_connection_are_refused(part: Shop, orders: Callable[[], int]) -> None:
    url = part.home.dsn.replace("postgresql://", "postgresql+psycopg://", 1)
    other = sqlalchemy.create_engine(url)

    class TwoBinds(callers.AlchemySession):
        def session(self) -> Any:
            return Session(self.engine, binds={Order: other})

    async def act(own: OwnThread) -> None:
        active = await own.at.running()
        for use in (added, lambda caller: (insert(caller), added(caller), caller.within.flush())):
            with pytest.raises(Unsupported, match="second connection, whose commit would be another one"):
                await own.block(active, use)
            assert orders() == 0
        await own.block(active, insert)
        assert orders() == 1

    in_own_thread(part, lambda: TwoBinds(url), act)
    other.dispose()


def test_a_session_in_the_open_transaction_of_a_connection_is_refused(part: Shop) -> None:
    url = part.home.dsn.replace("postgresql://", "postgresql+psycopg://", 1)

    class Joined(callers.AlchemySession):
        def session(self) -> Any:
            self.outer = self.engine.connect()
            self.outer.begin()
            return Session(self.outer)

        def close(self) -> None:
            self.outer.close()
            super().close()

    async def act(own: OwnThread) -> None:
        with pytest.raises(Unsupported, match="has an open transaction"):
            await own.block(await own.at.running(), never)

    in_own_thread(part, lambda: Joined(url), act)


def test_an_engine_in_autocommit_is_refused(part: Shop) -> None:
    url = part.home.dsn.replace("postgresql://", "postgresql+psycopg://", 1)

    class Autocommit(callers.AlchemyConnection):
        def session(self) -> Any:
            return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    async def act(own: OwnThread) -> None:
        with pytest.raises(Unsupported, match="commits each statement by itself"):
            await own.block(await own.at.running(), never)

    in_own_thread(part, lambda: Autocommit(url), act)


def test_djangos_connection_object_of_another_thread_and_django_without_autocommit_are_refused(part: Shop) -> None:
    async def act(own: OwnThread) -> None:
        active, django = await own.at.running(), own.caller
        await own.act(lambda caller: caller.within.set_autocommit(False))
        with pytest.raises(Unsupported, match="has an open transaction"):
            await own.block(active, never)
        await own.act(lambda caller: caller.within.set_autocommit(True))
        kept = django.within
        django.within = kept.copy()
        with pytest.raises(Unsupported, match=r"give connections\['callers'\]"):
            await own.block(active, never)
        django.within = kept

    in_own_thread(part, lambda: callers.Django(part.home.dsn), act)


def test_the_block_is_a_savepoint_in_the_transaction_of_djangos_test_case(part: Shop, orders: Callable[[], int]) -> None:
    async def act(own: OwnThread) -> None:
        active, caller = await own.at.running(), own.caller
        await own.act(lambda caller: caller.begin())
        with pytest.raises(Unsupported, match="has an open transaction"):
            await own.block(active, never)
        caller.within.atomic_blocks[-1]._from_testcase = True
        await own.block(active, insert)
        await own.act(lambda caller: caller.rollback())
        assert orders() == 0

    in_own_thread(part, lambda: callers.Django(part.home.dsn), act)


def test_django_refuses_to_block_an_event_loop(part: Shop) -> None:
    async def act(own: OwnThread) -> None:
        active, django = await own.at.running(), connections[callers.Django.alias]
        with pytest.raises(SynchronousOnlyOperation):
            async with store_defaults.transaction(own.at.store, active.id, active.token, idle=1.0, within=django):
                pytest.fail("the block has begun")

    in_own_thread(part, lambda: callers.Django(part.home.dsn), act)


def test_an_awaited_session_without_greenlet_names_the_package(part: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(own: OwnThread) -> None:
        active = await own.at.running()
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "greenlet", None)
            with pytest.raises(MissingExtra, match=r"greenlet is not installed: pip install 'sqlalchemy\[asyncio\]'"):
                await own.block(active, never)

    in_own_thread(part, lambda: KINDS["SQLAlchemy AsyncSession, asyncpg"](part.home.dsn), act)


def test_codecs_of_the_caller_are_not_asked(part: Shop, orders: Callable[[], int]) -> None:
    async def prepare(connection: Any) -> None:
        for name in ("uuid", "int8"):
            await connection.set_type_codec(name, encoder=str, decoder=lambda _: 1 / 0, schema="pg_catalog")

    async def act(own: OwnThread) -> None:
        active = await own.at.running()
        await own.act(lambda caller: caller.run(prepare(caller.within)))  # type: ignore[attr-defined]
        await own.block(active, insert)
        assert orders() == 1

    in_own_thread(part, lambda: callers.Asyncpg(part.home.dsn), act)


def test_a_value_that_is_not_a_connection_is_refused(part: Shop) -> None:
    async def act(own: OwnThread) -> None:
        active = await own.at.running()
        for wrong in (object(), "postgresql://"):
            with pytest.raises(Unsupported, match=r"needs a connection of asyncpg, .* for job\.transaction\(within=\)"):
                own.at.store.transaction_within(wrong, active.id, active.token, idle=1.0)  # type: ignore[attr-defined]

    in_own_thread(part, lambda: callers.Psycopg(part.home.dsn), act)

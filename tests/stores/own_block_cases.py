"""What `job.transaction(within=)` promises on any connection; the test classes of SQLite and PostgreSQL provide the connections."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

from holdfast import SchemaMissing, Unsupported
from holdfast._core.job import ActiveJob
from holdfast._engine import store_defaults
from holdfast.errors import HoldfastError, JobLost
from holdfast.testing.contracts.scene import Part, Scene, done, play, stale
from tests.stores.callers import Awaited, Caller

ORDER = "INSERT INTO orders VALUES (1)"
LONG = 60.0

Use = Callable[[Caller], object]


@contextmanager
def entered(caller: Caller, block: Any) -> Iterator[None]:
    """Enter a block in the caller's thread, or in the event loop of an awaited caller."""
    if not isinstance(caller, Awaited):
        with block as connection:
            assert connection is caller.within
            yield
        return
    assert caller.run(block.__aenter__()) is caller.within
    try:
        yield
    except BaseException as error:
        if not caller.run(block.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        caller.run(block.__aexit__(None, None, None))


class OwnThread:
    """A caller's connection in a thread, where blocks run while a scene plays in the event loop."""

    def __init__(self, at: Scene, thread: Executor, caller: Caller) -> None:
        self.at, self._thread, self.caller = at, thread, caller
        self._loop = asyncio.get_running_loop()

    async def block(self, active: ActiveJob, use: Use, *, idle: float = LONG) -> None:
        """Run a block on the connection."""

        def run() -> None:
            opened = self.at.store.transaction_within(self.caller.within, active.id, active.token, idle=idle)  # type: ignore[attr-defined]
            with entered(self.caller, opened):
                use(self.caller)

        await self.act(lambda _: run())

    async def act(self, use: Use) -> Any:
        """Call a function in the thread of the connection."""
        return await self._loop.run_in_executor(self._thread, use, self.caller)

    def wait(self, action: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a coroutine of the scene, from the thread."""
        return asyncio.run_coroutine_threadsafe(action, self._loop).result()


def in_own_thread(part: Part, kind: Callable[[], Caller], act: Callable[[OwnThread], Coroutine[Any, Any, None]]) -> None:
    """Play a scene with a caller whose connection is open, without a transaction."""

    async def play_it(at: Scene) -> None:
        with ThreadPoolExecutor(1) as thread:
            loop = asyncio.get_running_loop()
            caller = await loop.run_in_executor(thread, kind)
            try:
                await loop.run_in_executor(thread, caller.rollback)
                await act(OwnThread(at, thread, caller))
            finally:
                await loop.run_in_executor(thread, caller.close)

    play(part, play_it)


def insert(caller: Caller) -> None:
    caller.execute(ORDER)


def works(caller: Caller) -> None:
    """Write and commit without a block."""
    caller.begin()
    caller.execute(ORDER)
    caller.commit()


def never(_: Caller) -> None:
    pytest.fail("the block has begun")


class OwnBlockStories:
    """The tests; they need the fixtures ``part``, ``kind``, ``any_kind``, ``elsewhere`` (a kind on another database) and ``orders``."""

    def test_s3_rows_land_under_the_token_that_owns_the_job_and_under_no_other(
        self, part: Part, any_kind: Callable[[], Caller], orders: Callable[[], int]
    ) -> None:
        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            for token in (stale(active.token), structs.replace(active.token, claim=own.at.chance.uuid4())):
                with pytest.raises(JobLost):
                    await own.block(structs.replace(active, token=token), never)
            await own.block(active, insert)
            assert orders() == 1
            assert await own.at.settle(done(active))
            with pytest.raises(JobLost, match="no longer active under token"):
                await own.block(active, never)
            assert orders() == 1
            await own.act(works)
            assert orders() == 2

        in_own_thread(part, any_kind, act)

    def test_an_error_of_the_block_rolls_back_and_the_connection_stays_usable(
        self, part: Part, kind: Callable[[], Caller], orders: Callable[[], int]
    ) -> None:
        def fail(caller: Caller) -> None:
            insert(caller)
            raise ValueError("no")

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            with pytest.raises(ValueError, match="no"):
                await own.block(active, fail)
            assert orders() == 0
            await own.block(active, insert)
            assert orders() == 1

        in_own_thread(part, kind, act)

    def test_an_open_transaction_is_refused_and_goes_on(
        self, part: Part, kind: Callable[[], Caller], orders: Callable[[], int]
    ) -> None:
        def open_one(caller: Caller) -> None:
            caller.begin()
            insert(caller)

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            await own.act(open_one)
            with pytest.raises(Unsupported, match=r"has an open transaction.* commit or roll back before the block"):
                await own.block(active, never)
            await own.act(lambda caller: caller.commit())
            assert orders() == 1

        in_own_thread(part, kind, act)

    def test_a_block_that_ends_its_transaction_itself_gets_an_error(
        self, part: Part, kind: Callable[[], Caller], orders: Callable[[], int]
    ) -> None:
        def end(caller: Caller) -> None:
            caller.execute("ROLLBACK")
            insert(caller)

        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            with pytest.raises(HoldfastError, match="leave out COMMIT"):
                await own.block(active, end)

        in_own_thread(part, kind, act)

    def test_a_connection_to_another_database_is_refused(self, part: Part, elsewhere: Callable[[], Caller]) -> None:
        async def act(own: OwnThread) -> None:
            active = await own.at.running()
            with pytest.raises((Unsupported, SchemaMissing), match=r"only in one (file|database)|use one to"):
                await own.block(active, never)
            await own.act(lambda caller: (caller.begin(), caller.execute("CREATE TABLE notes (text TEXT)"), caller.rollback()))

        in_own_thread(part, elsewhere, act)

    def test_a_connection_that_is_awaited_is_refused_where_no_code_can_await_it(
        self, part: Part, any_kind: Callable[[], Caller], orders: Callable[[], int]
    ) -> None:
        async def act(own: OwnThread) -> None:
            active, caller = await own.at.running(), own.caller

            def enter(caller: Caller) -> None:
                store, within = own.at.store, caller.within
                with store_defaults.blocking_transaction(store, active.id, active.token, idle=LONG, within=within):
                    insert(caller)

            if caller.is_awaited:
                with pytest.raises(Unsupported, match="is awaited: use `async with"):
                    await own.act(enter)
            else:
                await own.act(enter)
            assert orders() == int(not caller.is_awaited)

        in_own_thread(part, any_kind, act)

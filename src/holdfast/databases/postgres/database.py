"""One database: pools of connections, transactions, and errors that state what is known about a statement."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from holdfast._core.identity import ProcessIdentity
from holdfast._core.postgres_url import PostgresUrl, problems_of_location
from holdfast._forks import Forked, Lock, register
from holdfast._ports.clock import Clock, Randomness
from holdfast._system.clock import loop_sleep
from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres import session_settings as sessions
from holdfast.databases.postgres.pool import EARLY, Connection, Pool, hang_up
from holdfast.errors import ConfigurationError, StoreUnavailable

CONNECTIONS = 8
"""The most connections in one event loop, besides the one for beats; an idle worker has opened two or three."""

ANSWER_LIMIT = 25.0
"""Seconds to wait for an answer: longer than the server's own limit of a statement, so by then the server or the network is gone."""

SEARCH_LIMIT = 75.0
BEAT_LIMIT = 5.0
REFUSED_LIMIT = 5.0

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1

Answer = TypeVar("Answer")


class Pools:
    """The pools of one event loop. Beats have a separate connection: they must not wait behind other statements."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], most: int) -> None:
        self.shared, self.beats = Pool(connect, most), Pool(connect, 1)
        # A keyed enqueue may wait for a key that another session has not committed yet. Outcomes and claims need the other half.
        self.keyed = asyncio.Semaphore(max(1, most // 2))
        self.ending = _close_at_the_end(self.shared, self.beats)
        try:
            self.ending.__anext__().send(None)
        except StopIteration:
            pass  # the generator is at its `yield` now, and waits for the end of the loop


async def _close_at_the_end(*pools: Pool) -> AsyncGenerator[None]:
    """Close the pools at the end of the event loop, which closes the asynchronous generators begun in it: no caller has to do it."""
    try:
        yield
    finally:
        await asyncio.gather(*(pool.close() for pool in pools))


class Database(Forked):
    """A database, reached from any number of event loops; the first use opens the first connection.

    ``server_settings``: additional settings of the server for each session. ``connections``: the most in one event loop, besides
    the one for beats.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        chance: Randomness,
        process: ProcessIdentity,
        pooler: str | None = None,
        server_settings: Mapping[str, str] | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        if problems := problems_of_location(url, pooler):
            raise ConfigurationError(problems)
        self._location = PostgresUrl.of(url, pooler)
        self._clock, self._chance, self._process = clock, chance, process
        self._server_settings = dict(server_settings or {})
        self._connections = connections
        self._answer_limit, self._beat_limit = ANSWER_LIMIT, BEAT_LIMIT
        self._begin = sessions.begin(is_pooled=self._location.is_pooled)
        self._pools: dict[asyncio.AbstractEventLoop, Pools] = {}
        self._of_parent: list[object] = []
        self._lock = threading.Lock()
        register(self)

    async def close(self) -> None:
        with self._lock:
            pools = self._pools.pop(asyncio.get_running_loop(), None)
        if pools is not None:
            await pools.ending.aclose()

    # used by the verbs of subclasses

    @asynccontextmanager
    async def _transaction(self, limit: float | None = None, settings: str = "") -> AsyncIterator[Connection]:
        """Run a transaction in READ COMMITTED, also if the user's default differs; commit at the end. Only inside ``_retrying``.

        ``settings``: SQL that follows its begin.
        """
        async with self._in_transaction(self._here().shared, limit or self._answer_limit, settings) as connection:
            yield connection

    async def _retrying(self, action: Callable[[], Awaitable[Answer]], name: str = "store") -> Answer:
        """Return what the action returns; repeat it, for up to 5 s of pauses, after a deadlock or a serialization failure."""
        waited, pause = 0.0, _SHORTEST_PAUSE
        while True:
            try:
                return await action()
            except failures.Refused as error:
                if waited >= REFUSED_LIMIT:
                    raise StoreUnavailable(f"{name}: {self._location.public}: {failures.first_line(error)}") from error
            except failures.Errors as error:
                raise failures.statement_error(name, self._location.public, error) from error
            seconds = pause * (1.0 + self._chance.jitter()) / 2
            await loop_sleep(seconds)
            waited, pause = waited + seconds, min(pause * 2, _LONGEST_PAUSE)

    @asynccontextmanager
    async def _own_connection(self, *, is_checked: bool = True, **settings: str) -> AsyncIterator[Connection]:
        """Open a separate connection, with more settings (a pooler takes none) and without a time limit on this side.

        An unchecked one may lack the schema, or lead to a standby.
        """
        connection = await self._connect(is_checked=is_checked, **settings)
        try:
            yield connection
        except failures.Errors as error:
            raise failures.statement_error("store", self._location.public, error) from error
        finally:
            await hang_up(connection)

    async def connect(self) -> Connection:
        """Open one more connection, which the caller closes; the schema may not exist yet."""
        return await self._connect(is_checked=False)

    async def _connect(self, *, is_checked: bool = True, **more: str) -> Connection:
        name, is_pooled = f"holdfast {self._process.host}-{self._process.pid}", self._location.is_pooled
        settings = sessions.settings(name, self._server_settings, more, is_pooled=is_pooled)
        link: Connection | None = None
        try:
            async with asyncio.timeout(self._location.connect_timeout):
                link = await self._dial(settings)
                keep_alive(link)
                await sessions.prepare(link, self._location.public, is_pooled=is_pooled)
                if is_checked:
                    await self._check_schema(link)
        except BaseException as error:
            if link is not None:
                link.terminate()
            if isinstance(error, failures.Errors):
                raise failures.connect_error(self._location.public, error) from error
            raise
        return link

    # internals

    async def _check_schema(self, link: Connection) -> None:
        """Raise if the database cannot be used. This base class checks nothing: a user's own database needs no schema."""

    async def _dial(self, settings: dict[str, str]) -> Connection:
        return await asyncpg.connect(
            self._location.url,
            timeout=self._location.connect_timeout,
            statement_cache_size=0 if self._location.is_pooled else 500,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
            server_settings=settings,
        )

    async def _run(self, pool: Pool, sql: str, arguments: tuple[Any, ...], limit: float) -> list[asyncpg.Record]:
        if self._location.is_pooled:
            async with self._in_transaction(pool, limit) as connection:
                return await connection.fetch(sql, *arguments)
        loop = asyncio.get_running_loop()
        until = loop.time() + limit
        connection = pool.take_free(until) or await self._wait_for(pool, until)
        try:
            found = await connection.fetch(sql, *arguments)
        except BaseException as error:
            was_closed = connection.is_closed()
            (pool.release if failures.leaves_connection_sound(error) else pool.discard)(connection)
            if isinstance(error, failures.Errors) and loop.time() + EARLY >= until:
                raise TimeoutError from error
            failures.require_open(error, was_closed=was_closed)
            raise
        pool.release(connection)
        return found

    async def _wait_for(self, pool: Pool, until: float) -> Connection:
        async with asyncio.timeout_at(until):
            return await pool.acquire(until)

    @asynccontextmanager
    async def _in_transaction(self, pool: Pool, limit: float, settings: str = "") -> AsyncIterator[Connection]:
        async with asyncio.timeout(limit):
            connection = await pool.acquire()
            try:
                await connection.execute(f"{self._begin}; {settings}" if settings else self._begin)
                yield connection
                if await connection.execute("COMMIT") != "COMMIT":
                    raise asyncpg.InterfaceError("the transaction was rolled back")
            except BaseException as error:
                if not failures.leaves_connection_sound(error):
                    was_closed = connection.is_closed()
                    pool.discard(connection)
                    failures.require_open(error, was_closed=was_closed)
                    raise
                await self._roll_back(pool, connection)
                raise
            pool.release(connection)

    async def _roll_back(self, pool: Pool, connection: Connection) -> None:
        try:
            async with asyncio.timeout(BEAT_LIMIT):
                await connection.execute("ROLLBACK")
        except BaseException:
            pool.discard(connection)
            raise
        pool.release(connection)

    def _here(self) -> Pools:
        loop = asyncio.get_running_loop()
        pools = self._pools.get(loop)
        if pools is None:
            with self._lock:
                for gone in [each for each in self._pools if each.is_closed()]:
                    lost = self._pools.pop(gone)
                    lost.shared.abandon()
                    lost.beats.abandon()
                pools = self._pools[loop] = Pools(self._connect, self._connections)
        return pools

    # forks

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Forget the connections in the child, which runs no event loop of its parent."""
        for pools in self._pools.values():
            pools.shared.forget_in_child()
            pools.beats.forget_in_child()
        self._of_parent.append(self._pools)  # unused, but not closed: closing could end the parent's sessions
        self._lock, self._pools = threading.Lock(), {}


def keep_alive(link: Connection) -> None:
    """Have the kernel detect a server that vanished silently, as the server's settings detect a vanished client."""
    plug = link._transport.get_extra_info("socket")  # type: ignore[attr-defined] # asyncpg has no public access to it
    if plug is None or plug.family == socket.AF_UNIX:
        return
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 15_000)):
        if hasattr(socket, option):
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

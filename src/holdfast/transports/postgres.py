"""Hints by LISTEN and NOTIFY: names of queues and ids in one short payload, sent beside all that is enqueued.

A NOTIFY takes a lock of the whole database when it commits. So it never runs inside a caller's transaction, and a process
sends at most one every few milliseconds, even if it enqueues thousands of jobs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
import msgspec

from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.transport import Hint
from holdfast.transports._outbox import INTERVAL, LONGEST_INTERVAL, Notification, Outbox, encode
from holdfast.transports._upkeep import PerLoop, Upkeep

PROBE, ANSWER = 10.0, 5.0
"""Seconds: without keepalives, a connection whose server is gone without closing it would stay silent indefinitely."""
IDLE = 60.0
"""Seconds after which a process that only publishes closes its connection."""
CONNECTING, CLOSING = 0.25, 1.0

logger = logging.getLogger("holdfast")

Connect = Callable[[], Awaitable["asyncpg.Connection"]]

_decoder = msgspec.json.Decoder(Notification)


class PostgresTransport:
    """Wakes the idle workers of one schema. ``connect`` opens a dedicated connection; ``name``: for logs, without password."""

    deliveries = None

    def __init__(self, connect: Connect, channel: str, *, name: str, clock: Clock, chance: Randomness) -> None:
        def open_post() -> _LoopConnection:
            return _LoopConnection(connect, channel, name=name, clock=clock, chance=chance)

        self._posts: PerLoop[_LoopConnection] = PerLoop(open_post)

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Queue hints to be sent in the background. Only the first call waits for the connection, and not for long."""
        if hints:
            post = self._posts.here()
            post.outbox.add(hints)
            if not post.upkeep.has_tried:
                await post.upkeep.session(CONNECTING)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that arrives."""
        self._posts.here().listen(wake)

    async def close(self) -> None:
        """Close the running loop's connection at once, and those of other loops soon."""
        await self._posts.close(lambda post: post.upkeep)


class _LoopConnection:
    """The connection of one event loop."""

    def __init__(self, connect: Connect, channel: str, *, name: str, clock: Clock, chance: Randomness) -> None:
        self._connect, self._channel, self._clock = connect, channel, clock
        self.outbox = Outbox()
        self._wakes: list[Callable[[Hint], None]] = []
        self.upkeep: Upkeep[bool] = Upkeep(f"LISTEN at {name}", self._serve, clock=clock, chance=chance)

    def listen(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` for each hint from now on."""
        self._wakes.append(wake)
        self.outbox.is_filled.set()  # a connection that only published has to listen now

    async def _serve(self, opened: Callable[[bool], None]) -> None:
        while True:
            if not self._wakes:
                await self.outbox.is_filled.wait()
            async with self._connection() as connection:
                opened(True)
                await self._carry(connection)

    async def _carry(self, connection: "asyncpg.Connection") -> None:
        """Carry hints until the connection is lost, or has not been needed for a while."""
        is_listening, silent, interval = False, 0.0, INTERVAL
        # NOTIFY commits, and would wait for the disk: no hint needs to survive the server.
        await self._ask(connection.execute("SET synchronous_commit = off"))
        while self._wakes or silent < IDLE:
            if self._wakes and not is_listening:
                is_listening = True
                await self._ask(connection.add_listener(self._channel, self._on_notification))
                self._wake(Hint())  # hints may have been sent while nothing listened
            if await self._has_hints(PROBE):
                silent = 0.0
                if connection.is_closed():
                    raise ConnectionResetError("the server has ended it")
                await self._tell(connection)
                await self._clock.sleep(interval)
                interval = min(interval * 2, LONGEST_INTERVAL) if self.outbox.is_filled.is_set() else INTERVAL
            else:
                silent += PROBE
                await self._ask(connection.execute("SELECT 1"))

    async def _has_hints(self, timeout: float) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self.outbox.is_filled.wait()
        except TimeoutError:
            return False
        return True

    async def _tell(self, connection: "asyncpg.Connection") -> None:
        notification = self.outbox.take()
        if notification == Notification():
            return
        try:
            await self._ask(connection.execute("SELECT pg_notify($1, $2)", self._channel, encode(notification).decode()))
        except BaseException:
            self.outbox.add(notification.hints())
            raise

    async def _ask(self, question: Awaitable[object]) -> None:
        async with asyncio.timeout(ANSWER):
            await question

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[asyncpg.Connection]":
        connection = await self._connect()

        def lose(_: object) -> None:
            self.outbox.is_filled.set()

        connection.add_termination_listener(lose)
        try:
            yield connection
        finally:
            connection.remove_termination_listener(lose)  # an end that this process causes needs no reaction
            try:
                async with asyncio.timeout(CLOSING):
                    if self.outbox.is_filled.is_set() and not connection.is_closed():
                        await self._tell(connection)  # a program that enqueues and ends
                    await connection.close()
            except Exception:
                connection.terminate()

    def _on_notification(self, connection: object, pid: int, channel: str, payload: object) -> None:
        try:
            notification = _decoder.decode(str(payload))
        except msgspec.MsgspecError:
            return  # any session may notify
        for hint in notification.hints():
            self._wake(hint)

    def _wake(self, hint: Hint) -> None:
        for wake in tuple(self._wakes):
            wake(hint)

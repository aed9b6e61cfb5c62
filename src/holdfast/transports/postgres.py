"""Hints by LISTEN and NOTIFY: names of queues and ids in one short payload, sent beside all that is enqueued.

A NOTIFY takes a lock of the whole database when it commits. So it never runs inside a caller's transaction, and a process
sends at most one every few milliseconds, even if it enqueues thousands of jobs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Struct

from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.transport import Hint
from holdfast.transports._upkeep import PerLoop, Upkeep

INTERVAL, LONGEST_INTERVAL = 0.005, 0.02
"""Seconds between two notifications of one event loop. The first after a pause goes at once. While jobs keep coming, all workers
are busy anyway, and notifications become less frequent."""
PROBE, ANSWER = 10.0, 5.0
"""Seconds: without keepalives, a connection whose server is gone without closing it would stay silent indefinitely."""
IDLE = 60.0
"""Seconds after which a process that only publishes closes its connection."""
CONNECTING, CLOSING = 0.25, 1.0
LONGEST = 7_900
"""Bytes of a payload: the server takes 7,999."""
MOST_NAMES, MOST_IDS = 1_000, 1_000

logger = logging.getLogger("holdfast")

Connect = Callable[[], Awaitable["asyncpg.Connection"]]


class Notification(Struct, omit_defaults=True):
    """The content of one notification.

    ``is_for_all``: it wakes every worker, because not all hints fit, or because a hint names neither a queue nor a job.
    """

    queues: list[str] = []
    ids: list[UUID] = []
    is_for_all: bool = False

    def hints(self) -> list[Hint]:
        """Return the hints to deliver: one for each queue, one for all jobs, and one for every worker if needed."""
        found = [Hint(queue) for queue in self.queues]
        found += [Hint(ids=tuple(self.ids))] if self.ids else []
        return found + ([Hint()] if self.is_for_all else [])


_encode = msgspec.json.Encoder().encode
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


class Outbox:
    """Hints that have not been sent yet, each queue and job once."""

    def __init__(self) -> None:
        self.is_filled = asyncio.Event()
        self._queues: dict[str, None] = {}
        self._ids: dict[UUID, None] = {}
        self._is_for_all = False

    def add(self, hints: Sequence[Hint]) -> None:
        """Add hints to the next notification."""
        for hint in hints:
            if hint.queue and (not hint.ids or not hint.rescued):
                self._queues[hint.queue] = None
            else:
                self._ids.update(dict.fromkeys(hint.ids))
                self._queues.update({hint.queue: None} if hint.queue else {})
                self._is_for_all = self._is_for_all or not (hint.ids or hint.queue)
        if len(self._queues) > MOST_NAMES or len(self._ids) > MOST_IDS:
            self._queues, self._ids, self._is_for_all = {}, {}, True
        self.is_filled.set()

    def take(self) -> Notification:
        """Remove and return all hints, as one notification. If they do not fit, drop ids, then queues, and wake every worker instead."""
        notification = Notification(list(self._queues), list(self._ids), self._is_for_all)
        self._queues, self._ids, self._is_for_all = {}, {}, False
        self.is_filled.clear()
        while len(_encode(notification)) > LONGEST:
            # A worker whose job changed learns it with its next beat anyway; a queue without its own hint would wait for the next poll.
            notification = (
                Notification(notification.queues, notification.ids[: len(notification.ids) // 2], True)
                if notification.ids
                else Notification(is_for_all=True)
            )
        return notification


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
            await self._ask(connection.execute("SELECT pg_notify($1, $2)", self._channel, _encode(notification).decode()))
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

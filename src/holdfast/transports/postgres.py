"""Hints by LISTEN and NOTIFY: queues' names and ids in one short payload, sent beside all that is enqueued.

A NOTIFY takes a lock of the whole database when it commits. So it never runs inside anybody's transaction, and a process
sends one at most every few milliseconds, whatever it enqueues meanwhile.
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
"""Seconds between two notifications of one event loop: the first after a pause goes at once, and while there is always more to
say, which keeps everybody busy anyway, it is said less and less often."""
PROBE, ANSWER = 10.0, 5.0
"""Seconds: a connection whose server is gone without a word would be silent for ever."""
IDLE = 60.0
"""Seconds after which a process that only tells lets go of its connection."""
CONNECTING, CLOSING = 0.25, 1.0
LONGEST = 7_900
"""Bytes of a payload: the server takes 7,999."""
MOST_NAMES, MOST_IDS = 1_000, 1_000

logger = logging.getLogger("holdfast")

Connect = Callable[[], Awaitable["asyncpg.Connection"]]


class Notification(Struct, omit_defaults=True):
    """What one notification says. ``is_for_all``: more than could be said."""

    queues: list[str] = []
    ids: list[UUID] = []
    is_for_all: bool = False

    def hints(self) -> list[Hint]:
        """As they were published, the jobs of a queue without their queue."""
        found = [Hint(queue) for queue in self.queues]
        found += [Hint(ids=tuple(self.ids))] if self.ids else []
        return found + ([Hint()] if self.is_for_all else [])


_encode = msgspec.json.Encoder().encode
_news = msgspec.json.Decoder(Notification)


class PostgresTransport:
    """Wakes the idle workers of one schema. ``connect`` opens a connection of its own; ``name``: for logs, without password."""

    deliveries = None

    def __init__(self, connect: Connect, channel: str, *, name: str, clock: Clock, chance: Randomness) -> None:
        def open_post() -> _LoopConnection:
            return _LoopConnection(connect, channel, name=name, clock=clock, chance=chance)

        self._posts: PerLoop[_LoopConnection] = PerLoop(open_post)

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Note them; they are sent in the background. Only the first call waits for the connection, and not for long."""
        if hints:
            post = self._posts.here()
            post.outbox.add(hints)
            if not post.upkeep.has_tried:
                await post.upkeep.session(CONNECTING)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """From now on call ``wake`` in the running loop for each hint that arrives."""
        self._posts.here().listen(wake)

    async def close(self) -> None:
        """Close the running loop's connection, and soon those of other loops."""
        ours, others = self._posts.take_all()
        for loop, post in others:
            try:
                loop.call_soon_threadsafe(post.upkeep.stop)
            except RuntimeError:
                pass  # the loop is closed, and what it had with it
        if ours is not None:
            await ours.upkeep.close()


class Outbox:
    """What has not been said yet, each queue and job once."""

    def __init__(self) -> None:
        self.has_news = asyncio.Event()
        self._queues: dict[str, None] = {}
        self._ids: dict[UUID, None] = {}
        self._is_for_all = False

    def add(self, hints: Sequence[Hint]) -> None:
        """Say these too."""
        for hint in hints:
            if hint.queue and (not hint.ids or not hint.rescued):
                self._queues[hint.queue] = None
            else:
                self._ids.update(dict.fromkeys(hint.ids))
                self._queues.update({hint.queue: None} if hint.queue else {})
                self._is_for_all = self._is_for_all or not (hint.ids or hint.queue)
        if len(self._queues) > MOST_NAMES or len(self._ids) > MOST_IDS:
            self._queues, self._ids, self._is_for_all = {}, {}, True
        self.has_news.set()

    def take(self) -> Notification:
        """All that fits into one payload; what does not is for everybody."""
        news = Notification(list(self._queues), list(self._ids), self._is_for_all)
        self._queues, self._ids, self._is_for_all = {}, {}, False
        self.has_news.clear()
        while len(_encode(news)) > LONGEST:
            # Who has a job that changed learns it with his next beat anyway; nobody would look into a queue before he polls.
            news = Notification(news.queues, news.ids[: len(news.ids) // 2], True) if news.ids else Notification(is_for_all=True)
        return news


class _LoopConnection:
    """What one event loop has of it."""

    def __init__(self, connect: Connect, channel: str, *, name: str, clock: Clock, chance: Randomness) -> None:
        self._connect, self._channel, self._clock = connect, channel, clock
        self.outbox = Outbox()
        self._wakes: list[Callable[[Hint], None]] = []
        self.upkeep: Upkeep[bool] = Upkeep(f"LISTEN at {name}", self._serve, clock=clock, chance=chance)

    def listen(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` from now on."""
        self._wakes.append(wake)
        self.outbox.has_news.set()  # a connection that only told has to listen now

    async def _serve(self, opened: Callable[[bool], None]) -> None:
        while True:
            if not self._wakes:
                await self.outbox.has_news.wait()
            async with self._connection() as connection:
                opened(True)
                await self._carry(connection)

    async def _carry(self, connection: "asyncpg.Connection") -> None:
        """Until the connection is lost, or has not been needed for a while."""
        is_listening, silent, interval = False, 0.0, INTERVAL
        # NOTIFY commits, and would wait for the disk: of all that is said nothing needs to survive the server.
        await self._ask(connection.execute("SET synchronous_commit = off"))
        while self._wakes or silent < IDLE:
            if self._wakes and not is_listening:
                is_listening = True
                await self._ask(connection.add_listener(self._channel, self._heard))
                self._wake(Hint())  # whatever was said while nobody listened
            if await self._has_news(PROBE):
                silent = 0.0
                if connection.is_closed():
                    raise ConnectionResetError("the server has ended it")
                await self._tell(connection)
                await self._clock.sleep(interval)
                interval = min(interval * 2, LONGEST_INTERVAL) if self.outbox.has_news.is_set() else INTERVAL
            else:
                silent += PROBE
                await self._ask(connection.execute("SELECT 1"))

    async def _has_news(self, patience: float) -> bool:
        try:
            async with asyncio.timeout(patience):
                await self.outbox.has_news.wait()
        except TimeoutError:
            return False
        return True

    async def _tell(self, connection: "asyncpg.Connection") -> None:
        news = self.outbox.take()
        if news == Notification():
            return
        try:
            await self._ask(connection.execute("SELECT pg_notify($1, $2)", self._channel, _encode(news).decode()))
        except BaseException:
            self.outbox.add(news.hints())
            raise

    async def _ask(self, question: Awaitable[object]) -> None:
        async with asyncio.timeout(ANSWER):
            await question

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[asyncpg.Connection]":
        connection = await self._connect()

        def lose(_: object) -> None:
            self.outbox.has_news.set()

        connection.add_termination_listener(lose)
        try:
            yield connection
        finally:
            connection.remove_termination_listener(lose)  # an end of our own making is no news
            try:
                async with asyncio.timeout(CLOSING):
                    if self.outbox.has_news.is_set() and not connection.is_closed():
                        await self._tell(connection)  # a program that enqueues and ends
                    await connection.close()
            except Exception:
                connection.terminate()

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        try:
            news = _news.decode(str(payload))
        except msgspec.MsgspecError:
            return  # anybody may notify
        for hint in news.hints():
            self._wake(hint)

    def _wake(self, hint: Hint) -> None:
        for wake in tuple(self._wakes):
            wake(hint)

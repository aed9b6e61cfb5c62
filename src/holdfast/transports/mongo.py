"""Hints through MongoDB: a capped collection that every process may write, and in each process one cursor that waits for the next hint.

With ``mongodb+changes`` each process also follows the changes of the jobs. So it learns of jobs that programs in other languages wrote,
or transactions that cannot write hints. But every change stream makes the server read its whole log: use it with up to 8 processes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from uuid import UUID

import bson
import msgspec
from msgspec import Struct
from pymongo import CursorType
from pymongo.asynchronous.command_cursor import AsyncRawBatchCommandCursor
from pymongo.asynchronous.cursor import AsyncRawBatchCursor
from pymongo.errors import PyMongoError

from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.transport import Hint
from holdfast.databases.mongo.capped import make_capped
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.databases.mongo.errors import raise_for_reply, statement_error
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.transports._outbox import INTERVAL, LONGEST_INTERVAL, Notification, Outbox
from holdfast.transports._upkeep import PerLoop, Upkeep

AWAIT, ANSWER = 1.0, 4.0
"""Seconds for which the server waits for the next hint before it answers that there is none; seconds more for the answer to arrive."""
LOOK = 60.0
"""Seconds between two looks whether the collection is still capped: a hint written after it was dropped makes an ordinary one, which
grows indefinitely if no process listens to it."""
CONNECTING, CLOSING = 0.25, 1.0
WHOLE: Final = 1_000_000
"""Documents, more than fit in the collection: the first batch of a cursor has all that were written before."""

_LINE: Final = ("fullDocument.line", "updateDescription.updatedFields.line")
_WAITING: Final[list[Mapping[str, Any]]] = [
    {"$changeStream": {}},
    {
        "$match": {
            "operationType": {"$in": ["insert", "replace", "update"]},
            "$or": [{name: {"$exists": True}} for name in _LINE],
        }
    },
    {"$project": {"line": {"$ifNull": [f"${name}" for name in _LINE]}}},
]
"""The changes by which a job begins to wait. Looking up the whole document of an update would cost the server a read for each."""

Cursor = AsyncRawBatchCursor[Document] | AsyncRawBatchCommandCursor[Document]


class Jobs(Struct, frozen=True):
    """The collection of jobs. ``queue_of``: returns the queue that its field ``line`` names, or an empty string."""

    name: str
    queue_of: Callable[[object], str]


class MongoTransport:
    """Wakes the idle workers of one schema. ``hints``: the name of the collection. ``jobs``: their changes are followed too."""

    deliveries = None

    def __init__(
        self, database: MongoDatabase, hints: str, jobs: Jobs | None = None, *, clock: Clock, chance: Randomness
    ) -> None:
        self._loops = PerLoop(lambda: _LoopHints(database, hints, jobs, clock, chance))

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Queue hints to be sent in the background. Only the first call waits for the connection, and not for long."""
        if hints:
            await self._loops.here().publish(hints)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that arrives."""
        self._loops.here().listen(wake)

    async def close(self) -> None:
        """Close the running loop's connections at once, and those of other loops soon."""
        await self._loops.close(lambda hints: hints)


class _LoopHints:
    """The hints of one event loop."""

    def __init__(self, database: MongoDatabase, name: str, jobs: Jobs | None, clock: Clock, chance: Randomness) -> None:
        self._database, self._name, self._jobs = database, name, jobs
        self._clock, self._chance = clock, chance
        self._public = database.location.public
        self._outbox, self._is_wanted = Outbox(), asyncio.Event()
        self._wakes: list[Callable[[Hint], None]] = []
        self._hints = self._keep(f"MongoDB at {self._public}", self._serve)
        self._changes: Upkeep[bool] | None = None
        self._ending: asyncio.Task[None] | None = None

    async def publish(self, hints: Sequence[Hint]) -> None:
        self._outbox.add(hints)
        await self._hints.session(CONNECTING)

    def listen(self, wake: Callable[[Hint], None]) -> None:
        self._wakes.append(wake)
        self._is_wanted.set()
        self._outbox.is_filled.set()  # a process that only published has to listen now
        if self._jobs is not None and self._changes is None:
            self._changes = self._keep(f"the change stream of MongoDB at {self._public}", self._follow_changes)

    def stop(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self.close())

    async def close(self) -> None:
        await self._hints.session(CONNECTING)  # a program that enqueues and ends
        await asyncio.gather(*(each.close() for each in (self._hints, self._changes) if each is not None))
        await self._database.close()

    def _keep(self, name: str, serve: Callable[[Callable[[bool], None]], Coroutine[Any, Any, None]]) -> Upkeep[bool]:
        return Upkeep(name, serve, clock=self._clock, chance=self._chance)

    async def _serve(self, opened: Callable[[bool], None]) -> None:
        if not self._wakes:
            await self._outbox.is_filled.wait()
        await make_capped(self._database, self._name)
        _require_running()
        is_open = not self._wakes
        if is_open:
            opened(True)
            await _until_one_ends(self._send(), self._is_wanted.wait())
        async with self._tail() as cursor:
            if not is_open:
                opened(True)
            await _until_one_ends(self._send(), self._follow(cursor, _hints_in))

    async def _send(self) -> None:
        looked, interval = self._clock.monotonic(), INTERVAL
        try:
            while await self._outbox.is_filled.wait():
                if self._clock.monotonic() - looked > LOOK:
                    await make_capped(self._database, self._name)
                    looked = self._clock.monotonic()
                await self._insert()
                _require_running()
                await self._clock.sleep(interval)
                interval = min(interval * 2, LONGEST_INTERVAL) if self._outbox.is_filled.is_set() else INTERVAL
        except asyncio.CancelledError:
            with suppress(HoldfastError, TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._insert()  # a program that enqueues and ends
            raise

    async def _insert(self) -> None:
        notification = self._outbox.take()
        if notification == Notification():
            return
        document = msgspec.to_builtins(notification, builtin_types=(UUID,))
        try:
            # A hint that is lost with the primary costs one poll.
            command = {"insert": self._name, "documents": [document], "writeConcern": {"w": 1}}
            raise_for_reply(self._public, await self._database.command(command, limit=ANSWER))
        except (HoldfastError, asyncio.CancelledError):
            self._outbox.add(notification.hints())
            raise

    @asynccontextmanager
    async def _tail(self) -> AsyncIterator[Cursor]:
        collection = self._database.collection(self._name, "local")
        # It has no filter for what was written before: the server would compare it with every document.
        cursor = collection.find_raw_batches({}, cursor_type=CursorType.TAILABLE_AWAIT, batch_size=WHOLE)
        async with _closing(cursor.max_await_time_ms(round(AWAIT * 1000))):
            await self._next(cursor)
            _require_running()
            if not cursor.alive:
                raise self._ended()
            yield cursor

    async def _follow_changes(self, opened: Callable[[bool], None]) -> None:
        jobs = self._jobs
        assert jobs is not None
        collection = self._database.collection(jobs.name)
        # Opened from now on, never from where an earlier one stood: that may no longer be in the server's log.
        async with self._limit(ANSWER):
            cursor = await collection.aggregate_raw_batches(_WAITING, maxAwaitTimeMS=round(AWAIT * 1000))
        async with _closing(cursor):
            opened(True)
            await self._follow(cursor, lambda change: [Hint(jobs.queue_of(change["line"]))])

    async def _follow(self, cursor: Cursor, hints_in: Callable[[Document], Iterable[Hint]]) -> None:
        """Wake listeners for what comes, until the cursor ends or is no longer that of the primary."""
        self._wake(Hint())  # hints may have been sent while nothing listened
        collection = self._database.collection(self._name)
        client, codec = collection.database.client, collection.codec_options
        while cursor.alive:
            if batch := await self._next(cursor):
                found = bson.decode_all(batch, codec)
                for hint in dict.fromkeys([hint for each in found for hint in hints_in(each)]):
                    self._wake(hint)
                await self._clock.sleep(INTERVAL)
            _require_running()
            primary = await client.primary
            if primary is not None and primary != cursor.address:
                raise StoreUnavailable(f"{self._public}: another member has become the primary")
        raise self._ended()

    async def _next(self, cursor: Cursor) -> Any:
        """Return the next batch, or ``None`` after a while without one."""
        async with self._limit(AWAIT + ANSWER):
            return await (anext(cursor, None) if isinstance(cursor, AsyncRawBatchCursor) else cursor.try_next())

    @asynccontextmanager
    async def _limit(self, seconds: float) -> AsyncIterator[None]:
        """Raise ``StoreUnavailable`` if the server refuses, or does not answer in this time."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise StoreUnavailable(f"{self._public}: no answer within {seconds:g} s") from None
        except PyMongoError as error:
            raise statement_error(self._public, error) from error

    def _ended(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._public}: the server has ended the cursor")

    def _wake(self, hint: Hint) -> None:
        for wake in tuple(self._wakes):
            wake(hint)


def _hints_in(document: Document) -> Iterable[Hint]:
    try:
        return msgspec.convert(document, Notification).hints()
    except msgspec.ValidationError:
        return ()  # any program may write there


def _require_running() -> None:
    """Raise ``CancelledError`` if this task was cancelled, and a driver that was at work took no notice."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _until_one_ends(*works: Coroutine[Any, Any, object]) -> None:
    """Run them until one ends, then end the others; raise what the first one raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled():
            task.result()


@asynccontextmanager
async def _closing(cursor: Cursor) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with suppress(PyMongoError, TimeoutError):
            async with asyncio.timeout(CLOSING):
                await cursor.close()

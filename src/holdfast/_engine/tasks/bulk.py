"""Many jobs of one call: an iterator is read, encoded and written a chunk at a time, while earlier chunks are under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, wait
from contextlib import aclosing, suppress
from itertools import islice
from types import coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast._engine.client.handle import Handle
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast._core.job import NewJob

CHUNK: Final = 2_000
"""The jobs of one write, of payloads that an iterator yields."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk whose payloads have that many bytes is full, so that long payloads do not fill the memory."""
UNDER_WAY: Final = 2
"""The writes of one call that are under way at once, each on a separate connection: the server computes while this process encodes."""
_SLICE: Final = 500
"""The payloads that are read and encoded in one turn of the event loop: about a millisecond."""

Payloads = Iterable[Mapping[str, object]]
Handles = list[Handle[Any]]
Sink = Callable[[Handles], None]
Progress = Callable[[int], None]


class Order(Protocol):
    """A task with options, as this module needs it."""

    def encode_items(self, payloads: Sequence[Mapping[str, object]], position: int) -> list[bytes]:
        """Check and encode payloads, the first of which has this position in the call."""
        ...

    def new_jobs(self, payloads: Sequence[bytes]) -> list[NewJob]:
        """Return a new job for each payload."""
        ...


class Chunk:
    """Payloads of the next write. ``size``: how many at most, ``None``: all of the call in one write."""

    def __init__(self, order: Order, size: int | None) -> None:
        self._order, self._size = order, size
        self._before = self._bytes = 0
        self._encoded: list[bytes] = []

    @property
    def room(self) -> int:
        """How many payloads to add next."""
        return _SLICE if self._size is None else min(_SLICE, self._size - len(self._encoded))

    @property
    def is_full(self) -> bool:
        """Whether it is time to write it."""
        return self._size is not None and (len(self._encoded) >= self._size or self._bytes >= CHUNK_BYTES)

    def add(self, payloads: Sequence[Mapping[str, object]]) -> None:
        """Encode more payloads; ``PayloadInvalid`` names the first that does not fit, by its position in the call."""
        encoded = self._order.encode_items(payloads, self._before + len(self._encoded))
        self._encoded += encoded
        self._bytes += sum(map(len, encoded))

    def take(self) -> list[NewJob]:
        """Return its jobs; it is empty again."""
        encoded, self._encoded, self._bytes = self._encoded, [], 0
        self._before += len(encoded)
        return self._order.new_jobs(encoded)


def into(handles: Handles, progress: Progress | None) -> Sink:
    """Return a sink that keeps all handles, and reports how many there are."""

    def keep(some: Handles) -> None:
        handles.extend(some)
        if progress is not None:
            progress(len(handles))

    return keep


def size_of(payloads: object, chunk_size: int | None) -> int | None:
    """Return how many jobs one write has at most; ``None`` for all of a collection, whose jobs are written all or none."""
    if chunk_size is None:
        return None if hasattr(payloads, "__len__") else CHUNK
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
        raise ConfigurationError([f"chunk_size={chunk_size!r}: use an integer from 1"])
    return chunk_size


def chunks(payloads: Payloads, chunk: Chunk) -> Iterator[list[NewJob]]:
    """Yield the jobs of each write; no more payloads are read than fit in one."""
    source = iter(payloads)
    while some := list(islice(source, chunk.room)):
        chunk.add(some)
        if chunk.is_full:
            yield chunk.take()
    if jobs := chunk.take():
        yield jobs


async def achunks(payloads: Payloads | AsyncIterable[Mapping[str, object]], chunk: Chunk) -> AsyncGenerator[list[NewJob], None]:
    """Yield the jobs of each write; the event loop gets a turn after each slice of payloads."""
    source = payloads.__aiter__() if isinstance(payloads, AsyncIterable) else iter(payloads)
    while some := await _next(source, chunk.room) if isinstance(source, AsyncIterator) else list(islice(source, chunk.room)):
        chunk.add(some)
        if chunk.is_full:
            yield chunk.take()
        elif len(some) == _SLICE:
            await turn()
    if jobs := chunk.take():
        yield jobs


def write_chunks(
    source: Iterator[list[NewJob]], begin: Callable[[list[NewJob]], Future[Handles]], width: int, sink: Sink
) -> None:
    """Begin a write for each chunk, ``width`` of them at most under way, and give the handles of each to ``sink`` in their order.

    After an error no more are begun, those under way are waited for, and the error's note is how many jobs are stored. Ctrl-C cancels
    those under way.
    """
    stored, under_way = Stored(sink), deque[Future[Handles]]()

    def settle() -> None:
        handles = under_way[0].result()
        under_way.popleft()
        stored.add(handles)

    try:
        for jobs in source:
            if len(under_way) == width:
                settle()
            under_way.append(begin(jobs))
        while under_way:
            settle()
    except BaseException as error:
        if not isinstance(error, Exception):
            for each in under_way:
                each.cancel()
        with suppress(Exception):
            while under_way:
                settle()
        wait(under_way)
        error.add_note(stored.note())
        raise


async def awrite_chunks(
    source: AsyncGenerator[list[NewJob], None],
    write: Callable[[list[NewJob]], Coroutine[Any, Any, Handles]],
    width: int,
    sink: Sink,
) -> None:
    """Do what ``write_chunks`` does, in the event loop. A cancelled call cancels the writes that are under way."""
    stored, under_way = Stored(sink), deque[asyncio.Task[Handles]]()

    async def settle() -> None:
        handles = await under_way[0]
        under_way.popleft()
        stored.add(handles)

    try:
        async with aclosing(source):
            async for jobs in source:
                if len(under_way) == width:
                    await settle()
                under_way.append(asyncio.get_running_loop().create_task(write(jobs)))
                await turn()  # the write leaves before the next chunk is encoded
        while under_way:
            await settle()
    except BaseException as error:
        if not isinstance(error, Exception):
            for each in under_way:
                each.cancel()
        with suppress(Exception, asyncio.CancelledError):
            while under_way:
                await settle()
        await asyncio.gather(*under_way, return_exceptions=True)
        error.add_note(stored.note())
        raise


class Stored:
    """How many jobs of the beginning of a call are stored."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._count, self._is_over = sink, 0, False

    def add(self, handles: Handles) -> None:
        """Count the jobs of the next chunk."""
        self._count += len(handles)
        if not self._is_over:
            self._is_over = True  # a sink that raises is not called again
            self._sink(handles)
            self._is_over = False

    def note(self) -> str:
        """Return a sentence for the error that ends the call."""
        return f"enqueue_many: the first {self._count:,} jobs are written; of those after them, each chunk is written whole or not at all"


@coroutine
def turn() -> Generator[None, None, None]:
    """Let the event loop run what is ready."""
    yield


async def _next(source: AsyncIterator[Mapping[str, object]], count: int) -> list[Mapping[str, object]]:
    found = list[Mapping[str, object]]()
    while len(found) < count:
        try:
            found.append(await anext(source))
        except StopAsyncIteration:
            break
    return found

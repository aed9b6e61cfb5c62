"""The calls that enqueue many jobs of one task, mixed into ``TaskWithOptions``; ``bulk`` has what moves their chunks."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic

from msgspec import structs

from holdfast._core.payload_batch import encode_many
from holdfast._engine.client.handle import Handle
from holdfast._engine.tasks import bulk
from holdfast.errors import ConfigurationError, PayloadInvalid
from holdfast.sync import PORTAL, refuse_inside_loop

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python before 3.13 has no defaults of type variables

    from holdfast._core.job import NewJob
    from holdfast._engine.client.connections import Connections
    from holdfast._engine.tasks.options import Options
    from holdfast._engine.tasks.registry import TaskDefinition

    Value = TypeVar("Value", default=Any)
else:
    from typing import TypeVar

    Value = TypeVar("Value")


class ManyJobs(Generic[Value]):
    """What a task with options can do with many payloads."""

    _options: Options

    if TYPE_CHECKING:  # TaskWithOptions has them

        @property
        def _definition(self) -> TaskDefinition: ...
        @property
        def _connections(self) -> Connections: ...
        @property
        def _is_keyed(self) -> bool: ...
        def _encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes: ...
        def _new_job(self, payload: bytes) -> NewJob: ...
        async def _write(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]: ...
        def _write_here(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]: ...
        async def _send(self, jobs: Sequence[NewJob], *, is_shared: bool = True) -> list[Handle[Value]]: ...

    async def aenqueue_many(
        self,
        payloads: bulk.Payloads | AsyncIterable[Mapping[str, object]],
        *,
        chunk_size: int | None = None,
        progress: bulk.Progress | None = None,
    ) -> list[Handle[Value]]:
        """Enqueue a job for each payload; ``PayloadInvalid`` names the first that does not fit, by its position.

        A list, or another collection, is one write: all of its jobs are stored, or none. An iterator is read as it is written, 2,000
        payloads at a time or those of 4 MiB; so is a collection with ``chunk_size``. Each chunk is stored as a whole.

        ``progress``: called after each chunk with the number of jobs stored so far; they are those of the first payloads. After an
        error the last number counts all of these, and up to two chunks behind them may be stored, too: the task's ``unique_by`` makes
        it harmless to enqueue them again.
        """
        size, handles = bulk.size_of(payloads, chunk_size), list[Handle[Value]]()
        source, sink = bulk.achunks(payloads, bulk.Chunk(self, size)), bulk.into(handles, progress)
        if size is None:
            async with aclosing(source):
                async for jobs in source:
                    sink(await self._write(jobs))
            return handles
        await bulk.awrite_chunks(source, self._write_apart, self._width, sink)
        return handles

    def enqueue_many(
        self, payloads: bulk.Payloads, *, chunk_size: int | None = None, progress: bulk.Progress | None = None
    ) -> list[Handle[Value]]:
        """Enqueue as ``aenqueue_many`` does, for code without an event loop. Payloads are read, and ``progress`` is called, in this thread.

        >>> import_row.enqueue_many(csv.DictReader(file), progress=print)  # doctest: +SKIP
        2000
        """
        refuse_inside_loop("aenqueue_many")
        handles = list[Handle[Value]]()
        self.write_many(payloads, bulk.size_of(payloads, chunk_size), bulk.into(handles, progress))
        return handles

    def write_many(self, payloads: bulk.Payloads, size: int | None, sink: bulk.Sink) -> None:
        """Enqueue a job for each payload, ``size`` in one write, and give the handles of each write to ``sink``."""
        source = bulk.chunks(payloads, bulk.Chunk(self, size))
        if size is None:
            for jobs in source:
                sink(self._write_here(jobs))
            return
        bulk.write_chunks(source, self._begin, self._width, sink)

    def encode_items(self, payloads: Sequence[Mapping[str, object]], position: int) -> list[bytes]:
        """Check and encode payloads, the first of which has this position in its call."""
        if self._options.unique_key is not None and position + len(payloads) > 1:
            raise ConfigurationError(["unique_key: many jobs cannot share one; enqueue each with its own key"])
        if self._options.raises_on_duplicate and position + len(payloads) > 1:
            raise ConfigurationError(["on_duplicate='raise': of many jobs, some may be new: look at each handle's `created`"])
        encoded = encode_many(self._definition.payload, payloads, is_compared=self._is_keyed)
        return encoded or [self._encode_item(position + place, payload) for place, payload in enumerate(payloads)]

    def new_jobs(self, payloads: Sequence[bytes]) -> list[NewJob]:
        """Return a new job for each payload. Those that differ in nothing else are copies of the first."""
        task, options = self._definition, self._options
        is_keyed = task.unique_by is not None or options.unique_by is not None
        if not payloads or is_keyed or (task.key is not None and not options.key):
            return [self._new_job(payload) for payload in payloads]
        first = self._new_job(payloads[0])
        ids = self._connections.chance.uuid7s(len(payloads) - 1)
        copies = [structs.replace(first, id=job, payload=payload) for job, payload in zip(ids, payloads[1:], strict=True)]
        return [first, *copies]

    @property
    def _width(self) -> int:
        """How many of its writes may be under way at once. In turn: those with the caller's code or connection, or with keys, of which
        the first job's counts."""
        options, connections = self._options, self._connections
        is_plain = options.within is None and options.after is None and not connections.around_enqueue and not self._is_keyed
        return bulk.UNDER_WAY if is_plain else 1

    async def _write_apart(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]:
        """Write the jobs beside other writes of this event loop, if nothing forbids that."""
        return await (self._write(jobs) if self._width == 1 else self._send(jobs, is_shared=False))

    def _begin(self, jobs: Sequence[NewJob]) -> Future[list[Handle[Value]]]:
        """Begin to write the jobs."""
        if self._width == 1:
            done = Future[list[Handle[Value]]]()
            done.set_result(self._write_here(jobs))
            return done
        return PORTAL.begin(self._send(jobs, is_shared=False))

    def _encode_item(self, position: int, payload: Mapping[str, object]) -> bytes:
        if type(payload) is not dict and not isinstance(
            payload, Mapping
        ):  # most are, and the second check costs ten times as much
            raise PayloadInvalid(f"payloads[{position}]: {type(payload).__name__} is not a dict of arguments by name")
        try:
            return self._encode((), payload)
        except PayloadInvalid as error:
            raise type(error)(f"payloads[{position}]: {error}") from error

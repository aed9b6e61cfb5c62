"""A registered task as its callers use it: call it, or enqueue it."""

from collections.abc import AsyncIterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec
from uuid import UUID

from msgspec import structs

from holdfast._core.durations import Duration
from holdfast._core.job import NewJob
from holdfast._core.payload_batch import encode_many
from holdfast._core.uniqueness import UniqueUntil
from holdfast._engine.client.connections import Connections
from holdfast._engine.client.handle import Handle, handles_of, id_of
from holdfast._engine.client.within import aenqueue_within, enqueue_within
from holdfast._engine.tasks import bulk
from holdfast._engine.tasks.after import Join, Parent, When
from holdfast._engine.tasks.around_enqueue import enqueued_within
from holdfast._engine.tasks.celery_names import missing, with_hints
from holdfast._engine.tasks.option_problems import OnDuplicate
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.output import references_in
from holdfast._engine.tasks.prepared import PreparedJob as PreparedJob
from holdfast._engine.tasks.prepared import accepted
from holdfast._engine.tasks.prepared import connections_of as connections_of
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast.errors import ConfigurationError, PayloadInvalid
from holdfast.sync import PORTAL, blocking, refuse_inside_loop

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python before 3.13 has no defaults of type variables

    Value = TypeVar("Value", default=Any)
else:
    from typing import TypeVar

    Value = TypeVar("Value")

Call = ParamSpec("Call")
Payload = ParamSpec("Payload")
Returned = TypeVar("Returned")


class TaskWithOptions(Generic[Returned, Payload, Value]):
    """A task with options, ready to be enqueued any number of times."""

    def __init__(self, task: "Task[..., Returned, ..., Value]", options: Options) -> None:
        self._task, self._options = task, options

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name what does it here, for a method of Celery's tasks."""
            raise AttributeError(missing(type(self).__name__, name), name=name, obj=self)

    def bind(self, *args: Payload.args, **kwargs: Payload.kwargs) -> PreparedJob[Returned]:
        """Check the payload now, for ``job.enqueue`` and for code that enqueues later."""
        given = self._task.definition.payload.named(args, kwargs)
        references = references_in(given)
        if not references:
            return PreparedJob(self._task, self._options, self._encode(args, kwargs))
        present = {name: value for name, value in given.items() if name not in references}
        payload = self._task.definition.payload.without(frozenset(references)).encode((), present)
        return PreparedJob(self._task, self._options, payload, references)

    async def aenqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle[Value]:
        """Enqueue a job: durable when it returns; ``PayloadInvalid`` when the arguments do not fit the handler.

        With ``within=`` the job is written in the caller's transaction, and durable when that commits. The write is awaited if
        the connection's library is async, and else blocks this thread.
        """
        (handle,) = await self._write([self._new_job(self._encode(args, kwargs))])
        return handle

    async def aenqueue_many(
        self,
        payloads: "bulk.Payloads | AsyncIterable[Mapping[str, object]]",
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
            async for jobs in source:
                sink(await self._write(jobs))
            return handles
        await bulk.awrite_chunks(source, self._write_apart, self._width, sink)
        return handles

    def enqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle[Value]:
        """Enqueue as ``aenqueue`` does, for code without an event loop.

        >>> resize.options(unique_key="a.png").enqueue("a.png").created  # doctest: +SKIP
        True
        """
        refuse_inside_loop("aenqueue")
        (handle,) = self._write_here([self._new_job(self._encode(args, kwargs))])
        return handle

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
        encoded = encode_many(self._task.definition.payload, payloads, is_compared=self._is_keyed)
        return encoded or [self._encode_item(position + place, payload) for place, payload in enumerate(payloads)]

    def new_jobs(self, payloads: Sequence[bytes]) -> list[NewJob]:
        """Return a new job for each payload. Those that differ in nothing else are copies of the first."""
        task, options = self._task.definition, self._options
        if not payloads or task.unique_by or options.unique_by or (task.key is not None and not options.key):
            return [self._new_job(payload) for payload in payloads]
        first = self._new_job(payloads[0])
        ids = connections_of(self._task).chance.uuid7s(len(payloads) - 1)
        copies = [structs.replace(first, id=job, payload=payload) for job, payload in zip(ids, payloads[1:], strict=True)]
        return [first, *copies]

    @property
    def _width(self) -> int:
        """How many of its writes may be under way at once. In turn: those with the caller's code or connection, or with keys, of which
        the first job's counts."""
        options, connections = self._options, connections_of(self._task)
        is_plain = options.within is None and options.after is None and not connections.around_enqueue and not self._is_keyed
        return bulk.UNDER_WAY if is_plain else 1

    async def _write_apart(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]:
        """Write the jobs beside other writes of this event loop, if nothing forbids that."""
        return await (self._write(jobs) if self._width == 1 else self._send(jobs, is_shared=False))

    def _begin(self, jobs: Sequence[NewJob]) -> "Future[list[Handle[Value]]]":
        """Begin to write the jobs."""
        if self._width == 1:
            done = Future[list[Handle[Value]]]()
            done.set_result(self._write_here(jobs))
            return done
        return PORTAL.begin(self._send(jobs, is_shared=False))

    async def _write(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]:
        around = connections_of(self._task).around_enqueue
        if not around:
            return await self._send(jobs)
        with enqueued_within(around, jobs) as changed:
            return await self._send(changed)

    def _write_here(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]:
        """Write the jobs with the App's code around it in this thread, whose connections it may need."""
        around = connections_of(self._task).around_enqueue
        if not around:
            return self._send_here(jobs)
        with enqueued_within(around, jobs) as changed:
            return self._send_here(changed)

    async def _send(self, jobs: Sequence[NewJob], *, is_shared: bool = True) -> list[Handle[Value]]:
        return accepted(await self._sent(jobs, is_shared=is_shared), self._options, self._task.name)

    async def _sent(self, jobs: Sequence[NewJob], *, is_shared: bool) -> list[Handle[Value]]:
        connections, within, read = connections_of(self._task), self._options.within, self._task.definition.read_result
        if within is not None:
            return await aenqueue_within(connections, within, jobs, read)
        if (after := self._options.after) is not None:
            return handles_of(jobs, await connections.client().enqueue_after(jobs, after), connections.client, read)
        answer = await connections.client().enqueue(jobs, is_shared=is_shared)
        return handles_of(jobs, answer, connections.client, read)

    def _send_here(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]:
        within = self._options.within
        if within is None:
            return self._send_blocking(jobs)
        handles = enqueue_within(connections_of(self._task), within, jobs, self._task.definition.read_result)
        return accepted(handles, self._options, self._task.name)

    _send_blocking = blocking(_send)

    def _new_job(self, payload: bytes) -> NewJob:
        return PreparedJob(self._task, self._options, payload).new_job()

    def _encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        return self._task.definition.payload.encode(args, kwargs, is_compared=self._is_keyed)

    @property
    def _is_keyed(self) -> bool:
        options = self._options
        return any(each is not None for each in (options.unique_key, options.unique_by, self._task.definition.unique_by))

    def _encode_item(self, position: int, payload: Mapping[str, object]) -> bytes:
        if type(payload) is not dict and not isinstance(
            payload, Mapping
        ):  # most are, and the second check costs ten times as much
            raise PayloadInvalid(f"payloads[{position}]: {type(payload).__name__} is not a dict of arguments by name")
        try:
            return self._encode((), payload)
        except PayloadInvalid as error:
            raise type(error)(f"payloads[{position}]: {error}") from error


class Task(TaskWithOptions[Returned, Payload, Value], Generic[Call, Returned, Payload, Value]):
    """A handler with a name. Calling it calls the plain function, so that tests need no worker.

    Its type parameters: how it is called, what a call returns, how it is enqueued, and what its jobs return.

    >>> @app.task  # doctest: +SKIP
    ... def resize(path: str, width: int = 800) -> str: ...
    >>> resize("a.png")  # runs here  # doctest: +SKIP
    >>> resize.enqueue("a.png", width=400)  # runs in a worker  # doctest: +SKIP
    """

    def __init__(self, definition: TaskDefinition, connections: Connections | None = None) -> None:
        super().__init__(self, Options())
        self.definition, self.connections = definition, connections
        update_wrapper(self, definition.function)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __call__(self, *args: Call.args, **kwargs: Call.kwargs) -> Returned:
        """Run the handler here and now, as the function it is."""
        returned: Returned = self.definition.function(*args, **kwargs)
        return returned

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """Fill in the default of the last type parameter, which Python before 3.13 cannot."""
            given = parameters if isinstance(parameters, tuple) else (parameters,)
            return super().__class_getitem__(given if len(given) != 3 else (*given, Any))

    @property
    def name(self) -> str:
        """The name that its jobs have in the store."""
        return self.definition.name

    def handle(self, id: UUID | str) -> Handle[Value]:
        """Return a handle of a job of this task by its id, as it stands in a URL. No job is looked up before its first call.

        >>> resize.handle("01890a5d-ac96-774b-bcce-b302099a8057").result()  # doctest: +SKIP
        'a.png'
        """
        return Handle(
            id_of(id), self.definition.queue, connections_of(self).client, created=False, read=self.definition.read_result
        )

    @with_hints
    def options(  # size: two lines for each option
        self,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
        unique_key: str | None = None,
        unique_by: Sequence[str] | None = None,
        unique_for: Duration | None = None,
        unique_until: UniqueUntil | None = None,
        on_duplicate: OnDuplicate = "return",
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        within: object = None,
        detached: bool = False,
        after: Sequence[Parent] = (),
        join: Join = "all",
        when: When = "succeeded",
    ) -> TaskWithOptions[Returned, Payload, Value]:
        """Return the task with options for some jobs. ``ConfigurationError`` with all problems at once.

        ``key``: usually the tenant; jobs are listed and steered by it. ``headers``: at most 4 KiB of text by text, which the
        handler reads as ``job.headers``, and its own children inherit.
        ``unique_key``: one unfinished job of the task may have it; another enqueue gets that job's handle, its ``created``
        false, or ``UniqueConflict`` if its payload is another, or with ``on_duplicate="raise"`` in any case.
        ``unique_by``: the parameters whose values are the key. ``unique_for``: a job holds its key for this time since its enqueue,
        although it has completed; a failed or cancelled one frees it. ``unique_until="started"``: a job frees its key when a worker
        first claims it. ``expires_in``: not started by then, it fails instead.
        ``within``: your own connection, in whose open transaction the job is written; it exists if and only if that
        commits. SQLAlchemy's sessions and Django's connections then wake a worker; else ``handle.notify()`` does.
        ``detached``: enqueued by a member of a workflow with ``job.enqueue``, it does not join that workflow.
        ``after``: jobs that exist already, by handle or id; it waits until they have completed, and fails if that cannot be any more.
        ``join``: ``"any"`` or ``AtLeast(2)`` of them are enough. ``when="finished"``: one that did not complete counts, too.
        ``JobNotFound`` for an unknown one, ``Unsupported`` if the store cannot keep such jobs.
        """
        options = Options.of(
            queue=queue,
            key=key,
            priority=priority,
            delay=delay,
            run_at=run_at,
            expires_in=expires_in,
            unique_key=unique_key,
            unique_by=unique_by,
            unique_for=unique_for,
            unique_until=unique_until,
            on_duplicate=on_duplicate,
            tags=tags,
            headers=headers,
            within=within,
            detached=detached,
            after=after,
            join=join,
            when=when,
        )
        return TaskWithOptions(self, options)

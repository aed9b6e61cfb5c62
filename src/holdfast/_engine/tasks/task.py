"""A registered task as its callers hold it: call it, or enqueue it."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from msgspec import Struct

from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.durations import Duration
from holdfast._core.identity import enqueue_call_id
from holdfast._core.job import NewJob
from holdfast._core.payload import encode_payload
from holdfast._core.policy import Policy
from holdfast._engine.client.client import require_no_conflict
from holdfast._engine.client.connections import Connections
from holdfast._engine.client.handle import Handle
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast.errors import ConfigurationError, PayloadInvalid, Unsupported
from holdfast.sync import blocking, refuse_inside_loop, soon

Call = ParamSpec("Call")
Payload = ParamSpec("Payload")
Returned = TypeVar("Returned")


class Desk:
    """Where an App's tasks hand in their jobs; that of a group opens when an App includes it."""

    def __init__(self, connections: Connections | None = None) -> None:
        self._opened = connections

    def open(self, connections: Connections) -> None:
        """From now on jobs go there."""
        self._opened = connections

    @property
    def _connections(self) -> Connections:
        if self._opened is None:
            raise ConfigurationError(["this task is in a TaskGroup that no App has included: call app.include(group) first"])
        return self._opened

    def job(self, definition: TaskDefinition, options: Options, payload: bytes) -> NewJob:
        """A job to be."""
        return options.job(
            self._connections.chance.uuid7(),
            definition.name,
            payload,
            queue=definition.queue,
            priority=definition.priority,
            policy=definition.policy,
        )

    def foreign_job(self, task: str, payload: Mapping[str, object]) -> NewJob:
        """The same for a task whose code is not here."""
        data = encode_payload(task, payload)
        return Options().job(self._connections.chance.uuid7(), task, data, queue="default", priority=0, policy=Policy())

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Handle]:
        """All in one atomic write. ``UniqueConflict`` when a key is taken by a job with another payload."""
        return self.handles(jobs, await self._connections.client().enqueue(jobs))

    def enqueue_within(self, connection: object, jobs: Sequence[NewJob]) -> list[Handle]:
        """All inside the caller's own transaction and thread: they exist if and only if it commits, so nobody is told before."""
        answer = self._insert_within(connection, jobs)
        if isinstance(answer, Coroutine):
            answer.close()
            kind = type(connection)
            raise Unsupported(f"within: a {kind.__module__}.{kind.__qualname__} is awaited: use `await … .aenqueue(…)`")
        return self._handles_within(connection, jobs, answer)

    async def aenqueue_within(self, connection: object, jobs: Sequence[NewJob]) -> list[Handle]:
        """The same in the caller's loop, which a connection that is not awaited blocks meanwhile."""
        answer = self._insert_within(connection, jobs)
        return self._handles_within(connection, jobs, await answer if isinstance(answer, Coroutine) else answer)

    def _insert_within(self, connection: object, jobs: Sequence[NewJob]) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        store = self._connections.store
        if not store.capabilities.caller_transaction:
            name = store.capabilities.name
            raise Unsupported(f"within: the {name} store has no transactions of the caller's; enqueue after your own commit")
        lot = self._connections.chance.uuid4()
        return store.enqueue_within(connection, enqueue_call_id(jobs[0].id, lot), jobs) if jobs else EnqueueAnswer()

    def _handles_within(self, connection: object, jobs: Sequence[NewJob], answer: EnqueueAnswer) -> list[Handle]:
        require_no_conflict(jobs, answer)
        written = [job for job in jobs if job.id not in answer.duplicates]
        if written:
            self._connections.after_commit(connection, lambda: soon(lambda: self._tell(written)))
        return self.handles(jobs, answer)

    async def _tell(self, written: Sequence[NewJob]) -> None:
        with suppress(Exception):  # they are committed, and a hint may be lost
            await self._connections.client().announce(written)

    def handles(self, jobs: Sequence[NewJob], answer: EnqueueAnswer) -> list[Handle]:
        """One for each job, or for the one that has its key already."""
        if not answer.duplicates:
            connect = self._connections.client
            return [Handle(job.id, job.queue, connect) for job in jobs]
        return [self.handle(job, answer.duplicates.get(job.id)) for job in jobs]

    def handle(self, job: NewJob, duplicate: Duplicate | None) -> Handle:
        """The job's, or that of the one that has its key already."""
        connect = self._connections.client
        if duplicate is None:
            return Handle(job.id, job.queue, connect)
        return Handle(duplicate.job, job.queue, connect, created=False)


class PreparedJob(Struct, frozen=True):
    """A job to be: a task with options and a checked payload. Each ``job()`` has an id of its own."""

    desk: Desk
    definition: TaskDefinition
    options: Options
    payload: bytes

    def bind(self) -> "PreparedJob":
        """This one, so that ``job.enqueue`` takes it as it takes a task."""
        return self

    def job(self) -> NewJob:
        """A new job."""
        return self.desk.job(self.definition, self.options, self.payload)


class TaskWithOptions(Generic[Payload]):
    """A task with options, ready to be enqueued any number of times."""

    def __init__(self, definition: TaskDefinition, desk: Desk, options: Options) -> None:
        self._definition = definition
        self._desk = desk
        self._options = options

    def bind(self, *args: Payload.args, **kwargs: Payload.kwargs) -> PreparedJob:
        """A job to be, its payload checked now: for ``job.enqueue`` and whoever enqueues later."""
        return PreparedJob(self._desk, self._definition, self._options, self._encode(args, kwargs))

    async def aenqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """Durable when it returns; ``PayloadInvalid`` when the arguments do not fit the handler.

        With ``within=`` it is written in the caller's transaction, and durable when that commits: awaited on a connection
        whose library is, else in this thread.
        """
        job = self._desk.job(self._definition, self._options, self._encode(args, kwargs))
        (handle,) = await self._write([job])
        return handle

    async def aenqueue_many(self, payloads: Iterable[Mapping[str, object]]) -> list[Handle]:
        """One atomic write: all of them or none; ``PayloadInvalid`` names the first that does not fit, by its place."""
        return await self._write(self._jobs(payloads))

    def enqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """``aenqueue`` for code without an event loop.

        >>> resize.options(unique_key="a.png").enqueue("a.png").created  # doctest: +SKIP
        True
        """
        if self._options.within is None:
            return self._enqueue(*args, **kwargs)
        refuse_inside_loop("aenqueue")
        return self._desk.enqueue_within(self._options.within, [self.bind(*args, **kwargs).job()])[0]

    def enqueue_many(self, payloads: Iterable[Mapping[str, object]]) -> list[Handle]:
        """``aenqueue_many`` for code without an event loop."""
        if self._options.within is None:
            return self._enqueue_many(payloads)
        refuse_inside_loop("aenqueue_many")
        return self._desk.enqueue_within(self._options.within, self._jobs(payloads))

    _enqueue = blocking(aenqueue)
    _enqueue_many = blocking(aenqueue_many)

    def _write(self, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Handle]]:
        if self._options.within is None:
            return self._desk.enqueue(jobs)
        return self._desk.aenqueue_within(self._options.within, jobs)

    def _jobs(self, payloads: Iterable[Mapping[str, object]]) -> list[NewJob]:
        encoded = [self._encode_item(place, payload) for place, payload in enumerate(payloads)]
        if self._options.unique_key is not None and len(encoded) > 1:
            raise ConfigurationError(["unique_key: many jobs cannot share one; enqueue each with a key of its own"])
        return [self._desk.job(self._definition, self._options, payload) for payload in encoded]

    def _encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        return self._definition.payload.encode(args, kwargs, is_compared=self._options.unique_key is not None)

    def _encode_item(self, place: int, payload: Mapping[str, object]) -> bytes:
        if not isinstance(payload, Mapping):
            raise PayloadInvalid(f"payloads[{place}]: {type(payload).__name__} is no dict of arguments by name")
        try:
            return self._encode((), payload)
        except PayloadInvalid as error:
            raise type(error)(f"payloads[{place}]: {error}") from error


class Task(TaskWithOptions[Payload], Generic[Call, Returned, Payload]):
    """A handler with a name. Calling it calls the plain function, so that tests need no worker.

    >>> @app.task  # doctest: +SKIP
    ... def resize(path: str, width: int = 800) -> str: ...
    >>> resize("a.png")  # runs here  # doctest: +SKIP
    >>> resize.enqueue("a.png", width=400)  # runs in a worker  # doctest: +SKIP
    """

    def __init__(self, definition: TaskDefinition, desk: Desk) -> None:
        super().__init__(definition, desk, Options())
        update_wrapper(self, definition.function)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __call__(self, *args: Call.args, **kwargs: Call.kwargs) -> Returned:
        """Run the handler here and now, as the function it is."""
        returned: Returned = self._definition.function(*args, **kwargs)
        return returned

    @property
    def name(self) -> str:
        """What its jobs are called in the store."""
        return self._definition.name

    def options(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
        unique_key: str | None = None,
        tags: Sequence[str] = (),
        within: object = None,
    ) -> TaskWithOptions[Payload]:
        """The same task with options for some jobs. ``ConfigurationError`` with all problems at once.

        ``unique_key``: one unfinished job of the task may have it; another enqueue gets that job's handle, its ``created``
        false, or ``UniqueConflict`` if its payload is another. ``expires_in``: not started by then, it fails instead.
        ``within``: your own connection, in whose open transaction the job is written; it exists if and only if that
        commits. SQLAlchemy's sessions and Django's connections then wake a worker; else ``handle.notify()`` does.
        """
        options = Options.of(
            queue=queue,
            priority=priority,
            delay=delay,
            run_at=run_at,
            expires_in=expires_in,
            unique_key=unique_key,
            tags=tags,
            within=within,
        )
        return TaskWithOptions(self._definition, self._desk, options)

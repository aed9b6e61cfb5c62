"""A registered task as its callers use it: call it, or enqueue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec
from uuid import UUID

from msgspec import Struct

from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness, UniqueUntil
from holdfast._engine.client.handle import Handle, handles_of, id_of
from holdfast._engine.tasks.around_enqueue import enqueued_within
from holdfast._engine.tasks.celery_names import missing, with_hints
from holdfast._engine.tasks.many import ManyJobs
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.output import NotAnArgument, references_in
from holdfast.errors import ConfigurationError, UniqueConflict
from holdfast.sync import blocking, refuse_inside_loop

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python before 3.13 has no defaults of type variables

    from holdfast._core.answers import EnqueueAnswer
    from holdfast._core.durations import Duration
    from holdfast._core.job import NewJob
    from holdfast._engine.client.connections import Connections
    from holdfast._engine.tasks.after import Join, Parent, When
    from holdfast._engine.tasks.option_problems import OnDuplicate
    from holdfast._engine.tasks.reference import Reference
    from holdfast._engine.tasks.registry import TaskDefinition

    Value = TypeVar("Value", default=Any)
else:
    from typing import TypeVar

    Value = TypeVar("Value")

Call = ParamSpec("Call")
Payload = ParamSpec("Payload")
Returned = TypeVar("Returned")
Bound = TypeVar("Bound", covariant=True)


class PreparedJob(NotAnArgument, Struct, Generic[Bound], frozen=True):
    """A task with options and a checked payload. Each ``new_job()`` has another id.

    ``references``: the parameters that the payload lacks, because they get the results of other members of a workflow.
    """

    task: Task[..., Bound, ...]
    options: Options
    payload: bytes
    references: Mapping[str, Reference | list[Reference]] = {}
    instead: ClassVar[str] = (
        "a bound task has no value: add it to the workflow first, node = w.add(task.bind(…)), and pass on node.output"
    )

    @property
    def name(self) -> str:
        """The name of its task."""
        return self.task.name

    @property
    def is_detached(self) -> bool:
        """Whether it belongs to no workflow of the job that enqueues it."""
        return self.options.detached

    @property
    def has_deadline(self) -> bool:
        """Whether it is a workflow with a deadline."""
        settings = self.task.definition.workflow
        return settings is not None and settings.deadline is not None

    def read(self, data: bytes) -> Bound:
        """Return a stored result with the type that the function is annotated with; that of a coroutine is what it returns."""
        value: Bound = self.task.definition.read_result(data)
        return value

    def bind(self) -> PreparedJob[Bound]:
        """Return this one, so that ``job.enqueue`` takes it as it takes a task."""
        return self

    def new_job(self) -> NewJob:
        """Return a new job. ``ConfigurationError`` if it lacks results of a workflow's members."""
        if self.references:
            names = ", ".join(sorted(self.references))
            raise ConfigurationError(
                [f"{self.task.name}: {names}: a result of a workflow's member: add this job to that workflow"]
            )
        task, unique_by = self.task.definition, self.options.unique_by
        if task.unique_by is None and unique_by is None:
            return self._job(None, task.uniqueness)
        return self._job(task.unique_key_of(self.payload, unique_by), task.uniqueness)

    def new_member(self) -> NewJob:
        """Return a new job of a workflow, whose store fills in the results that it lacks; the workflow may have a unique key."""
        return self._job()

    def _job(self, unique_key: str | None = None, uniqueness: Uniqueness = UNTIL_FINISHED) -> NewJob:
        task, job = self.task.definition, connections_of(self.task).chance.uuid7()
        options, name, payload = self.options, task.name, self.payload
        key = "" if task.key is None or options.key else task.key_of(payload)
        return options.new_job(
            job,
            name,
            payload,
            queue=task.queue,
            key=key,
            priority=task.priority,
            policy=task.policy,
            unique_key=None if options.unique_key is not None else unique_key,
            uniqueness=uniqueness,
        )

    def new_child(self) -> NewJob:
        """Return a new job for a handler to enqueue. The graph of a workflow is built once a worker has claimed it.

        ``ConfigurationError`` with ``within=`` or ``after=``: its parent's token fences the write.
        """
        for option in ("within", "after"):
            if getattr(self.options, option) is not None:
                raise ConfigurationError([f"{option}: a child is written under its parent's token; leave {option} out"])
        return self.new_job()

    def around(self, job: NewJob) -> AbstractContextManager[Sequence[NewJob]]:
        """Return the App's code around the enqueue of this job; it yields the job to be written."""
        return enqueued_within(connections_of(self.task).around_enqueue, [job])

    def handle(self, job: NewJob, answer: EnqueueAnswer) -> Handle[Any]:
        """Return the handle of a job that was written. ``UniqueConflict`` if a job with another payload has its key."""
        handles = handles_of([job], answer, connections_of(self.task).client, self.task.definition.read_result)
        return _accepted(handles, self.options, self.name)[0]


class TaskWithOptions(ManyJobs[Value], Generic[Returned, Payload, Value]):
    """A task with options, ready to be enqueued any number of times."""

    def __init__(self, task: Task[..., Returned, ..., Value], options: Options) -> None:
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

    def enqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle[Value]:
        """Enqueue as ``aenqueue`` does, for code without an event loop.

        >>> resize.options(unique_key="a.png").enqueue("a.png").created  # doctest: +SKIP
        True
        """
        refuse_inside_loop("aenqueue")
        (handle,) = self._write_here([self._new_job(self._encode(args, kwargs))])
        return handle

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
        return _accepted(await self._sent(jobs, is_shared=is_shared), self._options, self._task.name)

    async def _sent(self, jobs: Sequence[NewJob], *, is_shared: bool) -> list[Handle[Value]]:
        connections, within, read = connections_of(self._task), self._options.within, self._task.definition.read_result
        if within is not None:
            from holdfast._engine.client.within import aenqueue_within

            return await aenqueue_within(connections, within, jobs, read)
        if (after := self._options.after) is not None:
            return handles_of(jobs, await connections.client().enqueue_after(jobs, after), connections.client, read)
        answer = await connections.client().enqueue(jobs, is_shared=is_shared)
        return handles_of(jobs, answer, connections.client, read)

    def _send_here(self, jobs: Sequence[NewJob]) -> list[Handle[Value]]:
        within = self._options.within
        if within is None:
            return self._send_blocking(jobs)
        from holdfast._engine.client.within import enqueue_within

        handles = enqueue_within(connections_of(self._task), within, jobs, self._task.definition.read_result)
        return _accepted(handles, self._options, self._task.name)

    _send_blocking = blocking(_send)

    def _new_job(self, payload: bytes) -> NewJob:
        return PreparedJob(self._task, self._options, payload).new_job()

    def _encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bytes:
        return self._task.definition.payload.encode(args, kwargs, is_compared=self._is_keyed)

    @property
    def _definition(self) -> TaskDefinition:
        return self._task.definition

    @property
    def _connections(self) -> Connections:
        return connections_of(self._task)

    @property
    def _is_keyed(self) -> bool:
        options = self._options
        return any(each is not None for each in (options.unique_key, options.unique_by, self._task.definition.unique_by))


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


def _accepted(handles: list[Handle[Any]], options: Options, task: str) -> list[Handle[Any]]:
    """Return the handles. ``UniqueConflict`` if the caller wants no earlier job in place of a new one."""
    earlier = [each for each in handles if not each.created] if options.raises_on_duplicate else []
    if earlier:
        raise UniqueConflict(f"task {task}: job {earlier[0].id} holds the unique key, and on_duplicate='raise'", earlier[0].id)
    return handles


def connections_of(task: Task[..., Any, ...]) -> Connections:
    """Return the connections of the task's App. ``ConfigurationError`` if no App has included its group yet."""
    if task.connections is None:
        raise ConfigurationError(["this task is in a TaskGroup that no App has included: call app.include(group) first"])
    return task.connections

"""A registered task as its callers hold it: call it, or enqueue it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from holdfast._core.durations import Duration
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._engine.client import Client
from holdfast._engine.handle import Handle
from holdfast._engine.options import Options
from holdfast._engine.registry import TaskDefinition
from holdfast._ports.clock import Chance
from holdfast.sync import blocking

Call = ParamSpec("Call")
Payload = ParamSpec("Payload")
Returned = TypeVar("Returned")


class Desk:
    """Where an App's tasks hand in their jobs: a client for the running event loop, and ids."""

    def __init__(self, connect: Callable[[], Client], chance: Chance) -> None:
        self._connect = connect
        self._chance = chance

    async def enqueue(self, definition: TaskDefinition, options: Options, payloads: Iterable[bytes]) -> list[Handle]:
        """One job per payload, all in one atomic write."""
        queue = options.queue or definition.queue
        priority = definition.priority if options.priority is None else options.priority
        return await self.write(definition.name, payloads, queue, priority, policy=definition.policy, options=options)

    async def write(
        self, task: str, payloads: Iterable[bytes], queue: str, priority: int, *, policy: Policy, options: Options
    ) -> list[Handle]:
        """The same for a task whose code is not here."""
        jobs = [
            NewJob(
                id=self._chance.uuid7(),
                task=task,
                payload=payload,
                policy=policy,
                queue=queue,
                priority=priority,
                delay=options.delay,
                run_at=options.run_at,
                tags=options.tags,
            )
            for payload in payloads
        ]
        await self._connect().enqueue(jobs)
        return [Handle(job.id, queue, self._connect) for job in jobs]


class Order(Generic[Payload]):
    """A task with options, ready to be enqueued any number of times."""

    def __init__(self, definition: TaskDefinition, desk: Desk, options: Options) -> None:
        self._definition = definition
        self._desk = desk
        self._options = options

    async def aenqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """Durable when it returns; ``PayloadInvalid`` when the arguments do not fit the handler."""
        payload = self._definition.payload.encode(args, kwargs)
        (handle,) = await self._desk.enqueue(self._definition, self._options, [payload])
        return handle

    async def aenqueue_many(self, payloads: Iterable[Mapping[str, object]]) -> list[Handle]:
        """One atomic write: all of them or none; ``PayloadInvalid`` names the first that does not fit."""
        encoded = [self._definition.payload.encode((), payload) for payload in payloads]
        return await self._desk.enqueue(self._definition, self._options, encoded)

    enqueue = blocking(aenqueue)
    enqueue_many = blocking(aenqueue_many)


class Task(Order[Payload], Generic[Call, Returned, Payload]):
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
        tags: Sequence[str] = (),
    ) -> Order[Payload]:
        """The task with other options for the jobs enqueued through the answer; ``ConfigurationError`` names all problems."""
        options = Options.of(queue=queue, priority=priority, delay=delay, run_at=run_at, tags=tags)
        return Order(self._definition, self._desk, options)


AnyTask = Task[..., Any, ...]

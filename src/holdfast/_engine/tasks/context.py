"""What a handler receives: its job."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast._engine.tasks.calling import AsyncCalls, BlockingCalls
from holdfast._engine.tasks.inputs import PAGE, input_reader
from holdfast._engine.tasks.spans import span

if TYPE_CHECKING:
    from holdfast._core.durations import Duration
    from holdfast._core.job import Failed, Json
    from holdfast._engine.client.handle import Handle
    from holdfast._engine.tasks.child_spec import Bindable, Payload

Result = TypeVar("Result")


class Job(AsyncCalls):
    """The job of an ``async def`` handler.

    >>> async def analyze(job: Job, url: str) -> None:
    ...     start = (job.checkpoint_value or {"next": 0})["next"]
    ...     await job.progress(stage="walk", fraction=0.5)
    ...     await job.checkpoint({"next": start + 1})
    """

    async def progress(self, *, stage: str | None = None, fraction: float | None = None, message: str | None = None) -> None:
        """Report how far the job is; coalesced (the latest wins), returns at once. Raises ``JobLost``."""
        await self._progress(stage, fraction, message)

    async def alive(self) -> None:
        """Report that the job moves, without new progress."""
        await self._progress(None, None, None)

    async def checkpoint(self, value: Json) -> None:
        """Save where the next attempt starts; durable when it returns. At most 64 KiB of JSON, else ``PayloadTooLarge``."""
        await self._save(value)

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, unordered: bool = False, **kwargs: Any) -> Json:
        """Call the function, record what it returned, and return that; once it is recorded, no later attempt calls the function again.

        Without it, an attempt that follows a crash or a failure does everything again. The function may be sync or async; what it
        returns is JSON, and this returns it as plain data in every attempt. An exception is not recorded. A crash after the function
        and before the record calls it again, with the same ``job.step_key``.

        A step is known by its name, and by which use of that name it is. If the code asks for a step without a record, although it has
        not asked for one that has a record and ran with no other beside it, the code was changed. Then the job is held, and
        ``holdfast jobs explain`` names how to go on. Steps whose order may differ between attempts are ``unordered``.

        Raises ``JobLost``, and ``PayloadTooLarge`` beyond 64 KiB for a step, 4 MiB for all, or 1,000 steps.

        >>> receipt = await job.step("charge", charge, order)  # doctest: +SKIP
        """
        step = await self._begin_step(name, is_unordered=unordered)
        if step.record is not None:
            return step.recorded()
        with span("job.step", step=name):
            with self._step_log().running(step):
                value = function(*args, **kwargs)
                if isinstance(value, Awaitable):
                    value = await value
            return await self._end_step(step, value)

    async def sleep(self, for_: Duration) -> None:
        """Sleep for a time that begins with the first attempt to ask; later attempts sleep what is left of it.

        Up to one beat the handler sleeps in its slot. A longer sleep suspends the job: its slot is free, the job is scheduled, no attempt
        is spent, and the handler is called again from its top when the time is over. So do what must not be repeated in steps. The
        handler ends by a ``BaseException``, which it must not keep. Raises ``JobLost``.

        >>> await job.sleep("2h")  # doctest: +SKIP
        """
        await self._sleep(for_)

    async def wait_for(self, name: str, *, timeout: Duration | None = None) -> Json:
        """Return the value of the oldest signal of that name that the job has not consumed; without one, suspend until it comes.

        A signal is consumed once, and its value is a step: later attempts get it again. The job waits as in ``job.sleep``, shown as
        blocked, for one signal at a time. Raises ``TimeoutError`` when ``timeout`` is over, which is recorded too, and ``JobLost``.

        >>> decision = await job.wait_for("approved", timeout="3d")  # doctest: +SKIP
        """
        return await self._wait_for(name, timeout)

    @overload
    def inputs(self, node: str, /) -> AsyncIterator[Json | Failed]: ...
    @overload
    def inputs(self, node: str, kind: type[Result], /) -> AsyncIterator[Result | Failed]: ...
    async def inputs(self, node: str, kind: Any = Any, /) -> AsyncIterator[Any]:
        """Iterate over the outcomes of a node that this job depends on: of a map those of its items, in order.

        The results that a job takes as arguments are all in memory, 16 MiB at most. Here only a page of that size is, for any number of
        items. Make the job wait for the node with ``after=[node]``, and give its name; ``kind`` is the type of one result. An item that
        did not complete is a ``Failed``. Each page is read when it is reached, as it is recorded then.

        Raises ``ConfigurationError``, naming the nodes that the job depends on, for any other name, ``PayloadInvalid`` for a result that
        is not of that type, and ``JobLost``.

        >>> async for report in job.inputs("test", Report):  # doctest: +SKIP
        ...     if not isinstance(report, Failed):
        ...         passed += report.passed
        """
        read, jobs = input_reader(node, kind), await self._input_jobs(node)
        for start in range(0, len(jobs), PAGE):
            for place, outcome in await self._input_page(jobs, start):
                yield read(place, outcome)

    async def enqueue(self, other: Bindable[Payload], /, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """Enqueue a child; it is durable when this returns. Raises ``JobLost``, and enqueues nothing, if this attempt lost its job.

        The child of a member of a workflow joins that workflow, which ends after it, and fails if it fails; a child with
        ``.options(detached=True)`` does not.

        >>> await job.enqueue(thumbnail.options(priority=5), path="a.png")  # doctest: +SKIP
        """
        child = other.bind(*args, **kwargs)
        with child.around(self._new_child(child)) as (job,):
            return await self._enqueue(child, job)

    @asynccontextmanager
    async def transaction(self, *, within: Any = None) -> AsyncIterator[Any]:
        """Open a transaction in the store's database, which commits only if the job still belongs to this attempt; yields a connection.

        ``within`` is a connection or session of your own, of a library that the store knows; one that is not awaited blocks the event
        loop. Without it the connection is the store's. Keep it short: it delays other writers, and is rolled back with an error when it
        takes too long. Raises ``JobLost``, and ``Unsupported`` for a connection on which the job cannot be checked.

        >>> async with job.transaction() as connection:  # doctest: +SKIP
        ...     await connection.execute("UPDATE orders SET paid = 1 WHERE id = ?", [order])
        """
        self._require_owned()
        with span("job.transaction"):
            async with self._reporter.transaction(self._claim.job, within) as connection:
                yield connection


class SyncJob(BlockingCalls):
    """The job of a ``def`` handler, which runs in a thread: the same names, blocking.

    >>> def resize(job: SyncJob, path: str) -> None:
    ...     for done in range(10):
    ...         job.progress(fraction=done / 10)
    """

    def progress(self, *, stage: str | None = None, fraction: float | None = None, message: str | None = None) -> None:
        """Report how far the job is; coalesced. Raises ``JobLost``."""
        self._in_loop(self._progress(stage, fraction, message))

    def alive(self) -> None:
        """Report that the job moves, without new progress."""
        self._in_loop(self._progress(None, None, None))

    def checkpoint(self, value: Json) -> None:
        """Save where the next attempt starts; durable when it returns."""
        self._in_loop(self._save(value))

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, unordered: bool = False, **kwargs: Any) -> Json:
        """Call the function, record what it returned, and return that; see ``Job.step``.

        >>> receipt = job.step("charge", charge, order)  # doctest: +SKIP
        """
        step = self._in_loop(self._begin_step(name, is_unordered=unordered))
        if step.record is not None:
            return step.recorded()
        with span("job.step", step=name):
            with self._step_log().running(step):
                value = function(*args, **kwargs)
                if inspect.iscoroutine(value):
                    value = self._in_loop(value)
            return self._in_loop(self._end_step(step, value))

    def sleep(self, for_: Duration) -> None:
        """Sleep for a time that begins with the first attempt to ask; see ``Job.sleep``.

        >>> job.sleep("2h")  # doctest: +SKIP
        """
        self._in_loop(self._sleep(for_))

    def wait_for(self, name: str, *, timeout: Duration | None = None) -> Json:
        """Return the value of the oldest signal of that name, or suspend until it comes; see ``Job.wait_for``.

        >>> decision = job.wait_for("approved", timeout="3d")  # doctest: +SKIP
        """
        return self._in_loop(self._wait_for(name, timeout))

    @overload
    def inputs(self, node: str, /) -> Iterator[Json | Failed]: ...
    @overload
    def inputs(self, node: str, kind: type[Result], /) -> Iterator[Result | Failed]: ...
    def inputs(self, node: str, kind: Any = Any, /) -> Iterator[Any]:
        """Iterate over the outcomes of a node that this job depends on, page by page; see ``Job.inputs``.

        >>> passed = sum(each.passed for each in job.inputs("test", Report) if not isinstance(each, Failed))  # doctest: +SKIP
        """
        read, jobs = input_reader(node, kind), self._in_loop(self._input_jobs(node))
        for start in range(0, len(jobs), PAGE):
            for place, outcome in self._in_loop(self._input_page(jobs, start)):
                yield read(place, outcome)

    def enqueue(self, other: Bindable[Payload], /, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """Enqueue a child; it is durable when this returns. Raises ``JobLost``, and enqueues nothing, if this attempt lost its job."""
        child = other.bind(*args, **kwargs)
        with child.around(self._new_child(child)) as (job,):
            return self._in_loop(self._enqueue(child, job))

    @contextmanager
    def transaction(self, *, within: Any = None) -> Iterator[Any]:
        """Open a transaction in the store's database, which commits only if the job still belongs to this attempt; yields a connection.

        ``within`` is a connection or session of your own, see ``Job.transaction``: with Django's it is ``atomic()``.

        >>> with job.transaction(within=session):  # doctest: +SKIP
        ...     session.get(Order, order).paid = True
        """
        self._require_owned()
        with span("job.transaction"), self._reporter.blocking_transaction(self._claim.job, within) as connection:
            yield connection

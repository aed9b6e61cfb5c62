"""What a handler receives: its job."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent import futures
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.durations import Duration, seconds
from holdfast._core.headers import inherited
from holdfast._core.job import ActiveJob, Claim, Json, NewJob, RescueReason, Token
from holdfast._core.outcome import StepsChanged, Suspend
from holdfast._core.payload import cut_text, decode_json, encode_checkpoint, encode_step
from holdfast._core.steps import usable
from holdfast._engine.client.handle import Handle
from holdfast._engine.tasks.child_spec import Bindable, ChildSpec, Payload
from holdfast._engine.tasks.steps import Step, StepLog, StepWriter, current_key
from holdfast.errors import JobLost

MESSAGE_LIMIT = 1024
Result = TypeVar("Result")


class ChildWriter(Protocol):
    """Writes the jobs that a handler enqueues."""

    async def enqueue(self, job: ActiveJob, child: NewJob) -> EnqueueAnswer:
        """Return once the child is durable. ``JobLost`` if the job belongs to another attempt: then there is no child."""
        ...


class ProgressSink(Protocol):
    """Takes a handler's reports: the worker's progress writer or, in a runner process, the pipe to the worker."""

    @property
    def children(self) -> ChildWriter:
        """The writer of the child jobs that a handler enqueues with ``job.enqueue``."""
        ...

    @property
    def steps(self) -> StepWriter:
        """The reader and writer of the steps that a handler takes with ``job.step``."""
        ...

    def progress(self, job: ActiveJob, *, stage: str | None, fraction: float | None, message: str | None) -> None:
        """Keep the latest progress until the next write."""
        ...

    async def checkpoint(self, job: ActiveJob, data: bytes) -> None:
        """Return once the checkpoint is durable; ``JobLost`` if the job belongs to another attempt."""
        ...

    def transaction(self, job: ActiveJob) -> AbstractAsyncContextManager[Any]:
        """Open a transaction that commits the user's rows only if the job's token is still valid."""
        ...

    def blocking_transaction(self, job: ActiveJob) -> AbstractContextManager[Any]:
        """Open the same transaction for code outside of an event loop."""
        ...


class JobContext:
    """What both kinds of handler see of their job; the engine marks it when the job is lost or to be cancelled."""

    state: Any = None
    """What ``App(lifespan=…)`` yielded in this worker: connections and the like, which its handlers share."""
    on_begun: Callable[[], None] | None = None
    """For the engine: called when code that runs in another process starts there."""
    uses_steps = False
    """For the engine: whether this attempt has asked for the job's steps."""

    def __init__(self, claim: Claim, reporter: ProgressSink) -> None:
        self._claim = claim
        self._reporter = reporter
        self._checkpoint = claim.checkpoint
        self._is_cancelled = claim.job.cancel_requested
        self._is_lost = self._is_draining = False
        self.saw_cancellation = False
        self._steps: StepLog | None = None

    @property
    def id(self) -> UUID:
        """The job's id: the same in every attempt, so an idempotency key."""
        return self._claim.job.id

    @property
    def task(self) -> str:
        """The name of the job's task."""
        return self._claim.job.task

    @property
    def key(self) -> str:
        """The job's key, usually the tenant; empty if it has none."""
        return self._claim.key

    @property
    def headers(self) -> dict[str, str]:
        """The headers the job was enqueued with; a copy. Jobs that this one enqueues inherit them."""
        return dict(self._claim.headers)

    @property
    def attempt(self) -> int:
        """Which start of the handler this is, from 1."""
        return self._claim.job.attempt

    @property
    def crashes(self) -> int:
        """How many workers have died while they ran this job."""
        return self._claim.job.crashes

    @property
    def rescued(self) -> RescueReason | None:
        """Why this job was last taken from a worker while its code ran; ``None``: it never was."""
        return None if self._claim.rescue is None else self._claim.rescue.reason

    @property
    def token(self) -> Token:
        """The fencing token of this attempt; give its number to outside systems that can compare."""
        return self._claim.job.token

    @property
    def checkpoint_value(self) -> Json:
        """What the last checkpoint of any attempt saved, or ``None``."""
        return None if self._checkpoint is None else decode_json(self._checkpoint)

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler should end soon. A handler that saw it and returned nothing has not completed its job."""
        self.saw_cancellation = self._is_cancelled
        return self.saw_cancellation

    @property
    def step_key(self) -> str:
        """The idempotency key of the step whose function runs: the same in every attempt, ``job id:name:nth``.

        A step whose process dies before its result is recorded runs again. An outside system that knows the key does its work once.
        """
        return current_key()

    @property
    def suspension(self) -> Suspend | StepsChanged | None:
        """Why the handler must end, although its job has not; for the engine."""
        return None if self._steps is None else self._steps.suspension

    @property
    def unused_steps(self) -> tuple[str, ...]:
        """The recorded steps that this attempt has not asked for; for the engine."""
        return () if self._steps is None else self._steps.unused

    def mark_lost(self) -> None:
        """Make every later call raise ``JobLost``; for the engine."""
        self._is_lost = True

    def mark_cancelled(self) -> None:
        """Set ``is_cancelled`` for a handler that reads it; for the engine."""
        self._is_cancelled = True

    def mark_draining(self) -> None:
        """Ask a run that could go on for long to end at its next good moment; for the engine."""
        self._is_draining = True

    def _require_owned(self) -> None:
        if self._is_lost:
            raise JobLost(f"job {self.id} was taken from this attempt ({self.attempt}); its handler must end")
        if self._steps is not None:
            self._steps.require_awake()

    def _step_log(self) -> StepLog:
        self._require_owned()
        if self._steps is None:
            self._steps, self.uses_steps = StepLog(self._claim.job, self._reporter.steps), True
        return self._steps

    async def _begin_step(self, name: str, *, is_unordered: bool) -> Step:
        return await self._step_log().begin(usable("step", name), is_unordered=is_unordered)

    async def _end_step(self, step: Step, value: Json) -> Json:
        assert self._steps is not None
        try:
            result = encode_step(step.name, value)
        except BaseException:
            self._steps.drop(step)
            raise
        await self._steps.end(step, result)
        if self._claim.job.policy.progress_within is not None:
            self._reporter.progress(self._claim.job, stage=None, fraction=None, message=None)
        return decode_json(result)

    async def _sleep(self, for_: Duration) -> None:
        await self._step_log().sleep(seconds(for_))

    async def _wait_for(self, name: str, timeout: Duration | None) -> Json:
        log = self._step_log()
        return decode_json(await log.wait_for(usable("signal", name), None if timeout is None else seconds(timeout)))

    async def _progress(self, stage: str | None, fraction: float | None, message: str | None) -> None:
        self._require_owned()
        # Checked here, where the mistake is made: many jobs share the write, and one bad value would fail it for all.
        self._reporter.progress(
            self._claim.job,
            stage=None if stage is None else cut_text(stage, MESSAGE_LIMIT),
            fraction=None if fraction is None else float(fraction),
            message=None if message is None else cut_text(message, MESSAGE_LIMIT),
        )

    async def _save(self, value: Json) -> None:
        self._require_owned()
        data = encode_checkpoint(value)
        await self._reporter.checkpoint(self._claim.job, data)
        self._checkpoint = data

    def _new_child(self, child: ChildSpec) -> NewJob:
        self._require_owned()
        job = child.new_child()
        return structs.replace(job, headers=inherited(self._claim.headers, job.headers))

    async def _enqueue(self, child: ChildSpec, job: NewJob) -> Handle:
        try:
            answer = await self._reporter.children.enqueue(self._claim.job, job)
        except asyncio.CancelledError:
            self._require_owned()
            raise
        return child.handle(job, answer)


class Job(JobContext):
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
            return decode_json(step.record.result or b"null")
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

    async def enqueue(self, other: Bindable[Payload], /, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """Enqueue a child; it is durable when this returns. Raises ``JobLost``, and enqueues nothing, if this attempt lost its job.

        >>> await job.enqueue(thumbnail.options(priority=5), path="a.png")  # doctest: +SKIP
        """
        child = other.bind(*args, **kwargs)
        with child.around(self._new_child(child)) as (job,):
            return await self._enqueue(child, job)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction in the store's database, which commits only if the job still belongs to this attempt; yields a connection.

        Keep it short: it delays other writers, and is rolled back with an error when it takes too long. Raises ``JobLost``.

        >>> async with job.transaction() as connection:  # doctest: +SKIP
        ...     await connection.execute("UPDATE orders SET paid = 1 WHERE id = ?", [order])
        """
        self._require_owned()
        async with self._reporter.transaction(self._claim.job) as connection:
            yield connection


class SyncJob(JobContext):
    """The job of a ``def`` handler, which runs in a thread: the same names, blocking.

    >>> def resize(job: SyncJob, path: str) -> None:
    ...     for done in range(10):
    ...         job.progress(fraction=done / 10)
    """

    def __init__(self, claim: Claim, reporter: ProgressSink, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(claim, reporter)
        self._loop = loop

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
            return decode_json(step.record.result or b"null")
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

    def enqueue(self, other: Bindable[Payload], /, *args: Payload.args, **kwargs: Payload.kwargs) -> Handle:
        """Enqueue a child; it is durable when this returns. Raises ``JobLost``, and enqueues nothing, if this attempt lost its job."""
        child = other.bind(*args, **kwargs)
        with child.around(self._new_child(child)) as (job,):
            return self._in_loop(self._enqueue(child, job))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Open a transaction in the store's database, which commits only if the job still belongs to this attempt; yields a connection.

        >>> with job.transaction() as connection:  # doctest: +SKIP
        ...     connection.execute("UPDATE orders SET paid = 1 WHERE id = ?", [order])
        """
        self._require_owned()
        with self._reporter.blocking_transaction(self._claim.job) as connection:
            yield connection

    def _in_loop(self, coroutine: Coroutine[None, None, Result]) -> Result:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except futures.CancelledError:
            raise asyncio.CancelledError(f"job {self.id} is to stop") from None

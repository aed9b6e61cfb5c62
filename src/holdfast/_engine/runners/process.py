"""A runner process from inside: its main thread runs handlers, another one exchanges messages with the worker."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeVar, assert_never
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import ActiveJob, Claim, Failed, NewJob
from holdfast._core.outcome import Invalid, Outcome
from holdfast._core.steps import SignalTaken, StepList, StepRecord
from holdfast._engine import store_defaults
from holdfast._engine.error_text import described
from holdfast._engine.runners import messages
from holdfast._engine.runners.current import WORKER, enter_job, leave_job
from holdfast._engine.runners.forked import exits_in_forked_child
from holdfast._engine.runners.outcomes import captured, outcome_of_error, outcome_of_value
from holdfast._engine.runners.runners import decode_and_call
from holdfast._engine.tasks.around import within_thread
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.tasks.lifespan import Lifespan
from holdfast._engine.tasks.registry import Registry, TaskDefinition
from holdfast._ports.host import Channel
from holdfast._ports.store import Store
from holdfast.errors import ConfigurationError, JobLost, StoreUnavailable

logger = logging.getLogger("holdfast")

PROGRESS_PAUSE = 0.05
"""Seconds between two progress messages to the worker: a handler that reports in a tight loop must not flood it."""

Result = TypeVar("Result")


class WorkerLink(Protocol):
    """The runner's process and its pipe to the worker, as the system provides them."""

    @property
    def channel(self) -> Channel:
        """The pipe to the worker."""
        ...

    def memory(self) -> int:
        """Return the bytes that this process occupies."""
        ...

    def die(self) -> None:
        """End this process and its children."""
        ...


class PipeProgressSink:
    """The pipe to the worker, in place of a progress writer. All of it runs in the loop of its thread, except the blocking transaction."""

    def __init__(self, channel: Channel, open_store: Callable[[], Store], idle: float, longest_nap: float) -> None:
        self.longest_nap = longest_nap
        self._channel = channel
        self._open_store, self._idle = open_store, idle
        self._store: Store | None = None
        self._calls: dict[int, asyncio.Future[messages.CallAnswered]] = {}
        self._number = 0
        self._unsent: messages.Progressed | None = None
        self._pause: asyncio.TimerHandle | None = None

    @property
    def children(self) -> "PipeProgressSink":
        """This object: child jobs go through the same pipe."""
        return self

    @property
    def steps(self) -> "PipeProgressSink":
        """This object: so do steps."""
        return self

    def progress(self, job: ActiveJob, *, stage: str | None, fraction: float | None, message: str | None) -> None:
        """Send the progress at once, or together with what follows within ``PROGRESS_PAUSE``."""
        fields = {"stage": stage, "fraction": fraction, "message": message}
        changes = {name: value for name, value in fields.items() if value is not None}
        self._unsent = structs.replace(self._unsent or messages.Progressed(), **changes)
        if self._pause is None:
            self._flush()

    async def checkpoint(self, job: ActiveJob, data: bytes) -> None:
        """Return once the worker reports that the checkpoint is durable."""
        await self._call(lambda call: messages.Checkpointed(call, data))

    async def enqueue(self, job: ActiveJob, child: NewJob, *, joins: bool) -> EnqueueAnswer:
        """Return once the worker reports that the child is durable."""
        return (await self._call(lambda call: messages.Enqueued(call, child, joins))).answer or EnqueueAnswer()

    async def outcomes(self, job: ActiveJob, children: Sequence[UUID]) -> Mapping[UUID, bytes | Failed]:
        """Return the outcomes that the worker reads."""
        return (await self._call(lambda call: messages.OutcomesAsked(call, tuple(children)))).outcomes or {}

    async def parents(self, job: ActiveJob) -> Mapping[str, Sequence[UUID]]:
        """Return the nodes that the worker reads."""
        return (await self._call(messages.ParentsAsked)).parents or {}

    async def read(self, job: ActiveJob) -> StepList:
        """Return the steps that the worker reads."""
        found = (await self._call(messages.StepsAsked)).steps
        assert found is not None
        return found

    async def record(self, job: ActiveJob, record: StepRecord) -> None:
        """Return once the worker reports that the record is durable."""
        await self._call(lambda call: messages.StepRecorded(call, record))

    async def take_signal(self, job: ActiveJob, name: str, record: StepRecord) -> SignalTaken:
        """Return what the worker consumes."""
        return (await self._call(lambda call: messages.SignalAsked(call, name, record))).taken or SignalTaken()

    def transaction(self, job: ActiveJob, within: Any = None) -> AbstractAsyncContextManager[Any]:
        """Open a transaction on a connection of this process, the user's if it is given."""
        return store_defaults.transaction(self._open(), job.id, job.token, idle=self._idle, within=within)

    def blocking_transaction(self, job: ActiveJob, within: Any = None) -> AbstractContextManager[Any]:
        """Open a transaction on a connection of this process, the user's if it is given."""
        return store_defaults.blocking_transaction(self._open(), job.id, job.token, idle=self._idle, within=within)

    async def close(self) -> None:
        """Close the store if a transaction opened it."""
        if self._store is not None:
            await self._store.close()

    def _open(self) -> Store:
        self._store = self._store or self._open_store()
        return self._store

    def send(self, message: messages.FromRunner) -> None:
        """Send a message, after the progress that waits."""
        if self._unsent is not None:
            unsent, self._unsent = self._unsent, None
            self._channel.send(messages.encode(unsent))
        self._channel.send(messages.encode(message))

    def answered(self, answer: messages.CallAnswered) -> None:
        """End the call that waits for this answer."""
        future = self._calls.pop(answer.call, None)
        if future is None or future.done():
            return
        match answer.problem:
            case None:
                future.set_result(answer)
            case messages.CallProblem.LOST:
                future.set_exception(JobLost(answer.text))
            case messages.CallProblem.STOPPED:
                future.cancel()
            case messages.CallProblem.UNAVAILABLE:
                future.set_exception(StoreUnavailable(answer.text))
            case _:
                assert_never(answer.problem)

    async def _call(self, message: Callable[[int], messages.FromRunner]) -> messages.CallAnswered:
        self._number += 1
        answer: asyncio.Future[messages.CallAnswered] = asyncio.get_running_loop().create_future()
        self._calls[self._number] = answer
        self.send(message(self._number))
        return await answer

    def _flush(self) -> None:
        self._pause = None
        if self._unsent is not None:
            unsent, self._unsent = self._unsent, None
            self._channel.send(messages.encode(unsent))
            self._pause = asyncio.get_running_loop().call_later(PROGRESS_PAUSE, self._flush)


class CurrentRun(Struct, eq=False):
    """A job that came through the pipe."""

    claim: Claim
    job: SyncJob
    task: TaskDefinition
    worker: str | None = None
    is_stopped: bool = False


class RunnerProcess:
    """Runs the jobs that its worker sends, one after the other."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link
        self._loop = asyncio.new_event_loop()
        self._inbox: queue.SimpleQueue[CurrentRun | None] = queue.SimpleQueue()
        self._work: CurrentRun | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-runner", daemon=True)

    def run(
        self,
        registry: Registry,
        lifespan: Lifespan,
        *,
        open_store: Callable[[], Store],
        idle: float,
        longest_nap: float,
        on_start: Callable[[], object] | None = None,
    ) -> None:
        """Run jobs in the main thread until the worker sends ``Shutdown``. ``ConfigurationError`` if the lifespan or ``on_start`` fails.

        ``open_store``: for ``job.transaction``, which may take ``idle`` seconds. ``longest_nap``: that of ``job.sleep`` in its slot.
        """
        self._registry, self._lifespan = registry, lifespan
        self._sink = PipeProgressSink(self._link.channel, open_store, idle, longest_nap)
        self._in_loop(lifespan.enter())
        if on_start is not None:
            self._prepare(on_start)
        self._in_loop(self._open())
        while (work := self._inbox.get()) is not None:
            self._loop.call_soon_threadsafe(self._end, work, self._execute(work))
        self._in_loop(self._close())

    def refuse(self, error: ConfigurationError) -> None:
        """Report to the worker why this process cannot run jobs."""
        self._in_loop(self._refuse(messages.Refused(tuple(error.problems))))

    def _prepare(self, on_start: Callable[[], object]) -> None:
        _, error = captured(on_start)
        if error is not None:
            self._in_loop(self._lifespan.leave())
            raise ConfigurationError(
                [f"on_start failed: {described(error)}; no job can run in a process that it did not prepare"]
            )

    async def _open(self) -> None:
        self._receiving = asyncio.get_running_loop().create_task(self._receive_all())
        self._sink.send(messages.Ready())

    async def _close(self) -> None:
        self._receiving.cancel()
        await self._lifespan.leave()
        await self._sink.close()

    async def _receive_all(self) -> None:
        try:
            while (data := await self._link.channel.receive()) is not None:
                self._receive(messages.decode(data))
        except Exception:
            logger.exception("a runner can no longer read its worker's messages")
        self._link.die()

    def _receive(self, message: messages.Message) -> None:
        work = self._work
        match message:
            case messages.Run(claim=claim, worker=worker):
                self._begin(claim, worker)
            case messages.CancelRequested():
                if work is not None:
                    work.is_stopped = True
                    work.job.mark_cancelled()
            case messages.JobLostNotice():
                if work is not None:
                    work.is_stopped = True
                    work.job.mark_lost()
            case messages.CallAnswered():
                self._sink.answered(message)
            case messages.Shutdown():
                self._inbox.put(None)
            case _:
                pass

    def _begin(self, claim: Claim, worker: str | None) -> None:
        task = self._registry.get(claim.job.task)
        if task is None:
            self._sink.send(messages.TaskMissing())
            return
        job = SyncJob(claim, self._sink, self._loop)
        job.state = self._lifespan.state
        self._work = CurrentRun(claim, job, task, worker)
        self._sink.send(
            messages.RunStarted()
        )  # before the main thread reads the payload by the user's constructors, and may die of it
        self._inbox.put(self._work)

    def _execute(self, work: CurrentRun) -> messages.RunEnded:
        task = work.task
        WORKER.set(work.worker)
        enter_job(work.claim, task.sensitive)
        outcome, error = captured(partial(self._outcome, work, task))
        leave_job()
        if error is not None:  # of any kind: this process goes on, and its worker waits for an answer
            outcome = outcome_of_error(error, task, is_stopped=work.is_stopped, saw_cancellation=work.job.saw_cancellation)
        if outcome is not None and work.job.suspension is not None:
            outcome = work.job.suspension  # a handler that has caught it may have answered something else
        verdict = None if outcome is None else messages.OutcomeData.of(outcome)
        return messages.RunEnded(verdict, self._link.memory(), work.job.unused_steps)

    def _outcome(self, work: CurrentRun, task: TaskDefinition) -> Outcome | None:
        call = partial(decode_and_call, task, work.job, work.claim, self._ignore)
        if self._registry.around_run:
            call = partial(within_thread, self._registry.around_run, work.job, call, self._loop)
        with exits_in_forked_child():
            value, error = captured(call)
        return value if isinstance(value, Invalid) else self._outcome_of(work, task, value, error)

    def _ignore(self, fields: tuple[str, ...]) -> None:
        self._in_loop(self._send(messages.RunStarted(fields)))

    def _outcome_of(self, work: CurrentRun, task: TaskDefinition, value: object, error: BaseException | None) -> Outcome | None:
        saw_cancellation = work.job.saw_cancellation
        if error is None and saw_cancellation and value is None:
            error = asyncio.CancelledError()  # as in a thread: it looked, and returned nothing
        return (
            outcome_of_value(value, task.name)
            if error is None
            else outcome_of_error(error, task, is_stopped=work.is_stopped, saw_cancellation=saw_cancellation)
        )

    def _end(self, work: CurrentRun, message: messages.RunEnded) -> None:
        self._work = None
        work.job.mark_lost()  # threads that the handler has left behind must not report for the next job
        self._sink.send(message)

    async def _refuse(self, message: messages.Refused) -> None:
        self._link.channel.send(messages.encode(message))

    async def _send(self, message: messages.FromRunner) -> None:
        self._sink.send(message)

    def _in_loop(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        if not self._thread.is_alive():
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

"""A runner process from inside: its main thread runs handlers, another one speaks with the worker."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeVar, assert_never

from msgspec import Struct, structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import ActiveJob, Claim, NewJob
from holdfast._core.outcome import Invalid, Outcome
from holdfast._engine.runners import messages
from holdfast._engine.runners.outcomes import captured, decode, outcome_of_error, outcome_of_value
from holdfast._engine.runners.runners import call_of, exits_in_forked_child
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.tasks.lifespan import Lifespan
from holdfast._engine.tasks.registry import Registry, TaskDefinition
from holdfast._ports.host import Channel
from holdfast._ports.store import Store
from holdfast.errors import ConfigurationError, JobLost, StoreUnavailable

logger = logging.getLogger("holdfast")

PROGRESS_PAUSE = 0.05
"""Seconds between two words to the worker that a job moves: a handler that says so in a tight loop must not flood it."""

Result = TypeVar("Result")


class WorkerLink(Protocol):
    """The process as the system lets us see and end it."""

    @property
    def channel(self) -> Channel:
        """The pipe to the worker."""
        ...

    def memory(self) -> int:
        """Bytes it occupies."""
        ...

    def die(self) -> None:
        """End it and its children."""
        ...


class PipeProgressSink:
    """The pipe to the worker, in place of a reporter. Everything but ``begin`` happens in the loop of its thread."""

    def __init__(self, channel: Channel, open_store: Callable[[], Store], idle: float) -> None:
        self._channel = channel
        self._open_store, self._idle = open_store, idle
        self._store: Store | None = None
        self._calls: dict[int, asyncio.Future[EnqueueAnswer | None]] = {}
        self._number = 0
        self._unsaid: messages.Progressed | None = None
        self._pause: asyncio.TimerHandle | None = None

    @property
    def children(self) -> "PipeProgressSink":
        """It takes them itself."""
        return self

    def progress(self, hold: ActiveJob, *, stage: str | None, fraction: float | None, message: str | None) -> None:
        """Said at once, or with what comes in the next moment."""
        said = {"stage": stage, "fraction": fraction, "message": message}
        news = {name: value for name, value in said.items() if value is not None}
        self._unsaid = structs.replace(self._unsaid or messages.Progressed(), **news)
        if self._pause is None:
            self._say()

    async def checkpoint(self, hold: ActiveJob, data: bytes) -> None:
        """Return once the worker says that it is durable."""
        await self._call(lambda call: messages.Checkpointed(call, data))

    async def enqueue(self, hold: ActiveJob, child: NewJob) -> EnqueueAnswer:
        """Return once the worker says that the child is durable."""
        return await self._call(lambda call: messages.Enqueued(call, child)) or EnqueueAnswer()

    def transaction(self, hold: ActiveJob) -> AbstractAsyncContextManager[Any]:
        """On a connection of this process."""
        return self._open().transaction(hold.id, hold.token, idle=self._idle)

    def blocking_transaction(self, hold: ActiveJob) -> AbstractContextManager[Any]:
        """On a connection of this process."""
        return self._open().blocking_transaction(hold.id, hold.token, idle=self._idle)

    async def close(self) -> None:
        """Close what was opened."""
        if self._store is not None:
            await self._store.close()

    def _open(self) -> Store:
        self._store = self._store or self._open_store()
        return self._store

    def send(self, message: messages.FromRunner) -> None:
        """After everything said before."""
        if self._unsaid is not None:
            unsaid, self._unsaid = self._unsaid, None
            self._channel.send(messages.encode(unsaid))
        self._channel.send(messages.encode(message))

    def answered(self, answer: messages.CallAnswered) -> None:
        """What became of a call."""
        future = self._calls.pop(answer.call, None)
        if future is None or future.done():
            return
        match answer.problem:
            case None:
                future.set_result(answer.answer)
            case messages.CallProblem.LOST:
                future.set_exception(JobLost(answer.text))
            case messages.CallProblem.STOPPED:
                future.cancel()
            case messages.CallProblem.UNAVAILABLE:
                future.set_exception(StoreUnavailable(answer.text))
            case _:
                assert_never(answer.problem)

    async def _call(self, message: Callable[[int], messages.FromRunner]) -> EnqueueAnswer | None:
        self._number += 1
        answer: asyncio.Future[EnqueueAnswer | None] = asyncio.get_running_loop().create_future()
        self._calls[self._number] = answer
        self.send(message(self._number))
        return await answer

    def _say(self) -> None:
        self._pause = None
        if self._unsaid is not None:
            unsaid, self._unsaid = self._unsaid, None
            self._channel.send(messages.encode(unsaid))
            self._pause = asyncio.get_running_loop().call_later(PROGRESS_PAUSE, self._say)


class CurrentRun(Struct, eq=False):
    """A job that came through the pipe."""

    claim: Claim
    job: SyncJob
    is_stopped: bool = False


class RunnerProcess:
    """Runs the jobs that its worker sends, one after the other."""

    def __init__(self, inside: WorkerLink) -> None:
        self._inside = inside
        self._loop = asyncio.new_event_loop()
        self._inbox: queue.SimpleQueue[CurrentRun | None] = queue.SimpleQueue()
        self._work: CurrentRun | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-runner", daemon=True)

    def run(self, registry: Registry, lifespan: Lifespan, *, open_store: Callable[[], Store], idle: float) -> None:
        """Until the worker has nothing more; from the main thread. ``ConfigurationError`` when the lifespan fails.

        ``open_store``: for ``job.transaction``, which may take ``idle`` seconds.
        """
        self._registry, self._lifespan = registry, lifespan
        self._line = PipeProgressSink(self._inside.channel, open_store, idle)
        self._in_loop(self._open())
        while (work := self._inbox.get()) is not None:
            task = self._registry.get(work.claim.job.task)
            self._in_loop(self._end(work, messages.TaskMissing() if task is None else self._execute(work, task)))
        self._in_loop(self._close())

    def refuse(self, error: ConfigurationError) -> None:
        """Tell the worker why there will be no runner."""
        self._in_loop(self._refuse(messages.Refused(tuple(error.problems))))

    async def _open(self) -> None:
        await self._lifespan.enter()
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        self._line.send(messages.Ready())

    async def _close(self) -> None:
        self._listening.cancel()
        await self._lifespan.leave()
        await self._line.close()

    async def _listen(self) -> None:
        try:
            while (data := await self._inside.channel.receive()) is not None:
                self._hear(messages.decode(data))
        except Exception:
            logger.exception("a runner can no longer hear its worker")
        self._inside.die()

    def _hear(self, message: messages.Message) -> None:
        work = self._work
        match message:
            case messages.Run(claim=claim):
                job = SyncJob(claim, self._line, self._loop)
                job.state = self._lifespan.state
                self._work = CurrentRun(claim, job)
                self._inbox.put(self._work)
            case messages.CancelRequested():
                if work is not None:
                    work.is_stopped = True
                    work.job.mark_cancelled()
            case messages.JobLostNotice():
                if work is not None:
                    work.is_stopped = True
                    work.job.mark_lost()
            case messages.CallAnswered():
                self._line.answered(message)
            case messages.Shutdown():
                self._inbox.put(None)
            case _:
                pass

    def _execute(self, work: CurrentRun, task: TaskDefinition) -> messages.RunEnded:
        outcome, error = captured(partial(self._outcome, work, task))
        if error is not None:  # whatever it was: this process goes on, and its worker waits for an answer
            outcome = outcome_of_error(error, task, is_stopped=work.is_stopped, was_told=work.job.saw_cancellation)
        verdict = None if outcome is None else messages.OutcomeData.of(outcome)
        return messages.RunEnded(verdict, self._inside.memory())

    def _outcome(self, work: CurrentRun, task: TaskDefinition) -> Outcome | None:
        self._in_loop(self._send(messages.RunStarted()))  # reading the payload runs the user's constructors already
        decoded, refused = captured(partial(decode, task, work.claim.payload))
        if refused is not None or isinstance(decoded, Invalid):
            return decoded if refused is None else self._judge(work, task, None, refused)
        arguments, ignored = decoded
        if ignored:
            self._in_loop(self._send(messages.RunStarted(ignored)))
        with exits_in_forked_child():
            value, error = captured(call_of(task, work.job, arguments))
        return self._judge(work, task, value, error)

    def _judge(self, work: CurrentRun, task: TaskDefinition, value: object, error: BaseException | None) -> Outcome | None:
        was_told = work.job.saw_cancellation
        if error is None and was_told and value is None:
            error = asyncio.CancelledError()  # as in a thread: it looked, and returned nothing
        return (
            outcome_of_value(value)
            if error is None
            else outcome_of_error(error, task, is_stopped=work.is_stopped, was_told=was_told)
        )

    async def _end(self, work: CurrentRun, message: messages.RunEnded | messages.TaskMissing) -> None:
        self._work = None
        work.job.mark_lost()  # threads that the handler has left behind say nothing about the next job
        self._line.send(message)

    async def _refuse(self, message: messages.Refused) -> None:
        self._inside.channel.send(messages.encode(message))

    async def _send(self, message: messages.FromRunner) -> None:
        self._line.send(message)

    def _in_loop(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        if not self._thread.is_alive():
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

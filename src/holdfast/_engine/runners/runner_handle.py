"""The worker's view of one runner process, and the worker's half of the job that runs there."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar, assert_never
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import Claim, Failed, NewJob
from holdfast._core.steps import SignalTaken, StepList, StepRecord
from holdfast._engine.events import EventName, Events
from holdfast._engine.runners import messages
from holdfast._engine.runners.current import WORKER
from holdfast._engine.tasks.job_context import JobContext, ProgressSink
from holdfast._ports.host import Exit, RunnerChild
from holdfast.errors import JobLost

FINAL_MESSAGES_WITHIN = 1.0
"""Seconds to read what an exited runner has left in its pipe."""
Value = TypeVar("Value")


class RunnerExited(Exception):
    """The runner process has exited, with how it ended. ``has_begun``: code of the user may have run for its job."""

    def __init__(self, how: str, *, has_begun: bool) -> None:
        super().__init__(how)
        self.has_begun = has_begun


class TaskNotInRunner(Exception):
    """The runner has other code than its worker: it does not have the task."""


class RunnerJobContext(JobContext):
    """The worker's half of a job: it passes the handler's reports to the store, and the engine's requests to the handler."""

    def __init__(self, claim: Claim, reporter: ProgressSink) -> None:
        super().__init__(claim, reporter)
        self.runner: RunnerHandle | None = None
        self._unused: tuple[str, ...] = ()

    @property
    def unused_steps(self) -> tuple[str, ...]:
        return self._unused

    @property
    def task(self) -> str:
        return self._claim.job.task

    def mark_lost(self) -> None:
        super().mark_lost()
        if self.runner is not None:
            self.runner.send(messages.JobLostNotice())

    def mark_cancelled(self) -> None:
        super().mark_cancelled()
        if self.runner is not None:
            self.runner.send(messages.CancelRequested())

    def progressed(self, update: messages.Progressed) -> None:
        """Pass the handler's progress to the store, unless the job is lost."""
        if not self._is_lost:
            self._reporter.progress(self._claim.job, stage=update.stage, fraction=update.fraction, message=update.message)

    async def save(self, data: bytes) -> None:
        """Save the handler's checkpoint; ``JobLost`` if the job is lost."""
        self._require_owned()
        await self._reporter.checkpoint(self._claim.job, data)

    async def add(self, child: NewJob, *, joins: bool) -> EnqueueAnswer:
        """Enqueue the handler's child job; ``JobLost`` if the job is lost."""
        self._require_owned()
        return await self._reporter.children.enqueue(self._claim.job, child, joins=joins)

    async def outcomes(self, children: Sequence[UUID]) -> Mapping[UUID, bytes | Failed]:
        """Read the outcomes of children of the handler's job; ``JobLost`` if the job is lost."""
        self._require_owned()
        return await self._reporter.children.outcomes(self._claim.job, children)

    async def parents(self) -> Mapping[str, Sequence[UUID]]:
        """Read the nodes that the handler's job depends on; ``JobLost`` if the job is lost."""
        self._require_owned()
        return await self._reporter.children.parents(self._claim.job)

    async def read_steps(self) -> StepList:
        """Read the steps of the handler's job; ``JobLost`` if the job is lost."""
        self._require_owned()
        self.uses_steps = True
        return await self._reporter.steps.read(self._claim.job)

    async def record_step(self, record: StepRecord) -> None:
        """Record a step of the handler; ``JobLost`` if the job is lost."""
        self._require_owned()
        await self._reporter.steps.record(self._claim.job, record)

    async def take_signal(self, name: str, record: StepRecord) -> SignalTaken:
        """Consume a signal for the handler; ``JobLost`` if the job is lost."""
        self._require_owned()
        return await self._reporter.steps.take_signal(self._claim.job, name, record)

    def ended(self, message: "messages.RunEnded") -> None:
        """Keep what the handler's process reports of its steps."""
        self._unused = message.unused_steps


class RunnerHandle:
    """A runner process and the job it runs."""

    def __init__(self, child: RunnerChild, events: Events) -> None:
        self.child = child
        self.jobs = 0
        self.memory = 0
        self.growth = 0
        self.is_killed = False
        self.successor: RunnerHandle | None = None
        self._events = events
        self._first_memory: int | None = None
        self._has_begun = False
        self._problems: tuple[str, ...] = ()
        self._job: RunnerJobContext | None = None
        self._calls: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._has_ended = True
        self._waiter: asyncio.Future[None] = loop.create_future()
        self._last: messages.RunEnded | messages.TaskMissing | None = None
        self._exit: asyncio.Task[Exit] = loop.create_task(child.wait())
        self._receiving = loop.create_task(self._receive_all())
        self._gone = loop.create_task(self._until_gone())

    @property
    def is_ready(self) -> bool:
        """Whether the process has loaded the App at some time."""
        return self._ready.done()

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended."""
        return self._exit.done()

    def send(self, message: messages.FromWorker) -> None:
        """Put a message into the runner's pipe."""
        self.child.channel.send(messages.encode(message))

    def kill(self) -> None:
        """Kill the process, and remember that this worker did it."""
        self.is_killed = True
        self.child.kill()

    async def until_ready(self) -> None:
        """Wait until the runner has loaded the App; ``RunnerExited`` if the process ends first."""
        await asyncio.wait({self._ready, self._gone}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            raise self._exited()

    def begin(self, claim: Claim, job: RunnerJobContext) -> None:
        """Send a job to the process, which then runs its handler."""
        self.jobs += 1
        self._has_begun, self._has_ended, self._last = False, self._gone.done(), None
        self._job, job.runner = job, self
        self.send(messages.Run(claim, WORKER.get()))

    async def until_ended(self) -> None:
        """Wait until the handler of the job has ended, or the process; may be cancelled, and called again after that."""
        while not self._has_ended:
            # Awaited directly: asyncio.wait() for it and the exit costs each job one more turn of the event loop.
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    @property
    def has_answered(self) -> bool:
        """Whether the handler of the job has ended, and the process runs on."""
        return isinstance(self._last, messages.RunEnded) and not self.is_dead

    async def result(self) -> messages.OutcomeData | None:
        """Wait for the handler's outcome. ``RunnerExited`` if the process ends first, ``TaskNotInRunner`` if it has no such task."""
        await self.until_ended()
        ended, job = self._last, self._job
        self._job = None
        if job is not None:
            job.runner = None
        for call in tuple(self._calls):
            call.cancel()
        if ended is None:
            raise self._exited()
        if isinstance(ended, messages.TaskMissing):
            raise TaskNotInRunner
        if job is not None:
            job.ended(ended)
        return ended.verdict

    async def finish(self, timeout: float) -> None:
        """Ask the process to end in good order; kill it after ``timeout`` seconds."""
        self.send(messages.Shutdown())
        await asyncio.wait({self._exit}, timeout=timeout)
        await self.end()

    async def end(self) -> None:
        """Kill the process if it runs, and close its pipe."""
        if not self.is_dead:
            self.kill()
        await asyncio.wait({self._exit})
        self._receiving.cancel()
        self.child.channel.close()

    async def _until_gone(self) -> None:
        await asyncio.wait({self._exit})
        # What it sent before it exited is still in the pipe.
        await asyncio.wait({self._receiving}, timeout=FINAL_MESSAGES_WITHIN)
        self._end(None)

    def _end(self, answer: messages.RunEnded | messages.TaskMissing | None) -> None:
        if not self._has_ended:
            self._has_ended, self._last = True, answer
            if isinstance(answer, messages.RunEnded):
                self._first_memory = answer.memory if self._first_memory is None else self._first_memory
                self.memory, self.growth = answer.memory, answer.memory - self._first_memory
            _settle(self._waiter, None)

    def _exited(self) -> RunnerExited:
        self.child.channel.close()
        return RunnerExited("; ".join(self._problems) or str(self._exit.result()), has_begun=self._has_begun)

    async def _receive_all(self) -> None:
        while (data := await self.child.channel.receive()) is not None:
            try:
                self._receive(messages.decode(data))
            except Exception:
                self.child.kill()  # code of the user wrote into our pipe: no message from there means anything now
                return

    def _receive(self, message: messages.Message) -> None:
        job = self._job
        match message:
            case messages.Ready():
                _settle(self._ready, None)
            case messages.Refused(problems=problems):
                self._problems = problems
            case messages.RunStarted(ignored=ignored):
                if job is not None and job.on_begun is not None and not self._has_begun:
                    job.on_begun()
                self._has_begun = True
                if ignored and job is not None:
                    self._events.emit(EventName.PAYLOAD_FIELDS_IGNORED, job=job.id, task=job.task, fields=",".join(ignored))
            case messages.Progressed():
                if job is not None:
                    job.progressed(message)
            case (
                messages.Checkpointed()
                | messages.Enqueued()
                | messages.OutcomesAsked()
                | messages.ParentsAsked()
                | messages.StepsAsked()
                | messages.StepRecorded()
                | messages.SignalAsked()
            ):
                if job is not None:
                    self._answer(message, job)
            case messages.RunEnded() | messages.TaskMissing():
                self._end(message)
            case (
                messages.Run()
                | messages.CancelRequested()
                | messages.JobLostNotice()
                | messages.CallAnswered()
                | messages.Shutdown()
            ):
                pass
            case _:
                assert_never(message)

    def _answer(self, message: messages.Calls, job: RunnerJobContext) -> None:
        task = asyncio.get_running_loop().create_task(self._ask(message, job))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _ask(self, message: messages.Calls, job: RunnerJobContext) -> None:
        call = message.call
        try:
            answer = await _answer_of(message, job)
        except JobLost as error:
            answer = messages.CallAnswered(call, messages.CallProblem.LOST, str(error))
        except asyncio.CancelledError:
            answer = messages.CallAnswered(call, messages.CallProblem.STOPPED)
        except Exception as error:
            answer = messages.CallAnswered(call, messages.CallProblem.UNAVAILABLE, str(error))
        self.send(answer)


async def _answer_of(message: messages.Calls, job: RunnerJobContext) -> messages.CallAnswered:
    match message:
        case messages.Checkpointed(call=call, data=data):
            await job.save(data)
            return messages.CallAnswered(call)
        case messages.Enqueued(call=call, child=child, joins=joins):
            return messages.CallAnswered(call, answer=await job.add(child, joins=joins))
        case messages.OutcomesAsked(call=call, children=children):
            return messages.CallAnswered(call, outcomes=dict(await job.outcomes(children)))
        case messages.ParentsAsked(call=call):
            return messages.CallAnswered(call, parents={name: tuple(jobs) for name, jobs in (await job.parents()).items()})
        case messages.StepsAsked(call=call):
            return messages.CallAnswered(call, steps=await job.read_steps())
        case messages.StepRecorded(call=call, record=record):
            await job.record_step(record)
            return messages.CallAnswered(call)
        case messages.SignalAsked(call=call, name=name, record=record):
            return messages.CallAnswered(call, taken=await job.take_signal(name, record))
        case _:
            assert_never(message)


def _settle(awaited: "asyncio.Future[Value]", value: Value) -> None:
    if not awaited.done():
        awaited.set_result(value)

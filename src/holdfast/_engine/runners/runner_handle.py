"""One runner process as its worker sees it, and the worker's half of the job that runs there."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, assert_never

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import Claim, NewJob
from holdfast._engine.events import EventName, Events
from holdfast._engine.runners import messages
from holdfast._engine.tasks.context import JobContext, ProgressSink
from holdfast._ports.host import Exit, RunnerChild
from holdfast.errors import JobLost

LAST_WORDS_WITHIN = 1.0
News = TypeVar("News")


class RunnerExited(Exception):
    """The runner has died; how. ``has_begun``: code of the user may have run for the job it had."""

    def __init__(self, how: str, *, has_begun: bool) -> None:
        super().__init__(how)
        self.has_begun = has_begun


class TaskNotInRunner(Exception):
    """The runner has other code than its worker: it does not have the task."""


class RunnerJobContext(JobContext):
    """The worker's half of a job: what the handler says goes on to the store, what the engine says goes to the handler."""

    def __init__(self, claim: Claim, reporter: ProgressSink) -> None:
        super().__init__(claim, reporter)
        self.seat: RunnerHandle | None = None

    @property
    def task(self) -> str:
        """The task's name."""
        return self._claim.job.task

    def mark_lost(self) -> None:
        """The engine's; here and there."""
        super().mark_lost()
        if self.seat is not None:
            self.seat.send(messages.JobLostNotice())

    def mark_cancelled(self) -> None:
        """The engine's; here and there."""
        super().mark_cancelled()
        if self.seat is not None:
            self.seat.send(messages.CancelRequested())

    def progressed(self, said: messages.Progressed) -> None:
        """The handler said so."""
        if not self._is_lost:
            self._reporter.progress(self._claim.job, stage=said.stage, fraction=said.fraction, message=said.message)

    async def save(self, data: bytes) -> None:
        """Save a checkpoint of the handler."""
        self._require_owned()
        await self._reporter.checkpoint(self._claim.job, data)

    async def add(self, child: NewJob) -> EnqueueAnswer:
        """Enqueue a child of the handler."""
        self._require_owned()
        return await self._reporter.children.enqueue(self._claim.job, child)


class RunnerHandle:
    """A runner process and the job it runs."""

    def __init__(self, child: RunnerChild, events: Events) -> None:
        self.child = child
        self.jobs = 0
        self.growth = 0
        self.is_killed = False
        self._events = events
        self._first_memory: int | None = None
        self._has_begun = False
        self._problems: tuple[str, ...] = ()
        self._job: RunnerJobContext | None = None
        self._calls: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[messages.RunEnded | messages.TaskMissing] = loop.create_future()
        self._death: asyncio.Task[Exit] = loop.create_task(child.wait())
        self._listening = loop.create_task(self._listen())

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended."""
        return self._death.done()

    def send(self, message: messages.FromWorker) -> None:
        """Put a message into its pipe."""
        self.child.channel.send(messages.encode(message))

    def kill(self) -> None:
        """End it, deliberately."""
        self.is_killed = True
        self.child.kill()

    async def until_ready(self) -> None:
        """``Departed`` if that never comes."""
        await self._await(self._ready)

    async def run(self, claim: Claim, job: RunnerJobContext) -> messages.OutcomeData | None:
        """Run a job's handler to its end. ``Departed`` if the process ends first, ``Unknown`` if it has no such handler."""
        self.jobs += 1
        self._has_begun = False
        self._ended = asyncio.get_running_loop().create_future()
        self._job, job.seat = job, self
        self.send(messages.Run(claim))
        try:
            ended = await self._await(self._ended)
        finally:
            self._job = job.seat = None
            for call in tuple(self._calls):
                call.cancel()
        if isinstance(ended, messages.TaskMissing):
            raise TaskNotInRunner
        if self._first_memory is None:
            self._first_memory = ended.memory
        self.growth = ended.memory - self._first_memory
        return ended.verdict

    async def finish(self, patience: float) -> None:
        """Let it end in good order; within ``patience`` seconds, else it is killed."""
        self.send(messages.Shutdown())
        await asyncio.wait({self._death}, timeout=patience)
        await self.end()

    async def end(self) -> None:
        """End it now."""
        if not self.is_dead:
            self.kill()
        await asyncio.wait({self._death})
        self._listening.cancel()
        self.child.channel.close()

    async def _await(self, news: "asyncio.Future[News]") -> News:
        both: set[asyncio.Future[Any]] = {news, self._death}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not news.done():
            # What it said before it died is still in the pipe.
            await asyncio.wait({self._listening}, timeout=LAST_WORDS_WITHIN)
        if news.done():
            return news.result()
        self.child.channel.close()
        raise RunnerExited("; ".join(self._problems) or str(self._death.result()), has_begun=self._has_begun)

    async def _listen(self) -> None:
        while (data := await self.child.channel.receive()) is not None:
            try:
                self._hear(messages.decode(data))
            except Exception:
                self.child.kill()  # code of the user wrote into our pipe: nothing that comes from there means anything now
                return

    def _hear(self, message: messages.Message) -> None:
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
            case messages.Checkpointed(call=call, data=data):
                if job is not None:
                    self._answer(call, job.save(data))
            case messages.Enqueued(call=call, child=child):
                if job is not None:
                    self._answer(call, job.add(child))
            case messages.RunEnded() | messages.TaskMissing():
                _settle(self._ended, message)
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

    def _answer(self, call: int, asked: Coroutine[Any, Any, EnqueueAnswer | None]) -> None:
        task = asyncio.get_running_loop().create_task(self._ask(call, asked))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _ask(self, call: int, asked: Coroutine[Any, Any, EnqueueAnswer | None]) -> None:
        try:
            answer = messages.CallAnswered(call, answer=await asked)
        except JobLost as error:
            answer = messages.CallAnswered(call, messages.CallProblem.LOST, str(error))
        except asyncio.CancelledError:
            answer = messages.CallAnswered(call, messages.CallProblem.STOPPED)
        except Exception as error:
            answer = messages.CallAnswered(call, messages.CallProblem.UNAVAILABLE, str(error))
        self.send(answer)


def _settle(news: "asyncio.Future[News]", value: News) -> None:
    if not news.done():
        news.set_result(value)

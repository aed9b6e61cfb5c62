"""Runner processes of simulated workers: each runs handlers, may die without its worker, and dies with it."""

import asyncio

from msgspec import Struct

from holdfast._core.outcome import Outcome
from holdfast._engine.runners import messages
from holdfast._engine.runners.outcomes import outcome_of_error, outcome_of_value
from holdfast._engine.runners.process import PipeProgressSink
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from proof.checker.history import CRASHED
from proof.simulator.hosts import IMPORTING, REAPING, SimChannel, SimClock
from proof.simulator.loop import Process, VirtualLoop
from proof.simulator.programs import SCENE, Scene
from proof.simulator.threads import contained


class _Work(Struct):
    job: Job
    task: TaskDefinition
    is_stopped: bool = False


class SimRunnerHost:
    """The source of one worker's runners. In the history they have the name of the worker."""

    def __init__(
        self, loop: VirtualLoop, worker: Process, clock: SimClock, scene: Scene, known: dict[str, TaskDefinition]
    ) -> None:
        self._loop, self._worker, self._clock, self._scene, self._known = loop, worker, clock, scene, known
        self._count = 0

    async def spawn(self) -> "SimRunner":
        """Start a runner; it is ready when its imports are done."""
        self._count += 1
        process = self._worker.beside(f"runner {self._count} of {self._worker.title}")
        return SimRunner(self._loop, self._worker, process, self._clock, self._scene.within(process), self._known)


class SimRunner:
    """One runner, for its worker and for itself. Its handlers are asked to end, and never interrupted."""

    def __init__(
        self,
        loop: VirtualLoop,
        worker: Process,
        process: Process,
        clock: SimClock,
        scene: Scene,
        known: dict[str, TaskDefinition],
    ) -> None:
        self._loop, self._worker, self._process, self._clock = loop, worker, process, clock
        self._scene, self._known = scene, known
        self._channel, self._inside = SimChannel.pair(loop)
        self._line = PipeProgressSink(self._inside, _no_store, 0.0, 0.0)
        self._work: _Work | None = None
        self._is_killed = False
        self._importing, self._reaping = process.numbers.uniform(*IMPORTING), process.numbers.uniform(*REAPING)
        self._reaped: asyncio.Future[Exit] = loop.create_future()
        process.on_exit.append(self._die)
        context = loop.context_of(process)
        context.run(SCENE.set, scene)
        loop.create_task(self._live(), context=context)

    # the worker's view

    @property
    def channel(self) -> SimChannel:
        """The worker's end of the pipe."""
        return self._channel

    async def dump_stacks(self) -> str:
        """Do nothing: there are no stacks here."""
        return f"stacks of {self._process.title}"

    def last_stacks(self) -> str:
        return ""

    def kill(self) -> None:
        self._is_killed = True
        self._process.end(Exit(signal="SIGKILL"))

    async def wait(self) -> Exit:
        """Wait until the runner is dead and reaped."""
        return await asyncio.shield(self._reaped)

    def _die(self, how: Exit) -> None:
        self._inside.close()
        if self._work is not None and not self._worker.is_dead:
            self._scene.write("handler.end", self._work.job, "" if self._is_killed else CRASHED)
        self._loop.call_later(self._reaping, self._reap, how, context=self._loop.outside)

    def _reap(self, how: Exit) -> None:
        if not self._reaped.done():
            self._reaped.set_result(how)

    # the view of the runner itself

    async def _live(self) -> None:
        await self._clock.sleep(self._importing)
        self._line.send(messages.Ready())
        while (data := await self._inside.receive()) is not None:
            self._hear(messages.decode(data))
        self._process.end(Exit(code=0))

    def _hear(self, message: messages.Message) -> None:
        work = self._work
        match message:
            case messages.Run(claim=claim):
                task = self._known.get(claim.job.task)
                if task is None:
                    self._line.send(messages.TaskMissing())
                else:
                    self._work = _Work(Job(claim, self._line), task)
                    self._loop.create_task(self._run(self._work))
            case messages.CancelRequested() | messages.JobLostNotice():
                if work is not None:
                    work.is_stopped = True
                    (work.job.mark_lost if isinstance(message, messages.JobLostNotice) else work.job.mark_cancelled)()
            case messages.CallAnswered():
                self._line.answered(message)
            case messages.Shutdown():
                self._process.end(Exit(code=0))
            case _:
                pass

    async def _run(self, work: _Work) -> None:
        self._line.send(messages.RunStarted())
        value, error = await contained(work.task.function(work.job))
        outcome = _judge(work, value, error)
        self._work = None
        work.job.mark_lost()
        self._line.send(messages.RunEnded(None if outcome is None else messages.OutcomeData.of(outcome)))


def _judge(work: _Work, value: object, error: BaseException | None) -> Outcome | None:
    """Return the outcome as a real runner does."""
    saw_cancellation = work.job.saw_cancellation
    if error is None and saw_cancellation and value is None:
        error = asyncio.CancelledError()
    if error is None:
        return outcome_of_value(value, work.task.name)
    return outcome_of_error(error, work.task, is_stopped=work.is_stopped, saw_cancellation=saw_cancellation)


def _no_store() -> Store:
    raise AssertionError("simulated handlers in runners open no transactions")

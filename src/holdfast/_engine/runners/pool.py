"""A worker's runner processes: started when first needed, used for one job after the other, replaced before they grow large."""

import asyncio
from typing import assert_never

from holdfast._core.job import Claim
from holdfast._core.outcome import Outcome
from holdfast._core.payload import MESSAGE_LIMIT, cut_text
from holdfast._engine.events import EventName, Events
from holdfast._engine.runners.options import Runners
from holdfast._engine.runners.runner_handle import RunnerExited, RunnerHandle, RunnerJobContext, TaskNotInRunner
from holdfast._engine.runners.running import Running, Stop
from holdfast._engine.tasks.job_context import JobContext, ProgressSink
from holdfast._ports.clock import Randomness
from holdfast._ports.host import RunnerHost

FINISH_TIMEOUT = 5.0
NEARLY_WORN = 0.8
"""The part of a limit at which a runner's successor starts, because loading an App takes as long as many jobs."""
PAUSES = (0.5, 30.0)


class RunnerPool:
    """At most ``size`` runners. The worker claims no more jobs for them than there are free ones.

    A nearly worn runner's successor stands among the idle ones while it loads the App; the old one leaves when that is done, or at
    its limit.
    ``grace``: seconds in which a cancelled handler may clean up before the pool kills its runner. ``margin``: the lease's.
    ``pause``: seconds for which a job waits if no runner knew its task.
    """

    def __init__(
        self,
        host: RunnerHost,
        runners: Runners,
        *,
        size: int,
        grace: float,
        margin: float,
        pause: float,
        events: Events,
        chance: Randomness,
    ) -> None:
        self._host, self._runners, self._size = host, runners, size
        self._grace, self._margin, self._pause = grace, margin, pause
        self._events, self._chance = events, chance
        self._idle: list[RunnerHandle] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._failures, self._problem = 0, ""
        self._not_before = float("-inf")
        self._believed_until: dict[str, float] = {}

    @property
    def idle(self) -> int:
        """The number of processes that wait for a job."""
        return len(self._idle)

    def free(self, running: int) -> int:
        """Return how many more jobs could run; none for a while after a runner could not be started."""
        return self._size - running if _now() >= self._not_before else 0

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        return RunnerJobContext(claim, reporter)

    async def run(self, running: Running) -> Outcome | None:
        """Wait for the runner. When cancelled, give the handler time, then kill the runner and go on waiting for its exit."""
        ending: asyncio.Task[None] | None = None
        end_by: float | None = None
        if (runner := self._begin_at_once(running)) is not None:
            # Most jobs are waited for in this task: another task for each took a tenth of the worker's time.
            try:
                await runner.until_ended()
            except asyncio.CancelledError:
                end_by = self._end_by(running, None)
            if runner.has_answered and not self._is_wearing(runner):
                return await self._conclude(running, runner)  # it waits for nothing
        work = self._serve(running) if runner is None else self._conclude(running, runner)
        serving = asyncio.get_running_loop().create_task(work)
        while not serving.done():
            is_over = end_by is not None and _now() >= end_by
            if is_over and ending is None:
                ending = asyncio.get_running_loop().create_task(self._end(running))
            wait = None if end_by is None or ending is not None else end_by - _now()
            try:
                await asyncio.wait({serving}, timeout=wait)
            except asyncio.CancelledError:
                end_by = self._end_by(running, end_by)
        if ending is not None:
            ending.cancel()
        return serving.result()

    async def close(self) -> None:
        """End all idle runners, in good order where they can; the others end with their jobs."""
        self._is_closed = True
        for runner in self._idle:
            self._retire(runner)
        self._idle.clear()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _end_by(self, running: Running, end_by: float | None) -> float:
        by = _now() + min((self._time_to_stop(why) for why in running.stops_requested), default=0.0)
        return by if end_by is None else min(by, end_by)

    def _begin_at_once(self, running: Running) -> RunnerHandle | None:
        """Return the idle runner to which the job was sent; ``None`` if none is ready, or the job shall not begin."""
        runner = self._idle[-1] if self._idle else None
        if runner is None or not runner.is_ready or runner.is_dead or running.stop is not None or not running.may_start():
            return None
        assert isinstance(running.context, RunnerJobContext)
        self._idle.pop()
        runner.begin(running.claim, running.context)
        return runner

    def _time_to_stop(self, why: Stop) -> float:
        """Return the seconds a handler has to stop: fewer than the guard or the supervisor give the whole worker for the same reason."""
        match why:
            case Stop.CANCELLED:
                return self._grace
            case Stop.STALLED | Stop.TIMED_OUT:
                return min(self._runners.kill_after, max(self._grace - self._margin, self._grace / 2))
            case Stop.LATE:
                return min(self._grace, self._margin / 4)
            case Stop.LOST | Stop.DRAINED:
                return min(self._grace, self._margin / 2)
            case _:
                assert_never(why)

    async def _serve(self, running: Running) -> Outcome | None:
        context = running.context
        assert isinstance(context, RunnerJobContext)
        runner = await self._take(context)
        if runner is None or running.stop is not None or not running.may_start():
            running.has_begun = False
            if runner is not None:
                await self._put_back(runner)
            elif running.stop is None:
                running.unavailable = self._problem
            return None
        runner.begin(running.claim, context)
        return await self._conclude(running, runner)

    async def _conclude(self, running: Running, runner: RunnerHandle) -> Outcome | None:
        try:
            verdict = await runner.result()
        except RunnerExited as exited:
            self._runner_exited(running, runner, exited)
            return None
        except TaskNotInRunner:
            await self._task_missing(running, runner)
            return None
        self._failures = 0
        await self._put_back(runner)
        return None if verdict is None else verdict.outcome()

    def _runner_exited(self, running: Running, runner: RunnerHandle, exited: RunnerExited) -> None:
        if not exited.has_begun:
            running.has_begun = False
            self._fail(str(exited))
            running.unavailable = self._problem
        elif runner.is_killed:
            running.was_killed = True
        else:
            running.crash, running.stacks = str(exited), runner.child.last_stacks() or None
            job = running.claim.job
            self._events.emit(EventName.RUNNER_CRASHED, job=job.id, task=job.task, exit=str(exited))

    async def _task_missing(self, running: Running, runner: RunnerHandle) -> None:
        """Release a job whose task the runner does not know: code has changed on disk since the worker or the runner loaded it.

        Another runner may know the task. If none does, starting one for each try would be all that this worker does."""
        running.has_begun, running.pause = False, self._pause
        task = running.claim.job.task
        if _now() < self._believed_until.get(task, 0.0):
            await self._put_back(runner)
            return
        self._believed_until[task] = _now() + PAUSES[1]
        self._events.emit(EventName.TASK_UNKNOWN, task=task)
        self._retire(runner)

    async def _end(self, running: Running) -> None:
        """Save the stacks of a handler that did not stop when cancelled, and kill its process."""
        context = running.context
        if not isinstance(context, RunnerJobContext) or (runner := context.runner) is None:
            return
        running.stacks = await runner.child.dump_stacks() or running.stacks
        if context.runner is runner:  # else it has stopped by now, and the runner may have another job already
            job = running.claim.job
            self._events.emit(EventName.RUNNER_KILLED, job=job.id, task=job.task, reason=running.stop)
            runner.kill()

    async def _take(self, context: RunnerJobContext) -> RunnerHandle | None:
        """Return an idle runner or a new one; ``None`` if none can be started."""
        runner = self._take_idle() or await self._start()
        if runner is None or (runner.is_ready and not runner.is_dead):
            return runner
        context.runner = runner
        try:
            async with asyncio.timeout(self._runners.start_timeout):
                await runner.until_ready()
        except RunnerExited as exited:
            if not runner.is_killed:
                self._fail(str(exited))
        except TimeoutError:
            self._fail(f"not ready within {self._runners.start_timeout:g} s")
            await runner.end()
        else:
            return runner
        finally:
            context.runner = None
        return None

    def _take_idle(self) -> RunnerHandle | None:
        """Return one that is ready, else one that still loads the App or failed to, if there are any."""
        while self._idle:
            runner = self._idle.pop()
            if not runner.is_dead or not runner.is_ready:
                return runner
        return None

    async def _start(self) -> RunnerHandle | None:
        try:
            return RunnerHandle(await self._host.spawn(), self._events)
        except OSError as error:
            self._fail(str(error))
            return None

    def _fail(self, error: str) -> None:
        """Start no runner for a while: one that cannot start would not start a moment later either. Release its job; others wait."""
        self._failures, self._problem = self._failures + 1, cut_text(error, MESSAGE_LIMIT)
        longest = min(PAUSES[1], PAUSES[0] * 2.0 ** min(self._failures - 1, 16))
        self._not_before = _now() + longest * (0.75 + 0.25 * self._chance.jitter())
        self._events.emit(EventName.RUNNER_UNAVAILABLE, error=error, failures=self._failures)

    async def _put_back(self, runner: RunnerHandle) -> None:
        if self._is_closed or runner.is_dead or runner.is_killed:
            self._retire(runner)
            return
        if self._is_wearing(runner) and (successor := await self._start()) is not None:
            runner.successor = successor
            self._idle.insert(0, successor)
        if self._wear(runner) >= 1.0 or (runner.successor is not None and runner.successor.is_ready):
            self._retire(runner)
        else:
            self._idle.append(runner)

    def _is_wearing(self, runner: RunnerHandle) -> bool:
        """Whether a successor is to be started."""
        return runner.successor is None and self._wear(runner) >= NEARLY_WORN

    def _wear(self, runner: RunnerHandle) -> float:
        return self._runners.wear(jobs=runner.jobs, memory=runner.memory, growth=runner.growth)

    def _retire(self, runner: RunnerHandle) -> None:
        leaving = asyncio.get_running_loop().create_task(runner.finish(min(FINISH_TIMEOUT, self._margin / 2)))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


def _now() -> float:
    return asyncio.get_running_loop().time()

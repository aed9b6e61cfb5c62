"""A worker's runner processes: started when first needed, used for one job after the other, replaced before they grow old."""

import asyncio
from typing import assert_never

from holdfast._core.job import Claim
from holdfast._core.outcome import Outcome
from holdfast._engine.events import EventName, Events
from holdfast._engine.runners.runner_handle import RunnerExited, RunnerHandle, RunnerJobContext, TaskNotInRunner
from holdfast._engine.runners.running import Running, Stop
from holdfast._engine.tasks.context import JobContext, ProgressSink
from holdfast._ports.clock import Randomness
from holdfast._ports.host import RunnerHost

MOST_JOBS = 1000
MOST_GROWTH = 256 * 2**20
"""Bytes a runner may have gained since its first job ended: more is taken for a leak, and another runner follows."""
START_PATIENCE = 120.0
FINISH_PATIENCE = 5.0
PAUSES = (0.5, 30.0)


class RunnerPool:
    """At most ``size`` runners. The worker claims no more jobs for them than there are free ones.

    ``grace``: seconds in which a handler that is cancelled may clean up before its runner is killed. ``margin``: the lease's.
    ``pause``: seconds for which a job waits whose task no runner knew.
    """

    def __init__(
        self, host: RunnerHost, *, size: int, grace: float, margin: float, pause: float, events: Events, chance: Randomness
    ) -> None:
        self._host, self._size = host, size
        self._grace, self._margin, self._pause = grace, margin, pause
        self._events, self._chance = events, chance
        self._idle: list[RunnerHandle] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._failures = 0
        self._not_before = float("-inf")
        self._believed_until: dict[str, float] = {}

    def free(self, running: int) -> int:
        """How many more jobs could run; none for a while after a runner could not be started."""
        return self._size - running if _now() >= self._not_before else 0

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        """A ``ProcessJob``."""
        return RunnerJobContext(claim, reporter)

    async def run(self, running: Running) -> Outcome | None:
        """Wait for the runner; when cancelled meanwhile, give it time, then end it and go on waiting for its death."""
        serving = asyncio.get_running_loop().create_task(self._serve(running))
        ending: asyncio.Task[None] | None = None
        end_by: float | None = None
        while not serving.done():
            is_over = end_by is not None and _now() >= end_by
            if is_over and ending is None:
                ending = asyncio.get_running_loop().create_task(self._end(running))
            wait = None if end_by is None or ending is not None else end_by - _now()
            try:
                await asyncio.wait({serving}, timeout=wait)
            except asyncio.CancelledError:
                by = _now() + min((self._patience(why) for why in running.told), default=0.0)
                end_by = by if end_by is None else min(by, end_by)
        if ending is not None:
            ending.cancel()
        return serving.result()

    async def close(self) -> None:
        """End all runners that have nothing to do, in good order where they can; the others end with their jobs."""
        self._is_closed = True
        for seat in self._idle:
            self._let_go(seat)
        self._idle.clear()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _patience(self, why: Stop) -> float:
        """Less than that of whoever would end the whole worker for the same reason: its guard, or its supervisor."""
        match why:
            case Stop.CANCELLED:
                return self._grace
            case Stop.STALLED | Stop.TIMED_OUT:
                return max(self._grace - self._margin, self._grace / 2)
            case Stop.LATE:
                return min(self._grace, self._margin / 4)
            case Stop.LOST | Stop.DRAINED:
                return min(self._grace, self._margin / 2)
            case _:
                assert_never(why)

    async def _serve(self, running: Running) -> Outcome | None:
        context = running.context
        assert isinstance(context, RunnerJobContext)
        seat = await self._take(context)
        if seat is None or running.stop is not None or not running.may_start():
            running.has_begun = False
            if seat is not None:
                self._put_back(seat)
            return None
        try:
            verdict = await seat.run(running.claim, context)
        except RunnerExited as departed:
            self._depart(running, seat, departed)
            return None
        except TaskNotInRunner:
            self._give_back(running, seat)
            return None
        self._failures = 0
        self._put_back(seat)
        return None if verdict is None else verdict.outcome()

    def _depart(self, running: Running, seat: RunnerHandle, departed: RunnerExited) -> None:
        if not departed.has_begun:
            running.has_begun = False
            self._fail(str(departed))
        elif seat.is_killed:
            running.was_killed = True
        else:
            running.crash, running.stacks = str(departed), seat.child.last_stacks() or None
            hold = running.claim.job
            self._events.emit(EventName.RUNNER_CRASHED, job=hold.id, task=hold.task, exit=str(departed))

    def _give_back(self, running: Running, seat: RunnerHandle) -> None:
        """Code has changed on disk since the worker or the runner loaded it. Another runner may know the task; if none
        does, starting one for each try would be all that this worker does."""
        running.has_begun, running.pause = False, self._pause
        task = running.claim.job.task
        if _now() < self._believed_until.get(task, 0.0):
            self._put_back(seat)
            return
        self._believed_until[task] = _now() + PAUSES[1]
        self._events.emit(EventName.TASK_UNKNOWN, task=task)
        self._let_go(seat)

    async def _end(self, running: Running) -> None:
        """The handler did not stop when told: what it does is kept, and its process ends."""
        context = running.context
        if not isinstance(context, RunnerJobContext) or (seat := context.seat) is None:
            return
        running.stacks = await seat.child.dump_stacks() or running.stacks
        if context.seat is seat:  # else it stopped meanwhile, and the runner may have another job already
            hold = running.claim.job
            self._events.emit(EventName.RUNNER_KILLED, job=hold.id, task=hold.task, reason=running.stop)
            seat.kill()

    async def _take(self, context: RunnerJobContext) -> RunnerHandle | None:
        """An idle runner or a new one; ``None`` if none can be started."""
        while self._idle:
            seat = self._idle.pop()
            if not seat.is_dead:
                return seat
        try:
            context.seat = seat = RunnerHandle(await self._host.spawn(), self._events)
        except OSError as error:
            self._fail(str(error))
            return None
        try:
            async with asyncio.timeout(START_PATIENCE):
                await seat.until_ready()
        except RunnerExited as departed:
            if not seat.is_killed:
                self._fail(str(departed))
        except TimeoutError:
            self._fail(f"not ready within {START_PATIENCE:g} s")
            await seat.end()
        else:
            return seat
        finally:
            context.seat = None
        return None

    def _fail(self, error: str) -> None:
        """A runner that cannot start would not start a moment later either: its job goes back, and others wait too."""
        self._failures += 1
        longest = min(PAUSES[1], PAUSES[0] * 2.0 ** min(self._failures - 1, 16))
        self._not_before = _now() + longest * (0.75 + 0.25 * self._chance.jitter())
        self._events.emit(EventName.RUNNER_UNAVAILABLE, error=error, failures=self._failures)

    def _put_back(self, seat: RunnerHandle) -> None:
        is_old = seat.jobs >= MOST_JOBS or seat.growth > MOST_GROWTH
        if self._is_closed or is_old or seat.is_dead or seat.is_killed:
            self._let_go(seat)
        else:
            self._idle.append(seat)

    def _let_go(self, seat: RunnerHandle) -> None:
        leaving = asyncio.get_running_loop().create_task(seat.finish(min(FINISH_PATIENCE, self._margin / 2)))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


def _now() -> float:
    return asyncio.get_running_loop().time()

"""One claimed job, from its payload to its transition: decode, run, and turn the outcome into a transition."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, assert_never
from uuid import UUID

from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.job import Claim, Json, Reason, RescueReason, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.member import Input
from holdfast._core.outcome import Done, Invalid, Outcome, StepsChanged, WaitFor
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName, logger
from holdfast._engine.runners.current import enter_job
from holdfast._engine.runners.loop_tasks import LoopTasks
from holdfast._engine.runners.outcomes import decode, invalid_payload, outcome_of_error, outcome_of_value, raised_by
from holdfast._engine.runners.runners import LoopRunner, Processes, Runner
from holdfast._engine.runners.running import Running, Stop
from holdfast._engine.runners.stacks import coroutine_stack
from holdfast._engine.runners.thread_tasks import ThreadCalls, ThreadTasks
from holdfast._engine.runners.threads import ThreadRunner
from holdfast._engine.tasks.around import within
from holdfast._engine.tasks.registry import Registry, RunnerKind
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._engine.worker.finished_runs import FinishedRun, FinishedRuns
from holdfast._engine.worker.job_inputs import JobInputs
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._engine.worker.rescue_hooks import RescueHooks
from holdfast._engine.workflows.claimed import graph_of
from holdfast.errors import PayloadInvalid, StoreUnavailable

Prepared = TypeVar("Prepared")

OVERDUE_AFTER = 0.005
"""Seconds after a limit at which the supervisor is asked to judge it: by then it has passed by every clock."""
_CHARGES = {Stop.STALLED: RescueReason.STALLED, Stop.TIMED_OUT: RescueReason.TIMED_OUT}


class Executor:
    """The runner of claims; it puts each finished run into ``finished``."""

    def __init__(
        self,
        environment: Environment,
        registry: Registry,
        progress: ProgressWriter,
        lease: WorkerLease,
        reports: AttemptReporter,
        *,
        threads: ThreadRunner,
        pool: Processes | None = None,
        hooks: RescueHooks | None = None,
    ) -> None:
        self.running: dict[UUID, Running] = {}
        self.finished = FinishedRuns()
        self.started = 0
        """Number of claims that were started so far."""
        self.state: Any = None
        self.freed: Callable[[], None] = lambda: None
        """Called after a handler has left its slot."""
        self.begun: Callable[[Claim, float], None] | None = None
        """Called when the first line of a handler is about to run, with the seconds for which its job had been due."""
        self._events, self._chance = environment.events, environment.chance
        self._registry, self._progress, self._lease, self._reports = registry, progress, lease, reports
        self._loop_runner = LoopRunner()
        self._runners: dict[RunnerKind, Runner] = {RunnerKind.LOOP: self._loop_runner, RunnerKind.THREAD: threads}
        self._threads, self._pool, self._hooks = threads, pool, hooks
        self._loop_tasks = LoopTasks(self._execute, lease.now)
        calls = ThreadCalls(lease.now, self._report_begin, self._ignore, self._ended)
        self._thread_tasks = ThreadTasks(threads, registry.around_run, calls)
        self._inputs = JobInputs(environment)
        self._is_draining = False
        progress.begun_at = self.begun_at

    def begun_at(self, job: UUID) -> float | None:
        """Return when the code of a running job began, by the clock of the lease."""
        running = self.running.get(job)
        return None if running is None else running.begun_at

    @property
    def unbegun(self) -> int:
        """Number of jobs that wait for a thread, as far as the event loop knows."""
        return self._threads.unbegun

    def threads_take(self, claim: Claim) -> bool:
        """Return whether a thread can begin the claim by itself: nothing is to be done, read or announced before its first line."""
        task, hooks = self._registry.get(claim.job.task), self._hooks
        is_announced = self.begun is not None or self._events.has_listener(EventName.JOB_STARTED)
        if is_announced or claim.inputs or (hooks is not None and hooks.is_owed(claim)):
            return False
        return task is not None and task.kind is RunnerKind.THREAD and task.workflow is None

    def count(self, kind: RunnerKind) -> int:
        """Return how many handlers of that kind run."""
        return sum(running.kind is kind for running in self.running.values())

    def start(self, claim: Claim, *, is_announced: bool = False, claimed_at: float | None = None) -> None:
        """Run the claim's handler; its slot is taken from this moment on. ``is_announced``: the start of its code has listeners.

        ``claimed_at``: when the claim was answered, if that was before now.
        """
        self.started += 1
        task = self._registry.get(claim.job.task)
        runner = None if task is None else self._runners.get(kind := task.kind, self._pool)
        if task is None or runner is None:
            self.finished.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False)))
            return
        context, at = runner.context(claim, self._progress), self._lease.now() if claimed_at is None else claimed_at
        running = Running(claim, task, context, kind, self._lease.may_act, is_announced, at)
        running.context.state = self.state
        if self._is_draining:
            running.context.mark_draining()
        if not self.running:
            self._reports.set_code_running(True)
        self.running[claim.job.id] = running
        if claim.inputs and (asked := self._inputs.ask(claim)) is not None:
            running.asked = asked
            asked.add_done_callback(partial(self._launch, running))
        else:
            self._launch(running)

    def _launch(self, running: Running, _: object = None) -> None:
        """Run the handler in a task; a job that takes results waits for them without one, because many may wait for the same read."""
        if running.is_launched:
            return
        running.is_launched = True
        if running.kind is RunnerKind.LOOP:
            self._loop_tasks.add(running)
        elif self.threads_take(running.claim):
            self._thread_tasks.add(running)
        else:
            running.work = self._execute(running)
            running.task = asyncio.get_running_loop().create_task(running.work, name=f"job {running.claim.job.id}")

    def stop(self, job: UUID, why: Stop, *, token: Token | None = None) -> None:
        """Cancel a handler, once for each reason, so that it can clean up undisturbed. A loss outranks every other reason.

        ``token``: cancel only the attempt under that token, because a message about an earlier one does not concern this one.
        """
        running = self.running.get(job)
        if running is None or why in running.stops_requested or token not in (None, running.claim.job.token):
            return
        running.stops_requested |= {why}
        running.context.mark_cancelled()
        if why is Stop.LOST:
            running.context.mark_lost()
            running.stop = why
        running.stop = running.stop or why
        if running.stopped_at is None:
            running.stopped_at = self._lease.now()
        if why in _CHARGES and running.work is not None and running.kind is RunnerKind.LOOP:
            running.stacks = coroutine_stack(running.work)
        self._progress.interrupt(running.claim.job, is_lost=why is Stop.LOST)
        # A task that is cancelled before its first step never runs a line, so its run would never be put into ``finished``.
        if running.task is not None and running.has_begun:
            running.task.cancel()
        if not self._thread_tasks.withdraw(running):
            self._launch(running)

    def return_unbegun(self, free: int) -> None:
        """Return the jobs that wait for a thread to their queues, but those for which a thread is ``free``."""
        for running in [each for each in self.running.values() if each.waits_for_thread][free:]:
            self._thread_tasks.withdraw(running)

    def unbegun_since(self) -> float | None:
        """Return when the first of the jobs that wait for a thread was claimed."""
        return next((each.claimed_at for each in self.running.values() if each.waits_for_thread), None)

    def request_drain(self) -> None:
        """Set the draining flag of all handlers, for those that check it between two pieces of work; none is cancelled."""
        self._is_draining = True
        for running in self.running.values():
            running.context.mark_draining()

    def log_coroutine_stacks(self) -> None:
        """Log where the coroutine of each running handler waits."""
        for running in self.running.values():
            job = running.claim.job
            if running.work is not None:
                logger.warning("stacks of job %s (%s):\n%s", job.id, job.task, coroutine_stack(running.work))

    def unresponsive(self, seconds: float) -> tuple[UUID, ...]:
        """Return the jobs whose code runs more than ``patience`` seconds after it was asked to stop, or its hook rolled back.

        Only the end of this process can end such code.
        """
        handlers = tuple(
            job
            for job, running in self.running.items()
            if (running.kind is not RunnerKind.PROCESS or running.is_running_hook)  # a runner can be killed separately
            and running.stop in (Stop.CANCELLED, Stop.LOST)
            and running.stopped_at is not None
            and self._lease.now() - running.stopped_at > seconds
        )
        return handlers if self._hooks is None else tuple(dict.fromkeys((*handlers, *self._hooks.unresponsive(seconds))))

    def stop_all(self, why: Stop) -> None:
        """Cancel all handlers for this reason."""
        for job in tuple(self.running):
            self.stop(job, why)

    async def _execute(self, running: Running) -> None:
        if running.stop is None and not self._lease.may_act():
            running.stop = Stop.LATE  # other code blocked the loop since the claim, and the right to run has passed
        running.has_begun = running.stop is None
        if running.has_begun:
            enter_job(running.claim, running.definition.sensitive)  # this task is the job's own
        self._ended(running, await self._outcome(running) if running.has_begun else None)

    def _ended(self, running: Running, outcome: Outcome | None) -> None:
        """Let the job move, because its code has stopped."""
        job = running.claim.job
        if outcome is not None and running.context.suspension is not None:
            outcome = running.context.suspension  # a handler that has caught it may have answered something else
        if running.timer is not None:
            running.timer.cancel()
        running.context.mark_lost()  # code that the handler left behind must not report for the next attempt
        self._progress.forget(job)
        del self.running[job.id]
        if not self.running:
            self._reports.set_code_running(False)
        try:
            run = self._judge(running, outcome)
        except BaseException as error:  # its slot is free; without an outcome the job would stay this worker's until it exits
            run = FinishedRun(running.claim, lifecycle.finish(job, raised_by(error, running.claim.job.task), jitter=0.0))
        self._reports.stopped(job)
        self.finished.add(run)
        self.freed()

    def _judge(self, running: Running, outcome: Outcome | None) -> FinishedRun:
        job, jitter = running.claim.job, 0.0 if isinstance(outcome, Done) else self._chance.jitter()
        if isinstance(outcome, StepsChanged):
            outcome = structs.replace(outcome, then=running.definition.on_changed_steps)
        if outcome is not None:
            # Also for a lost job: the store refuses the outcome and keeps the result, or no supervisor has moved the job yet.
            moved = lifecycle.finish(job, outcome, jitter=jitter)
            if running.context.uses_steps and isinstance(outcome, Done):
                moved = structs.replace(moved, forgets_steps=True)
                self._report_unused(running)
            return self._finished(running, moved)
        match running.stop:
            case Stop.LOST:
                return FinishedRun(running.claim, None)
            case Stop.CANCELLED:
                moved = lifecycle.cancelled(job, was_killed=running.was_killed)
            case _ if not running.has_begun:
                moved = lifecycle.release(job, code_ran=False, unavailable=running.unavailable)
                return FinishedRun(running.claim, moved, running.pause)
            case Stop.STALLED | Stop.TIMED_OUT as why:
                moved = lifecycle.deadline_exceeded(job, _CHARGES[why], jitter=jitter)
            case Stop.LATE | Stop.DRAINED:
                moved = lifecycle.release(job, code_ran=True)
            case None if running.crash is not None:
                moved = lifecycle.runner_crashed(job, running.crash, jitter=jitter)
            case None:
                return FinishedRun(running.claim, None)
            case _:
                assert_never(running.stop)
        return self._finished(running, moved if running.stacks is None else structs.replace(moved, stacks=running.stacks))

    def _finished(self, running: Running, moved: Transition) -> FinishedRun:
        seconds = None if running.begun_at is None else self._lease.now() - running.begun_at
        return FinishedRun(running.claim, moved, seconds=seconds, waited=running.waited, sensitive=running.definition.sensitive)

    async def _outcome(self, running: Running) -> Outcome | None:
        """Run the handler and return its outcome; ``None`` when it was stopped or its job was lost."""
        inputs = running.claim.inputs
        try:
            outcome = await self._attempt(running)
            return await self._blamed(running, outcome, inputs) if inputs and isinstance(outcome, Invalid) else outcome
        except BaseException as error:
            if not running.has_begun:
                return None
            return outcome_of_error(
                error, running.definition, is_stopped=running.stop is not None, saw_cancellation=running.context.saw_cancellation
            )

    async def _attempt(self, running: Running) -> Outcome | None:
        if self._hooks is not None and self._hooks.is_owed(running.claim):
            await self._run_hook(running, self._hooks)
        if running.claim.inputs and any(each.is_each for each in running.claim.inputs):
            return await self._prepared(running, self._items(running))
        if running.definition.workflow is not None:
            return await self._prepared(running, self._graph(running))
        if running.claim.inputs and (invalid := await self._prepared(running, self._fill(running))) is not None:
            return invalid
        if running.kind is RunnerKind.PROCESS and self._pool is not None:
            self._reports.waiting(running.claim.job)
            running.context.on_begun = partial(self._begin_in_runner, running)  # its clocks start in a runner
            return await self._pool.run(running)
        self._begin(running)
        if running.kind is RunnerKind.THREAD:
            call = partial(copy_context().run, self._thread_tasks.run, running, asyncio.get_running_loop())
            value = await self._threads.run_call(running.context, call)
        elif self._registry.around_run:
            value = await within(self._registry.around_run, running.context, partial(self._run, running))
        else:
            value = await self._run(running)
        return value if isinstance(value, Invalid) else outcome_of_value(value, running.definition.name)

    async def _blamed(self, running: Running, outcome: Invalid, inputs: Sequence[Input]) -> Invalid:
        """Return the outcome with the name of the node whose result does not fit the handler, if one does not."""
        if outcome.reason is not Reason.PAYLOAD_INVALID:
            return outcome
        find = partial(self._inputs.find_unfit, running.claim, running.definition, inputs)
        unfit = await self._threads.run_call(running.context, find)
        return outcome if unfit is None else invalid_payload(await self._inputs.named(unfit))

    def _begin(self, running: Running) -> None:
        running.begin(self._lease.now())
        self._report_begin(running)

    def _report_begin(self, running: Running) -> None:
        job, waited = running.claim.job, running.context.waited
        assert running.begun_at is not None
        self._reports.begun(job, running.begun_at)
        if self._events.tallies is not None:
            self._events.tallies.waited((job.queue, job.task, waited))
        if self.begun is not None:
            self.begun(running.claim, waited)
        if running.is_announced:
            where = {"worker": self._lease.worker, "waited": waited}
            emit = self._events.emit
            emit(EventName.JOB_STARTED, job=job.id, task=job.task, queue=job.queue, attempt=job.attempt, **where)

    def _begin_in_runner(self, running: Running) -> None:
        self._begin(running)
        job = running.claim.job
        if job.policy.timeout is not None:
            until = job.policy.timeout + OVERDUE_AFTER
            running.timer = asyncio.get_running_loop().call_later(until, self._reports.overdue)

    async def _run_hook(self, running: Running, hooks: RescueHooks) -> None:
        running.is_running_hook = True
        try:
            await hooks.run_before_attempt(running.claim)
            if running.stop is not None:
                raise asyncio.CancelledError
        except BaseException as error:
            # The handler has not begun: neither an unreachable store nor an ending worker may cost it an attempt.
            if isinstance(error, StoreUnavailable) or running.stop in (Stop.LATE, Stop.DRAINED):
                running.has_begun = False
                running.pause = hooks.interval if running.stop is None else 0.0
            raise
        finally:
            running.is_running_hook = False

    async def _prepared(self, running: Running, prepare: Awaitable[Prepared]) -> Prepared | Invalid:
        """Return what was prepared instead of the handler's run, or for it; or why the results that it takes do not fit."""
        try:
            return await prepare
        except PayloadInvalid as error:
            return invalid_payload(error)
        except StoreUnavailable:
            running.has_begun = False  # an unreachable store must not cost the job an attempt
            raise

    async def _fill(self, running: Running) -> None:
        """Fill in the results that the payload lacks."""
        running.claim = await self._inputs.filled(running.claim, running.definition, running.take_asked())

    async def _items(self, running: Running) -> WaitFor:
        """Make the job wait for one job for each item of its lists."""
        self._inputs.require_growth()
        return WaitFor(await self._inputs.items(running.claim, running.definition, running.take_asked()))

    async def _graph(self, running: Running) -> WaitFor:
        """Build the graph of a workflow in a thread, because the code is the user's, and make the job wait for it."""
        self._inputs.require_growth()
        if running.claim.inputs:
            await self._fill(running)
        self._begin(running)
        call = partial(graph_of, running.claim, running.definition)
        return WaitFor(await self._threads.run_call(running.context, call))

    async def _run(self, running: Running) -> Json | Invalid:
        decoded = decode(running.definition, running.claim)
        if isinstance(decoded, Invalid):
            return decoded
        arguments, ignored = decoded
        if ignored:
            self._ignore(running, ignored)
        return await self._loop_runner.run(running.definition, running.context, arguments)

    def _report_unused(self, running: Running) -> None:
        if unused := running.context.unused_steps:
            job = running.claim.job
            self._events.emit(EventName.STEPS_UNUSED, job=job.id, task=job.task, steps=", ".join(unused))

    def _ignore(self, running: Running, fields: tuple[str, ...]) -> None:
        job = running.claim.job
        self._events.emit(EventName.PAYLOAD_FIELDS_IGNORED, job=job.id, task=job.task, fields=",".join(fields))

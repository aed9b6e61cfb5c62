"""One claimed job, from its payload to its transition: decode, run, judge the outcome, decide the move."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from holdfast._core import lifecycle
from holdfast._core.job import Claim, Failure, Reason, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.payload import cut_text, encode_result
from holdfast._engine.context import Context
from holdfast._engine.events import EventName, Events
from holdfast._engine.registry import Registry, TaskDefinition
from holdfast._engine.reporter import Reporter
from holdfast._engine.runners import LoopRunner, Runner, ThreadRunner
from holdfast._ports.clock import Chance
from holdfast.errors import JobLost, PayloadInvalid

ERROR_LIMIT = 16 * 1024


class Stop(StrEnum):
    """Why the engine stops a handler's code."""

    LOST = "lost"
    CANCELLED = "cancelled"
    LATE = "late"
    DRAINED = "drained"


class Running(Struct, eq=False):
    """A handler at work in this process."""

    claim: Claim
    context: Context
    is_async: bool
    task: asyncio.Task[None] | None = None
    stop: Stop | None = None
    stopped_at: float | None = None

    @property
    def key(self) -> tuple[UUID, Token]:
        """Which attempt of which job."""
        return self.claim.hold.job, self.claim.hold.token


class Ended(Struct, frozen=True):
    """A handler whose code has stopped. ``transition`` is ``None`` when the job was somebody else's by then."""

    claim: Claim
    transition: Transition | None
    late_result: bytes | None = None


class Executor:
    """Runs claims and hands over what became of them."""

    def __init__(
        self,
        registry: Registry,
        reporter: Reporter,
        *,
        threads: ThreadRunner,
        events: Events,
        chance: Chance,
        now: Callable[[], float],
        on_ended: Callable[[Ended], None],
        set_code_running: Callable[[bool], None],
    ) -> None:
        self.running: dict[UUID, Running] = {}
        self._registry = registry
        self._reporter = reporter
        self._runners: dict[bool, Runner] = {True: LoopRunner(), False: threads}
        self._events = events
        self._chance = chance
        self._now = now
        self._on_ended = on_ended
        self._set_code_running = set_code_running

    def count(self, *, is_async: bool) -> int:
        """How many handlers of that kind run."""
        return sum(running.is_async is is_async for running in self.running.values())

    def start(self, claim: Claim) -> None:
        """Run the claim's handler; its slot is taken from this moment on."""
        task = self._registry.get(claim.hold.task)
        if task is None:
            self._on_ended(Ended(claim, lifecycle.release(claim.hold, code_ran=False)))
            return
        context = self._runners[task.is_async].context(claim, self._reporter)
        running = Running(claim, context, task.is_async)
        if not self.running:
            self._set_code_running(True)
        self.running[claim.hold.job] = running
        running.task = asyncio.get_running_loop().create_task(self._execute(running, task), name=f"job {claim.hold.job}")

    def stop(self, job: UUID, why: Stop) -> None:
        """Cancel a handler. A loss outranks every other reason: its outcome must not be delivered."""
        running = self.running.get(job)
        if running is None:
            return
        if why is Stop.LOST:
            running.context.mark_lost()
            running.stop = why
        if why is Stop.CANCELLED:
            running.context.mark_cancelled()
        running.stop = running.stop or why
        if running.stopped_at is None:
            running.stopped_at = self._now()
        if running.task is not None:
            running.task.cancel()

    def stop_all(self, why: Stop) -> None:
        """Cancel every handler."""
        for job in tuple(self.running):
            self.stop(job, why)

    async def _execute(self, running: Running, task: TaskDefinition) -> None:
        hold = running.claim.hold
        self._events.emit(EventName.JOB_CLAIMED, job=hold.job, task=hold.task, attempt=hold.attempt)
        outcome = await self._outcome(running, task)
        # The code has stopped; only now may the job move.
        self._reporter.forget(hold)
        del self.running[hold.job]
        if not self.running:
            self._set_code_running(False)
        self._on_ended(self._judge(running, outcome))

    def _judge(self, running: Running, outcome: Outcome | None) -> Ended:
        hold = running.claim.hold
        if running.stop is Stop.LOST or (outcome is None and running.stop is None):
            return Ended(running.claim, None, outcome.result if isinstance(outcome, Done) else None)
        if outcome is not None:
            return Ended(running.claim, lifecycle.finish(hold, outcome, jitter=self._chance.jitter()))
        if running.stop is Stop.CANCELLED:
            return Ended(running.claim, lifecycle.cancelled(hold))
        return Ended(running.claim, lifecycle.release(hold, code_ran=True))

    async def _outcome(self, running: Running, task: TaskDefinition) -> Outcome | None:
        """What the handler answered; ``None`` when it was stopped or its job was lost."""
        hold = running.claim.hold
        try:
            arguments, ignored = task.payload.decode(running.claim.payload)
        except PayloadInvalid as error:
            return Invalid(Reason.PAYLOAD_INVALID, Failure(type(error).__name__, str(error)))
        if ignored:
            self._events.emit(EventName.PAYLOAD_FIELDS_IGNORED, job=hold.job, task=hold.task, fields=",".join(ignored))
        try:
            value = await self._runners[task.is_async].run(task, running.context, arguments)
        except BaseException as error:
            return _judge_error(error, task, was_stopped=running.stop is not None)
        if isinstance(value, Retry | Snooze | Cancel | Fail):
            return value
        try:
            return Done(encode_result(value))
        except PayloadInvalid as error:
            return Invalid(Reason.RESULT_INVALID, Failure(type(error).__name__, str(error)))


def _judge_error(error: BaseException, task: TaskDefinition, *, was_stopped: bool) -> Outcome | None:
    """What an exception out of a handler means; a group counts as its leaves."""
    leaves = tuple(_leaves(error))
    if any(isinstance(leaf, JobLost) for leaf in leaves):
        return None
    if was_stopped and all(isinstance(leaf, asyncio.CancelledError) for leaf in leaves):
        return None
    if len(leaves) == 1 and isinstance(leaves[0], Retry | Snooze | Cancel | Fail):
        return leaves[0]
    failure = Failure(type(error).__name__, cut_text(_message(error), ERROR_LIMIT), cut_text(_trace(error), ERROR_LIMIT))
    return Raised(failure, is_final=any(task.is_final(leaf) for leaf in leaves))


def _message(error: BaseException) -> str:
    """The exception's text; an exception whose own ``__str__`` is broken must not end the worker."""
    try:
        return str(error)
    except Exception as broken:
        return f"(its message cannot be read: {type(broken).__name__})"


def _trace(error: BaseException) -> str:
    """File, line and function of each frame; no source text's values, no locals."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error

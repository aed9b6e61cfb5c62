"""One claimed job, from its payload to its transition: decode, run, judge the outcome, decide the move."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import assert_never
from uuid import UUID

from msgspec import Struct

from holdfast._core import lifecycle
from holdfast._core.job import Claim, Failure, Reason, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.payload import ERROR_TEXT_LIMIT, cut_text, encode_result
from holdfast._engine.context import Context
from holdfast._engine.events import EventName, Events
from holdfast._engine.registry import Registry, TaskDefinition
from holdfast._engine.reporter import Reporter
from holdfast._engine.runners import LoopRunner, Runner, ThreadRunner
from holdfast._ports.clock import Chance
from holdfast.errors import JobLost, PayloadInvalid

OUR_FOLDER = str(Path(__file__).parent)


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
    has_begun: bool = False
    stop: Stop | None = None
    told: frozenset[Stop] = frozenset()
    stopped_at: float | None = None

    @property
    def key(self) -> tuple[UUID, Token]:
        """Which attempt of which job."""
        return self.claim.hold.job, self.claim.hold.token


class Ended(Struct, frozen=True):
    """A handler whose code has stopped. ``transition`` is ``None`` when it answered nothing and its job was somebody else's."""

    claim: Claim
    transition: Transition | None


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
        may_start: Callable[[], bool],
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
        self._may_start = may_start
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

    def stop(self, job: UUID, why: Stop, *, token: Token | None = None) -> None:
        """Cancel a handler, once for each reason, so that it can clean up in peace. A loss outranks every other reason.

        ``token``: only if it runs under that one; what is said of an earlier attempt does not concern this one.
        """
        running = self.running.get(job)
        if running is None or why in running.told or token not in (None, running.claim.hold.token):
            return
        running.told |= {why}
        running.context.mark_cancelled()
        if why is Stop.LOST:
            running.context.mark_lost()
            running.stop = why
        running.stop = running.stop or why
        if running.stopped_at is None:
            running.stopped_at = self._now()
        self._reporter.interrupt(running.claim.hold, is_lost=why is Stop.LOST)
        # A task cancelled before its first step would never run a line, and so never end for us.
        if running.task is not None and running.has_begun:
            running.task.cancel()

    def stop_all(self, why: Stop) -> None:
        """Cancel every handler."""
        for job in tuple(self.running):
            self.stop(job, why)

    async def _execute(self, running: Running, task: TaskDefinition) -> None:
        hold = running.claim.hold
        if running.stop is None and not self._may_start():
            running.stop = Stop.LATE  # other code blocked the loop since the claim, and the right to run has passed
        running.has_begun = running.stop is None
        outcome = await self._outcome(running, task) if running.has_begun else None
        # The code has stopped; only now may the job move.
        self._reporter.forget(hold)
        del self.running[hold.job]
        if not self.running:
            self._set_code_running(False)
        self._on_ended(self._judge(running, outcome))

    def _judge(self, running: Running, outcome: Outcome | None) -> Ended:
        hold = running.claim.hold
        if outcome is not None:
            # Also of a lost job: the store refuses it and keeps the result, or nobody has moved the job yet.
            return Ended(running.claim, lifecycle.finish(hold, outcome, jitter=self._chance.jitter()))
        if running.stop is None or running.stop is Stop.LOST:
            return Ended(running.claim, None)
        if running.stop is Stop.CANCELLED:
            return Ended(running.claim, lifecycle.cancelled(hold))
        return Ended(running.claim, lifecycle.release(hold, code_ran=running.has_begun))

    async def _outcome(self, running: Running, task: TaskDefinition) -> Outcome | None:
        """What the handler answered; ``None`` when it was stopped or its job was lost."""
        try:
            return await self._answer(running, task)
        except BaseException as error:
            return _judge_error(error, task, running)

    async def _answer(self, running: Running, task: TaskDefinition) -> Outcome:
        hold = running.claim.hold
        try:
            arguments, ignored = task.payload.decode(running.claim.payload)
        except PayloadInvalid as error:
            return Invalid(Reason.PAYLOAD_INVALID, Failure(type(error).__name__, str(error)))
        if ignored:
            self._events.emit(EventName.PAYLOAD_FIELDS_IGNORED, job=hold.job, task=hold.task, fields=",".join(ignored))
        value = await self._runners[task.is_async].run(task, running.context, arguments)
        if isinstance(value, Retry | Snooze | Cancel | Fail):
            return _plain(value)
        try:
            return Done(encode_result(value))
        except PayloadInvalid as error:
            return Invalid(Reason.RESULT_INVALID, Failure(type(error).__name__, str(error)))


def _judge_error(error: BaseException, task: TaskDefinition, running: Running) -> Outcome | None:
    """What an exception out of a handler means; a group counts as its leaves."""
    leaves = tuple(_leaves(error))
    if any(isinstance(leaf, JobLost) for leaf in leaves):
        return None
    if len(leaves) == 1 and isinstance(leaves[0], Retry | Snooze | Cancel | Fail):
        return _judge_answer(leaves[0], task, running)
    if running.stop is not None and (running.context.was_told or all(map(_is_reaction, leaves))):
        return None
    failure = Failure(type(error).__name__, _text(error), cut_text(_trace(error), ERROR_TEXT_LIMIT))
    return Raised(failure, is_final=any(task.is_final(leaf) for leaf in leaves))


def _judge_answer(answer: Retry | Snooze | Cancel | Fail, task: TaskDefinition, running: Running) -> Outcome | None:
    try:
        return _plain(answer)
    except Exception as error:
        return _judge_error(error, task, running)


def _plain(answer: Retry | Snooze | Cancel | Fail) -> Outcome:
    """The same answer made of plain values: what the user's subclass or reason is, no store needs to know how to write."""
    match answer:
        case Retry():
            return Retry(answer.after, _text(answer.reason))
        case Snooze():
            return Snooze(answer.for_)
        case Cancel():
            return Cancel(_text(answer.reason))
        case Fail():
            return Fail(_text(answer.reason))
        case _:
            assert_never(answer)


def _is_reaction(error: BaseException | None) -> bool:
    """Whether it was raised because the handler was cancelled: a library often turns a cancellation into an error of its own."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        if isinstance(error, asyncio.CancelledError):
            return True
        seen.add(id(error))
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return False


def _text(value: object) -> str:
    """Its text, cut; an exception whose own ``__str__`` is broken must not end the worker."""
    try:
        return cut_text(str(value), ERROR_TEXT_LIMIT)
    except Exception as broken:
        return f"(its message cannot be read: {type(broken).__name__})"


def _trace(error: BaseException) -> str:
    """File, line and function of each frame from the handler on; no source text's values, no locals."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None and frames.tb_frame.f_code.co_filename.startswith(OUR_FOLDER):
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        return ""


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error

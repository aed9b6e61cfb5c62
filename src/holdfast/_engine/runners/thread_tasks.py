"""Claims whose ``def`` handlers run in threads: a thread begins, runs and judges one without a turn of the event loop."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

from holdfast._core.outcome import Invalid, Outcome
from holdfast._engine.runners.current import enter_job
from holdfast._engine.runners.outcomes import outcome_of_error, outcome_of_value
from holdfast._engine.runners.runners import decode_and_call
from holdfast._engine.runners.running import Running
from holdfast._engine.runners.threads import ThreadRunner
from holdfast._engine.tasks.around import Around, within_thread


class ThreadCalls(NamedTuple):
    """What handlers in threads need of their worker. Only ``now`` is called in the thread.

    ``begun`` reports that a handler has begun, ``ignore`` the fields of the payload that it does not know, ``ended`` its outcome.
    """

    now: Callable[[], float]
    begun: Callable[[Running], None]
    ignore: Callable[[Running, tuple[str, ...]], None]
    ended: Callable[[Running, Outcome | None], None]


class ThreadTasks:
    """Runs the handlers that are added in threads, in that order, each in a separate context."""

    def __init__(self, threads: ThreadRunner, around: Sequence[Around], calls: ThreadCalls) -> None:
        self._threads, self._around, self.calls = threads, around, calls

    def add(self, running: Running) -> None:
        """Run the handler in a thread."""
        running.in_thread = attempt = _Attempt(self, running)
        self._threads.add(attempt)

    def withdraw(self, running: Running) -> bool:
        """Return whether the handler had not begun; then it never does, and the claim has ended."""
        if running.in_thread is None or running.has_begun or not self._threads.withdraw(running.in_thread):
            return False
        self.calls.ended(running, None)
        return True

    def run(self, running: Running, loop: asyncio.AbstractEventLoop) -> Any:
        """Return what the handler returns, or why it cannot read the payload; called in the thread."""

        def ignore(fields: tuple[str, ...]) -> None:
            loop.call_soon_threadsafe(self.calls.ignore, running, fields)

        call = partial(decode_and_call, running.definition, running.context, running.claim, ignore)
        return within_thread(self._around, running.context, call, loop) if self._around else call()


class _Attempt:
    """The work of one claim for a thread."""

    __slots__ = ("_inside", "_loop", "_tasks", "has_begun", "running")

    def __init__(self, tasks: ThreadTasks, running: Running) -> None:
        self._tasks, self.running, self.has_begun = tasks, running, False
        self._inside, self._loop = copy_context(), asyncio.get_running_loop()

    def begins(self) -> bool:
        running = self.running
        if running.stop is None and running.may_start():
            running.begin(self._tasks.calls.now())
        return running.has_begun

    def call(self) -> Any:
        return self._inside.run(self._call)

    def _call(self) -> Any:
        enter_job(self.running.claim, self.running.definition.sensitive)  # this context is the job's own
        return self._tasks.run(self.running, self._loop)

    def answer(self, value: Any, error: BaseException | None) -> Outcome | None:
        running, task = self.running, self.running.definition
        if error is None and not (value is None and running.context.saw_cancellation):
            return value if isinstance(value, Invalid) else outcome_of_value(value, task.name)
        error = asyncio.CancelledError() if error is None else error
        return outcome_of_error(
            error, task, is_stopped=running.stop is not None, saw_cancellation=running.context.saw_cancellation
        )

    def begun(self) -> None:
        self._tasks.calls.begun(self.running)

    def ended(self, result: Outcome | None) -> None:
        self._tasks.calls.ended(self.running, result)

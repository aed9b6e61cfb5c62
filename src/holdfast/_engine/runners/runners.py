"""Where a handler runs, and how it is called."""

import os
from collections.abc import Callable
from typing import Protocol

from holdfast._core.job import Claim, Json
from holdfast._core.outcome import Invalid, Outcome
from holdfast._engine.runners.forked import FORKED
from holdfast._engine.runners.outcomes import decode
from holdfast._engine.runners.running import Running
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.job_context import JobContext, ProgressSink
from holdfast._engine.tasks.registry import TaskDefinition


class Runner(Protocol):
    """Runs handlers of one kind."""

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        """Return the job object that its handlers receive."""
        ...


class Processes(Protocol):
    """Runs handlers in separate processes, which also read the payload and the answer."""

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        """Return the worker's half of the job object."""
        ...

    async def run(self, running: Running) -> Outcome | None:
        """Return the outcome; ``None`` when the handler was stopped, or when ``running`` records that it crashed or never began."""
        ...


class LoopRunner:
    """``async def`` handlers, on the worker's event loop."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        return Job(claim, reporter)

    async def run(self, task: TaskDefinition, context: JobContext, arguments: dict[str, object]) -> Json:
        """Return what the handler returns, or raise what it raises. When cancelled, return only after the code has stopped."""
        try:
            if task.takes_job:
                return await task.function(context, **arguments)
            return await task.function(**arguments)
        finally:
            if os.getpid() != self._process:  # a hook of ``os.register_at_fork`` would miss a fork by C code
                os._exit(FORKED)


def decode_and_call(
    task: TaskDefinition, context: JobContext, claim: Claim, ignore: Callable[[tuple[str, ...]], object]
) -> Json | Invalid:
    """Return what the handler returns, or why it cannot read the payload. ``ignore``: gets the fields that it does not know, if any."""
    decoded = decode(task, claim)
    if isinstance(decoded, Invalid):
        return decoded
    arguments, ignored = decoded
    if ignored:
        ignore(ignored)
    return task.function(context, **arguments) if task.takes_job else task.function(**arguments)

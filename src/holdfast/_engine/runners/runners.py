"""Where a handler runs: on the event loop or in a thread."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

from holdfast._core.job import Claim, Json
from holdfast._core.outcome import Invalid, Outcome
from holdfast._engine.runners.outcomes import captured, decode
from holdfast._engine.runners.running import Running
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.job_context import JobContext, ProgressSink
from holdfast._engine.tasks.registry import TaskDefinition

FORKED = 70
"""Exit code of a forked child that came back from a handler (``EX_SOFTWARE``)."""


class Runner(Protocol):
    """Runs one handler until its code has stopped."""

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        """Return the job object that its handlers receive."""
        ...

    async def run(self, task: TaskDefinition, context: JobContext, arguments: dict[str, object]) -> Json:
        """Return what the handler returns, or raise what it raises. When cancelled, return only after the code has stopped."""
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
        try:
            if task.takes_job:
                return await task.function(context, **arguments)
            return await task.function(**arguments)
        finally:
            if os.getpid() != self._process:  # a hook of ``os.register_at_fork`` would miss a fork by C code
                os._exit(FORKED)


class ThreadRunner:
    """``def`` handlers, in a thread of the worker; a thread cannot be cancelled, only asked to end."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="holdfast-handler")

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        return SyncJob(claim, reporter, asyncio.get_running_loop())

    async def run(self, task: TaskDefinition, context: JobContext, arguments: dict[str, object]) -> Json:
        return await self.run_call(context, partial(copy_context().run, call_of(task, context, arguments)))

    async def run_call(self, context: JobContext, call: Callable[[], Any]) -> Json:
        """Wait for the thread. When cancelled, ask the handler to end and go on waiting: its code has not stopped."""
        ended = self._begin(call)
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                context.mark_cancelled()
        value, error = ended.result()
        if error is not None:
            raise error
        if context.saw_cancellation and value is None:
            raise asyncio.CancelledError
        return value

    def _begin(self, call: Callable[[], Any]) -> "asyncio.Future[tuple[Any, BaseException | None]]":
        return asyncio.get_running_loop().run_in_executor(self._pool, _in_thread, call)

    def close(self) -> None:
        """Start no more handlers; do not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def call_of(task: TaskDefinition, context: JobContext, arguments: dict[str, object]) -> Callable[[], Any]:
    """Return the handler with its arguments, and with its job if it takes one."""
    return partial(task.function, context, **arguments) if task.takes_job else partial(task.function, **arguments)


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
    return call_of(task, context, arguments)()


def _in_thread(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    with exits_in_forked_child():
        return captured(call)


class exits_in_forked_child:  # noqa: N801 - used as a word
    """Ends a child that the code forked where the code ends: if it came back, it would run what its parent runs."""

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(self, *_: object) -> None:
        if os.getpid() != self._process:
            os._exit(FORKED)

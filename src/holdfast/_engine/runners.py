"""Where a handler runs: on the event loop or in a thread."""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from holdfast._core.job import Claim, Json
from holdfast._engine.context import Context, Job, SyncJob
from holdfast._engine.registry import TaskDefinition
from holdfast._engine.reporter import Reporter

FORKED = 70
"""Exit code of a forked child that came back from a handler (``EX_SOFTWARE``)."""


class Runner(Protocol):
    """Runs one handler to its end."""

    def context(self, claim: Claim, reporter: Reporter) -> Context:
        """The job object its handlers hold."""
        ...

    async def run(self, task: TaskDefinition, context: Context, arguments: dict[str, object]) -> Json:
        """What the handler returns or raises. When cancelled: returns only after the code has stopped."""
        ...


class LoopRunner:
    """``async def`` handlers, on the worker's event loop."""

    def context(self, claim: Claim, reporter: Reporter) -> Context:
        """A ``Job``."""
        return Job(claim, reporter)

    async def run(self, task: TaskDefinition, context: Context, arguments: dict[str, object]) -> Json:
        """Await the handler."""
        with ended_in_children():
            return await _call(task, context, arguments)()


class ThreadRunner:
    """``def`` handlers, in a thread of the worker; a thread cannot be cancelled, only asked."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="holdfast-handler")

    def context(self, claim: Claim, reporter: Reporter) -> Context:
        """A ``SyncJob``."""
        return SyncJob(claim, reporter, asyncio.get_running_loop())

    async def run(self, task: TaskDefinition, context: Context, arguments: dict[str, object]) -> Json:
        """Wait for the thread; when cancelled meanwhile, tell the handler and go on waiting: its code has not stopped."""
        ended = asyncio.get_running_loop().run_in_executor(self._pool, _contained, _call(task, context, arguments))
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                context.mark_cancelled()
        value, error = ended.result()
        if error is not None:
            raise error
        if context.was_told and value is None:
            raise asyncio.CancelledError
        return value

    def close(self) -> None:
        """Take no more handlers; those that run are not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _call(task: TaskDefinition, context: Context, arguments: dict[str, object]) -> Callable[[], Any]:
    return partial(task.function, context, **arguments) if task.takes_job else partial(task.function, **arguments)


def _contained(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """A StopIteration or SystemExit in a thread must come back as a value: a future cannot carry them."""
    with ended_in_children():
        try:
            return call(), None
        except BaseException as error:
            return None, error


@contextmanager
def ended_in_children() -> Iterator[None]:
    """A child that the code forked ends where the code ends: coming back, it would run what its parent runs."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(FORKED)

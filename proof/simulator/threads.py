"""Handlers in threads of simulated workers: code beside the event loop, which cannot be interrupted."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

from holdfast._core.job import Claim, Json, NewJob
from holdfast._core.policy import Backoff
from holdfast._engine.runners.runners import ThreadRunner
from holdfast._engine.tasks.child_spec import ChildSpec
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.job_context import ProgressSink
from holdfast._engine.tasks.registry import TaskDefinition, define
from proof.simulator.loop import Process, VirtualLoop
from proof.simulator.programs import (
    CREEP,
    SCENE,
    STEPS,
    crashing,
    creeping,
    long,
    parent,
    raising,
    resuming,
    silent,
)

Result = TypeVar("Result")


class SimThreads(ThreadRunner):
    """The threads of one process. They run while its event loop is busy, are stopped with it, and die with it.

    Their code is awaited, because there is no real thread that could wait. Its calls of its job run in the event loop.
    """

    def __init__(self, loop: VirtualLoop, process: Process) -> None:
        super().__init__(1)
        self._loop, self._process = loop, process

    def context(self, claim: Claim, reporter: ProgressSink) -> "ThreadJob":
        """Return the job context of a handler in a thread, whose verbs are awaited too."""
        return ThreadJob(claim, reporter, self._loop, self._process)

    def _begin(self, call: Callable[[], Any]) -> "asyncio.Future[tuple[Any, BaseException | None]]":
        context = self._loop.context_of(self._process.thread)
        context.run(SCENE.set, SCENE.get())
        code = call()
        return self._loop.create_task(contained(code if isinstance(code, Awaitable) else _value(code)), context=context)


class ThreadJob(Job):
    """The job context of a handler in a thread."""

    def __init__(self, claim: Claim, reporter: ProgressSink, loop: VirtualLoop, process: Process) -> None:
        super().__init__(claim, reporter)
        self._loop, self._process = loop, process

    async def _progress(self, stage: str | None, fraction: float | None, message: str | None) -> None:
        await self._in_loop(super()._progress(stage, fraction, message))

    async def _save(self, value: Json) -> None:
        await self._in_loop(super()._save(value))

    async def _enqueue(self, child: ChildSpec, job: NewJob) -> Any:
        return await self._in_loop(super()._enqueue(child, job))

    async def _in_loop(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        task: asyncio.Task[Result] = self._loop.create_task(coroutine, context=self._loop.context_of(self._process))
        return await task


@cache
def threaded(ttl: float) -> dict[str, TaskDefinition]:
    """Return the tasks whose code runs in threads and in runner processes, by name, for leases of ``ttl`` seconds."""
    rest = CREEP / STEPS * ttl
    made = [
        define(
            _as_def(handler),
            name=f"{where}_{handler.__name__}",
            process=where == "process",
            max_attempts=4,
            backoff=Backoff.fixed("500ms", "1s", "2s"),
            progress_within=rest if handler is creeping else None,
        )
        for where in ("thread", "process")
        for handler in _HANDLERS
    ]
    return {definition.name: definition for definition in made}


def _as_def(handler: Callable[[Job], Awaitable[Json]]) -> Callable[[SyncJob], Any]:
    def call(job: SyncJob) -> Any:
        return handler(job)  # type: ignore[arg-type]

    call.__doc__ = handler.__doc__
    return call


async def _value(value: Any) -> Any:
    """Stand for code that needs no time, such as that of the graph of a workflow."""
    return value


async def contained(code: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return what the code returns, and any exception that it raises."""
    try:
        return await code, None
    except GeneratorExit:
        raise
    except BaseException as error:
        return None, error


_HANDLERS: tuple[Callable[[Job], Awaitable[Json]], ...] = (long, silent, raising, resuming, crashing, parent, creeping)
THREADED, PROCESSES = (tuple(f"{where}_{handler.__name__}" for handler in _HANDLERS) for where in ("thread", "process"))
SHARE = 0.2  # of the worlds in which anything may happen have such handlers


def draw_threads(numbers: random.Random) -> tuple[str, ...]:
    """Draw the tasks whose handlers run in threads, which cannot be interrupted, or in runner processes; most worlds have none."""
    threads = tuple(numbers.sample(THREADED, numbers.choice([1, 2, 4]))) if numbers.random() < SHARE else ()
    processes = tuple(numbers.sample(PROCESSES, numbers.choice([1, 2, 4]))) if numbers.random() < SHARE else ()
    return threads + processes

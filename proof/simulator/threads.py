"""Handlers in threads of simulated workers: code beside the event loop, which cannot be interrupted."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import Context
from functools import cache
from typing import Any, TypeVar

from holdfast._core.job import Claim, Json, NewJob
from holdfast._core.policy import Backoff
from holdfast._engine.runners.outcomes import captured
from holdfast._engine.runners.threads import ThreadRunner
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

    def __init__(self, loop: VirtualLoop, process: Process, threads: int) -> None:
        super().__init__(threads)
        self._world, self._process = loop, process

    def context(self, claim: Claim, reporter: ProgressSink) -> "ThreadJob":
        """Return the job context of a handler in a thread, whose verbs are awaited too."""
        return ThreadJob(claim, reporter, self._world, self._process)

    def _start_thread(self) -> None:
        self._world.create_task(self._take_all_awaited(), context=self._context())

    def _notify(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        loop.call_soon(self._notified, context=context)

    async def _take_all_awaited(self) -> None:
        while (work := self._next()) is not None:
            result = None
            if self._begins(work):
                value, error = captured(work.call)
                if isinstance(value, Awaitable):
                    value, error = await self._world.create_task(contained(value), context=self._context())
                result = work.answer(value, error)
            self._end(work, result)

    def _context(self) -> Context:
        context = self._world.context_of(self._process.thread)
        context.run(SCENE.set, SCENE.get())
        return context


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


def only_kind(tasks: Collection[str]) -> tuple[str, ...]:
    """Return all tasks of the kind that these belong to, if only threads or only runners run them: then workers claim them ahead."""
    return next((kind for kind in (THREADED, PROCESSES) if tasks and {*tasks} <= {*kind}), ())


def draw_threads(numbers: random.Random) -> tuple[str, ...]:
    """Draw the tasks whose handlers run in threads, which cannot be interrupted, or in runner processes; most worlds have none."""
    threads = tuple(numbers.sample(THREADED, numbers.choice([1, 2, 4]))) if numbers.random() < SHARE else ()
    processes = tuple(numbers.sample(PROCESSES, numbers.choice([1, 2, 4]))) if numbers.random() < SHARE else ()
    return threads + processes

"""Async handlers run on a few reused asyncio tasks, each of which takes one job after the other.

A separate task per job costs a short job more than all the rest of it. A handler that never waits leaves its task free for the
next one. From its first wait on, a handler keeps its task, so that the engine can cancel it and a dump shows it by name.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any

from holdfast._engine.runners.running import Running

SLICE = 0.001
"""Seconds of handlers that do not wait, after which everything else in the loop has its turn."""

TASKS_PER_KEPT = 2
"""How many more tasks start for each one that a handler keeps: of many handlers that all wait, the last one begins soon, too."""


class LoopTasks:
    """Runs the handlers that are added, in that order, each in a separate context."""

    def __init__(self, run: Callable[[Running], Coroutine[Any, Any, None]], now: Callable[[], float]) -> None:
        self._run = run
        self._now = now
        self._waiting: deque[Running] = deque()
        self._free = 0

    def add(self, running: Running) -> None:
        """Run the handler in a later turn of the loop."""
        self._waiting.append(running)
        if not self._free:
            self._start_tasks(1)

    def _start_tasks(self, limit: int) -> None:
        while self._free < min(limit, len(self._waiting)):
            self._free += 1
            asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        await self._take()

    @coroutine
    def _take(self) -> Generator[Any, Any, None]:
        loop_task = asyncio.current_task()
        assert loop_task is not None
        is_free, until = True, self._now() + SLICE
        try:
            while self._waiting:
                running = self._waiting.popleft()
                running.task, running.work = loop_task, self._run(running)
                send, throw, inside = running.work.send, running.work.throw, copy_context().run
                try:
                    awaited = inside(send, None)
                    is_free = False
                    self._keep(loop_task, running)
                    while True:
                        try:
                            answer = yield awaited
                        except BaseException as error:
                            awaited = inside(throw, error)
                        else:
                            awaited = inside(send, answer)
                except StopIteration:
                    pass
                if not is_free or loop_task.cancelling():  # a cancellation of this task was meant for that job
                    break
                if self._now() >= until:
                    yield
                    until = self._now() + SLICE
        finally:
            self._free -= is_free
            self._start_tasks(1)

    def _keep(self, loop_task: "asyncio.Task[Any]", running: Running) -> None:
        self._free -= 1
        loop_task.set_name(f"job {running.claim.job.id}")
        self._start_tasks(self._free + TASKS_PER_KEPT)

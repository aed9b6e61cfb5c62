"""Who runs handlers on the event loop: a few tasks, each of which takes one job after the other.

A task of its own costs a short job more than all the rest of it. A handler that never waits leaves its hand free for the
next one; from the first time it waits, that hand is its own task, to be cancelled and asked for by name.
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

CALLS = 2
"""How many more hands come for each one that is kept: of many handlers that all wait, the last one begins soon, too."""


class LoopTasks:
    """Runs what is added, in that order, each in a context of its own."""

    def __init__(self, run: Callable[[Running], Coroutine[Any, Any, None]], now: Callable[[], float]) -> None:
        self._run = run
        self._now = now
        self._waiting: deque[Running] = deque()
        self._free = 0

    def add(self, running: Running) -> None:
        """Run it in a turn of the loop that is still to come."""
        self._waiting.append(running)
        if not self._free:
            self._call(1)

    def _call(self, most: int) -> None:
        while self._free < min(most, len(self._waiting)):
            self._free += 1
            asyncio.get_running_loop().create_task(self._take_all())

    async def _take_all(self) -> None:
        await self._take()

    @coroutine
    def _take(self) -> Generator[Any, Any, None]:
        hand = asyncio.current_task()
        assert hand is not None
        is_free, until = True, self._now() + SLICE
        try:
            while self._waiting:
                running = self._waiting.popleft()
                running.task, running.work = hand, self._run(running)
                send, throw, inside = running.work.send, running.work.throw, copy_context().run
                try:
                    awaited = inside(send, None)
                    is_free = False
                    self._keep(hand, running)
                    while True:
                        try:
                            answer = yield awaited
                        except BaseException as error:
                            awaited = inside(throw, error)
                        else:
                            awaited = inside(send, answer)
                except StopIteration:
                    pass
                if not is_free or hand.cancelling():  # what was said of this task was meant for that job
                    break
                if self._now() >= until:
                    yield
                    until = self._now() + SLICE
        finally:
            self._free -= is_free
            self._call(1)

    def _keep(self, hand: "asyncio.Task[Any]", running: Running) -> None:
        self._free -= 1
        hand.set_name(f"job {running.claim.job.id}")
        self._call(self._free + CALLS)

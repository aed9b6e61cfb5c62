"""Isolated attempts: a job whose next crash would end it runs in a separate worker.

An innocent job survives there, and a poison job ends there without harm to others.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from holdfast._core.requests import IsolatedJobs
from holdfast._engine.service import Service
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store

SHORTEST_PAUSE = 0.05


class Isolation:
    """The workers of isolated attempts: one for each attempt that is due, at most ``room`` at once.

    ``live``: runs an isolated worker until it exits, and returns whether the worker started an attempt.
    ``serve``: makes the service that repeats ``step()``; setting its ``wake`` runs the next step at once.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        tasks: Callable[[], Sequence[str]],
        queues: Callable[[], tuple[str, ...] | None],
        room: int,
        live: Callable[[], Coroutine[Any, Any, bool]],
        interval: float,
        serve: Callable[[str, Callable[[], Coroutine[Any, Any, float]]], Service],
    ) -> None:
        self._store, self._clock = store, clock
        self._tasks, self._queues = tasks, queues
        self._room, self._live, self._interval = room, live, interval
        self.workers: set[asyncio.Task[None]] = set()
        self.is_closed = False
        self.service = serve("isolation", self.step)

    async def is_needed(self) -> bool:
        """Return whether an isolated attempt runs, is due or will be."""
        return self._room > 0 and (bool(self.workers) or await self._due() is not None)

    async def step(self) -> float:
        """Start one worker if an isolated attempt is due; return the seconds until the next look."""
        if self.is_closed or len(self.workers) >= self._room or not self._tasks():
            return self._interval
        due = await self._due()
        if due is None or due > 0:
            return self._interval if due is None else min(self._interval, max(due, SHORTEST_PAUSE))
        life = asyncio.create_task(self._live_once())
        self.workers.add(life)
        life.add_done_callback(self._ended)
        return SHORTEST_PAUSE

    async def end(self) -> None:
        """Start no more workers, and wait until the present ones have exited."""
        self.is_closed = True
        while self.workers:
            await asyncio.wait(self.workers)

    async def _due(self) -> float | None:
        return await self._store.next_due(tuple(self._tasks()), self._queues(), IsolatedJobs.ONLY)

    async def _live_once(self) -> None:
        # If a worker cannot start, or finds its job taken, the next one starts only after the interval, not in a tight loop.
        if not await self._live() and not self.is_closed:
            await self._clock.sleep(self._interval)

    def _ended(self, life: "asyncio.Task[None]") -> None:
        self.workers.discard(life)
        self.service.wake.set()

"""Concurrent single enqueues share a commit: those that come while a write is on its way leave together with the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast._core.identity import enqueue_call_id
from holdfast._engine.client.announcement import announce

if TYPE_CHECKING:
    from holdfast._core.answers import EnqueueAnswer
    from holdfast._core.job import NewJob
    from holdfast._engine.environment import Environment

SHARED_COMMIT = 1000


class PendingCall(Struct, frozen=True, eq=False):
    """One caller of enqueue, waiting for its jobs to be durable."""

    jobs: Sequence[NewJob]
    done: asyncio.Future[None]

    def succeed(self) -> None:
        """Report to the caller that its jobs are durable."""
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Report to the caller that its jobs may or may not be there."""
        if isinstance(error, asyncio.CancelledError):
            self.done.cancel()
        elif not self.done.done():
            self.done.set_exception(error)


Calls = list[PendingCall]


class GroupCommit:
    """Collects the calls of one event loop and writes their jobs, all of a write or none."""

    def __init__(self, environment: Environment, retry: Callable[..., Awaitable[EnqueueAnswer]]) -> None:
        self._environment, self._retry = environment, retry
        self._waiting: Calls = []
        self._flushing: asyncio.Task[None] | None = None
        self._is_writing = self._is_crowded = False

    async def write(self, jobs: Sequence[NewJob]) -> EnqueueAnswer:
        """Write the jobs and announce them. All copies of this write have one call id, so that they are one to the store."""
        store, call = self._environment.store, enqueue_call_id(jobs[0].id, self._environment.chance.uuid4())
        answer = await self._retry("enqueue", partial(store.enqueue, call, jobs))
        if answer.duplicates:
            jobs = [] if answer.is_refused else [job for job in jobs if job.id not in answer.duplicates]
        await announce(self._environment, jobs)
        return answer

    def add(self, jobs: Sequence[NewJob]) -> Awaitable[None]:
        """Return an awaitable that ends when the jobs are durable; await it at once. A cancelled caller does not affect the others."""
        if not self._is_writing and not self._is_crowded:
            return self._write_directly(jobs)
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(PendingCall(jobs, done))
        if not self._is_writing:
            self._start_flushing()
        return done

    async def _write_directly(self, jobs: Sequence[NewJob]) -> None:
        """Write without a task: no other caller shares the commit, and a turn of the loop costs more than the rest of it."""
        self._is_writing = True
        try:
            await self.write(jobs)
        finally:
            self._is_writing = False
            if self._waiting and any(not call.done.done() for call in self._waiting):
                self._start_flushing()

    def _start_flushing(self) -> None:
        self._is_writing = True
        self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                calls = self._take()
                self._is_crowded = len(calls) > 1
                await self._write_shared(calls)
        finally:
            self._is_writing = False

    async def _write_shared(self, calls: Calls) -> None:
        try:
            if calls:
                await self.write([job for call in calls for job in call.jobs])
        except BaseException as error:
            for call in calls:
                call.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            for call in calls:
                call.succeed()

    def _take(self) -> Calls:
        """Remove the calls that share the next commit, and return those not cancelled. All jobs of a call go into the same commit."""
        size = taken = 0
        for call in self._waiting:
            if taken and size + len(call.jobs) > SHARED_COMMIT:
                break
            size, taken = size + len(call.jobs), taken + 1
        calls, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return [call for call in calls if not call.done.done()]

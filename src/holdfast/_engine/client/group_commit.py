"""Concurrent single enqueues share a commit: those that come while a write is on its way leave together with the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from holdfast._core.job import NewJob

SHARED_COMMIT = 1000


class PendingCall(Struct, frozen=True, eq=False):
    """One caller of enqueue, waiting for its jobs to be durable."""

    jobs: Sequence[NewJob]
    done: asyncio.Future[None]

    def succeed(self) -> None:
        """They are."""
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """They may or may not be."""
        if isinstance(error, asyncio.CancelledError):
            self.done.cancel()
        elif not self.done.done():
            self.done.set_exception(error)


Calls = list[PendingCall]


class GroupCommit:
    """Collects the calls of one event loop; ``write`` makes their jobs durable, all of them or none."""

    def __init__(self, write: Callable[[Sequence[NewJob]], Awaitable[object]]) -> None:
        self._write = write
        self._waiting: Calls = []
        self._flushing: asyncio.Task[None] | None = None
        self._is_writing = self._is_crowded = False

    def add(self, jobs: Sequence[NewJob]) -> Awaitable[None]:
        """To be awaited at once: returns when they are durable. A cancelled caller leaves its neighbours alone."""
        if not self._is_writing and not self._is_crowded:
            return self._write_alone(jobs)
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(PendingCall(jobs, done))
        if not self._is_writing:
            self._start_flushing()
        return done

    async def _write_alone(self, jobs: Sequence[NewJob]) -> None:
        """There is nobody to share with: no task, and no turn of the loop more than the write itself needs."""
        self._is_writing = True
        try:
            await self._write(jobs)
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
                await self._write([job for call in calls for job in call.jobs])
        except BaseException as error:
            for call in calls:
                call.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            for call in calls:
                call.succeed()

    def _take(self) -> Calls:
        """The calls that share the next commit, whole ones only; a caller that has gone takes its jobs with it."""
        size = taken = 0
        for call in self._waiting:
            if taken and size + len(call.jobs) > SHARED_COMMIT:
                break
            size, taken = size + len(call.jobs), taken + 1
        calls, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return [call for call in calls if not call.done.done()]

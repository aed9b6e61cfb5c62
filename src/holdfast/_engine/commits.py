"""Concurrent single enqueues share a commit: those that come while a write is on its way leave together with the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from holdfast._core.job import NewJob

SHARED_COMMIT = 1000


class Call(Struct, frozen=True, eq=False):
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


Calls = list[Call]


class Commits:
    """Collects the calls of one event loop; ``write`` makes their jobs durable, all of them or none."""

    def __init__(self, write: Callable[[Sequence[NewJob]], Awaitable[object]]) -> None:
        self._write = write
        self._waiting: Calls = []
        self._flushing: asyncio.Task[None] | None = None

    async def add(self, jobs: Sequence[NewJob]) -> None:
        """Return once they are durable. A cancelled caller leaves its neighbours alone."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(Call(jobs, done))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
        await done

    async def _flush(self) -> None:
        while self._waiting:
            calls = self._take()
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

"""Jobs that callers of one event loop follow: one read at a time of each job, for all of its followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from holdfast._core.durations import Duration, seconds
from holdfast._core.job import PLACE_OF, Place
from holdfast.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from holdfast._core.view import JobView
    from holdfast._ports.clock import Clock

SHORTEST = 0.1
"""Seconds between two looks at a job, at least."""


def pause_of(every: Duration) -> float:
    """Return the seconds between two looks; ``ConfigurationError`` for less than ``SHORTEST``."""
    if (pause := seconds(every)) < SHORTEST:
        raise ConfigurationError([f"every={every!r}: use at least {SHORTEST:g} s, because each look reads the store"])
    return pause


class Following:
    """The followed jobs of one event loop. A job is read while a caller follows it, and not otherwise."""

    def __init__(self, read: Callable[[UUID], Awaitable[JobView]], clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._followed: dict[UUID, _Followed] = {}

    async def follow(self, job: UUID, every: float) -> AsyncGenerator[JobView, None]:
        """Yield the job as it is now, then after each change, until it has finished. A store that is away is waited for.

        The shortest ``every`` of a job's followers counts for all. Raises ``JobNotFound``, also when the job is deleted later.
        """
        followed = self._followed.get(job)
        if followed is None or followed.reading is None or followed.reading.done():
            followed = self._followed[job] = _Followed(every)
            followed.reading = asyncio.get_running_loop().create_task(self._read_while_followed(job, followed))
        followed.followers += 1
        followed.every = min(followed.every, every)
        try:
            shown: JobView | None = None
            while shown is None or PLACE_OF[shown.state] is not Place.FINISHED:
                async with followed.changed:
                    await followed.changed.wait_for(partial(followed.has_news, shown))
                if followed.error is not None:
                    raise followed.error
                shown = followed.view
                assert shown is not None
                yield shown
        finally:
            followed.followers -= 1
            if not followed.followers:
                self._forget(job, followed)

    async def _read_while_followed(self, job: UUID, followed: _Followed) -> None:
        while True:
            view, error = followed.view, None  # type: JobView | None, Exception | None
            try:
                view = await self._read(job)
            except StoreUnavailable:
                pass  # it is asked again
            except Exception as raised:  # also of a row that cannot be read: followers would wait for it without end
                error = raised
            if view != followed.view or error is not None:
                async with followed.changed:
                    followed.view, followed.error = view, error
                    followed.changed.notify_all()
            if error is not None or (view is not None and PLACE_OF[view.state] is Place.FINISHED):
                self._forget(job, followed)  # a later follower reads it again: it may be retried
                return
            await self._clock.sleep(followed.every)

    def _forget(self, job: UUID, followed: _Followed) -> None:
        if self._followed.get(job) is followed:
            del self._followed[job]
        if followed.reading is not None and not followed.followers:
            followed.reading.cancel()


class _Followed:
    """One job, and how many follow it."""

    def __init__(self, every: float) -> None:
        self.every, self.followers = every, 0
        self.view: JobView | None = None
        self.error: Exception | None = None
        self.changed = asyncio.Condition()
        self.reading: asyncio.Task[None] | None = None

    def has_news(self, shown: JobView | None) -> bool:
        """Return whether there is something that this follower has not been shown."""
        return self.error is not None or (self.view is not None and self.view is not shown)

"""Connections that a task of each event loop keeps up in the background: for messages that may be lost and are never waited for."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from holdfast._core.text import printable
from holdfast._ports.clock import Clock, Randomness

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
CLOSING = 2.0

Session = TypeVar("Session")
Kept = TypeVar("Kept")

logger = logging.getLogger("holdfast")


class Upkeep(Generic[Session]):
    """One connection, opened again whenever it is lost, after pauses that grow and differ from one process to the next.

    ``serve`` opens it, passes on the session, and returns or raises when it is lost, having closed it. ``name``: for logs.
    """

    def __init__(
        self, name: str, serve: Callable[[Callable[[Session], None]], Awaitable[None]], *, clock: Clock, chance: Randomness
    ) -> None:
        self._name, self._serve = name, serve
        self._clock, self._chance = clock, chance
        self._session: Session | None = None
        self._up, self._has_tried = asyncio.Event(), asyncio.Event()
        self._is_closed, self._is_patient = False, True
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"hints by {name}")

    @property
    def has_tried(self) -> bool:
        """Whether the first attempt is over, so that no caller waits for it any more."""
        return self._has_tried.is_set()

    async def session(self, timeout: float) -> Session | None:
        """Return the open session; ``None`` while the connection is down. Only callers during the very first attempt wait, up to
        ``timeout`` seconds."""
        if self._session is None and not self._has_tried.is_set() and self._is_patient:
            await _wait(self._has_tried, timeout)
            self._is_patient = False
        return self._session

    async def until_up(self, timeout: float) -> Session | None:
        """Wait for an open session, up to ``timeout`` seconds."""
        await _wait(self._up, timeout)
        return self._session

    def stop(self) -> None:
        """Close it soon, without waiting."""
        self._is_closed = True
        self._task.cancel()

    async def close(self, within: float = CLOSING) -> None:
        """Close it, and return when it is closed, or after ``within``, in seconds."""
        self.stop()
        await asyncio.wait({self._task}, timeout=within)

    async def _keep(self) -> None:
        failures = 0
        while not self._is_closed:
            error: BaseException | None = None
            try:
                await self._serve(self._opened)
            except (Exception, asyncio.CancelledError) as raised:
                if self._task.cancelling():
                    raise
                error = raised  # also a cancellation that escaped from a driver
            was_up, self._session = self._session is not None, None
            self._up.clear()
            self._has_tried.set()
            failures = 1 if was_up else failures + 1
            if failures == 1:
                reason = "the connection was closed" if error is None else printable(f"{type(error).__name__}: {error}")
                logger.warning("no hints by %s for now; workers poll instead: %s", self._name, reason)
            longest = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2.0 ** min(failures - 1, 16))
            await self._clock.sleep(longest * (0.75 + 0.25 * self._chance.jitter()))

    def _opened(self, session: Session) -> None:
        if self._task.cancelling():  # and a driver that was connecting took no notice
            raise asyncio.CancelledError
        if self._has_tried.is_set():
            logger.info("hints by %s again", self._name)
        self._session = session
        self._up.set()
        self._has_tried.set()


class Stoppable(Protocol):
    """What belongs to one event loop: it is stopped soon, or closed before the call returns."""

    def stop(self) -> None: ...

    async def close(self) -> None: ...


class PerLoop(Generic[Kept]):
    """One object for each event loop that uses it; the objects of closed loops are dropped."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._all: dict[asyncio.AbstractEventLoop, Kept] = {}

    def here(self) -> Kept:
        """Return the object of the running event loop."""
        loop = asyncio.get_running_loop()
        kept = self._all.get(loop)
        if kept is None:
            with self._lock:
                for closed in [each for each in self._all if each.is_closed()]:
                    del self._all[closed]
                kept = self._all[loop] = self._make()
        return kept

    async def close(self, of: Callable[[Kept], Stoppable]) -> None:
        """Remove all: close what belongs to the running loop, and stop soon what belongs to others. ``of``: what to close of an object."""
        with self._lock:
            everything, self._all = self._all, {}
        ours = everything.pop(asyncio.get_running_loop(), None)
        for loop, kept in everything.items():
            with suppress(RuntimeError):  # the loop is closed, with all its tasks and connections
                loop.call_soon_threadsafe(of(kept).stop)
        if ours is not None:
            await of(ours).close()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass

"""The only loop: wait, step, back off. Every service of the engine is a ``step()`` that tests can call."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from holdfast._engine.error_text import described
from holdfast._engine.events import EventName, Events, failure_of_store
from holdfast._ports.clock import Randomness
from holdfast.errors import HoldfastError, StoreBusy, StoreDamaged, StoreUnavailable

SHORTEST_PAUSE = 0.05
ERRORS = (Exception, asyncio.CancelledError)
"""What a call of a store may raise, among it a cancellation that was not aimed at this task."""


def is_answer(error: BaseException) -> bool:
    """Return whether the error is an answer of the store, so that the contact with it has lasted."""
    return isinstance(error, HoldfastError) and (not isinstance(error, StoreUnavailable) or isinstance(error, StoreBusy))


def is_refusal(error: BaseException) -> bool:
    """Return whether the error is about the write itself: an outage, a locked row or a network that fails is not."""
    return isinstance(error, Exception) and not isinstance(error, (StoreUnavailable, OSError))


def is_final(error: BaseException) -> bool:
    """Return whether a start that failed so fails again: the store has refused it, or is damaged."""
    return isinstance(error, StoreDamaged) or (isinstance(error, HoldfastError) and not isinstance(error, StoreUnavailable))


class Signal:
    """A signal that is remembered until a task waits for it; one task waits at a time."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the task that waits, or that waits next."""
        self._is_set = True
        if self._waiter is not None:
            _release(self._waiter)

    def forget(self) -> None:
        """Drop the signal, so that it does not wake the task that waits next."""
        self._is_set = False

    async def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether the signal was set."""
        if not self._is_set and seconds > 0:
            # A future and a timer: every idle service waits here, and asyncio.timeout() costs twice as much.
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(seconds, _release, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        woken = self._is_set
        self.forget()
        return woken


def _release(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class Service:
    """Repeats a step until cancelled; reports errors and backs off. ``on_damage``: called with why the store cannot answer any more."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[float]],
        *,
        events: Events,
        chance: Randomness,
        longest_pause: float,
        wake: Signal | None = None,
        on_damage: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self.name, self._on_damage = name, on_damage
        self.wake = wake or Signal()
        self._step = step
        self._events = events
        self._chance = chance
        self._longest_pause = longest_pause

    async def run(self) -> None:
        """Step, wait for the seconds that the step returned or until woken, and repeat. After a failure nothing shortens the pause."""
        failures = 0
        while True:
            self.wake.forget()  # a step sees what was there before it
            try:
                wait = await self._step()
            except ERRORS as error:
                require_not_cancelled()
                failures += 1
                wait = self._pause(failures)
                operation, text = self.name, described(error)
                self._events.emit(failure_of_store(error), operation=operation, error=text, failures=failures)
                if self._on_damage is not None and isinstance(error, StoreDamaged):
                    self._on_damage([str(error)])
            else:
                if failures:
                    self._events.emit(EventName.STORE_RECOVERED, operation=self.name, failures=failures)
                failures = 0
            wake = Signal() if failures else self.wake
            # A step that always answers 0 would never let anything else run.
            await (wake.wait(wait) if wait > 0 else yield_to_loop())

    def _pause(self, failures: int) -> float:
        """Return an exponential pause with jitter, so that not all callers ask at once when a store comes back."""
        longest = min(self._longest_pause, SHORTEST_PAUSE * 2.0 ** min(failures - 1, 16))
        return longest * (0.75 + 0.25 * self._chance.jitter())


def run_until_done(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` to its end; a SystemExit or KeyboardInterrupt from a handler's child task does not end the loop."""
    task = loop.create_task(main)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt):
            if task.done():
                raise


def require_not_cancelled() -> None:
    """Raise ``CancelledError`` if this task was cancelled; call it before going on after ``ERRORS``."""
    if is_cancelled():
        raise asyncio.CancelledError


def is_cancelled() -> bool:
    """Return whether the running asyncio task was cancelled. If not, a caught ``CancelledError`` escaped from inside a store's driver."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def yield_to_loop() -> None:
    """Let everything else that is ready run once."""
    taken = asyncio.Event()
    asyncio.get_running_loop().call_soon(taken.set)
    await taken.wait()

"""One thread with an event loop for connections that several event loops use: an App's own loop, and that of its blocking methods."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast._forks import Forked, Lock, register
from holdfast.errors import StoreUnavailable

CLOSING = 5.0

Result = TypeVar("Result")


class LoopThread(Forked):
    """A thread that starts with the first call, and again after ``close`` and in a forked child."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inherited: list[object] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        register(self)

    async def run(self, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a call in the thread; a caller that is cancelled cancels it. ``StoreUnavailable`` if the thread ends before the call."""
        with self._lock:  # a loop that another thread closes now would never run the call
            future = asyncio.run_coroutine_threadsafe(call(), self._ready())
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise StoreUnavailable("the connection was closed during the call") from None

    async def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last call, then cancel all others and end the thread; do nothing if it does not run."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(last(), loop)), CLOSING)
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join, CLOSING)

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Keep the parent's loop unused: closing it would touch the parent's connections."""
        self._inherited += [self._loop, self._thread]
        self._lock, self._loop, self._thread = threading.Lock(), None, None

    def _ready(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:  # at its end it cancels what is left, and closes the loop
        runner.get_loop().run_forever()

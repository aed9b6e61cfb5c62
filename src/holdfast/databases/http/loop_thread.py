"""One thread with an event loop for connections that several event loops use: an App's own loop, and that of its blocking methods."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import finalize

from holdfast._forks import Forked, Lock, register
from holdfast.errors import StoreUnavailable

CLOSING = 5.0

Result = TypeVar("Result")


class LoopThread(Forked):
    """A thread that starts with the first call, and again after ``close`` and in a forked child.

    It also ends with this object and with the program, whose author may not close what a library opened.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._inherited: list[object] = []
        self._lock = threading.Lock()
        self._begin()
        register(self)

    def start(self, call: Callable[[], Coroutine[Any, Any, Result]]) -> "Future[Result]":
        """Run a call in the thread, also if the caller's own loop ends."""
        with self._lock:  # a loop that another thread closes now would never run the call
            return asyncio.run_coroutine_threadsafe(call(), self._running.loop())

    async def run(self, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a call in the thread; a caller that is cancelled cancels it. ``StoreUnavailable`` if the thread ends before the call."""
        try:
            return await asyncio.wrap_future(self.start(call))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise StoreUnavailable("the connection was closed during the call") from None

    def at_end(self, close: Callable[[], Awaitable[object]]) -> None:
        """Call this in the thread before it ends. It must not refer to this object, which would never be deleted then."""
        self._running.closing.append(close)

    async def close(self) -> None:
        """Close what the thread has open, cancel all calls and end it; do nothing if it does not run."""
        with self._lock:
            running = self._running
            self._finalizer.detach()
            self._begin()
        await asyncio.to_thread(running.end)

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Keep the parent's loop unused: closing it would touch the parent's connections."""
        self._finalizer.detach()
        self._inherited.append(self._running)
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._running = _Running(self._name)
        self._finalizer = finalize(self, self._running.end)


class _Running:
    """A thread and its loop, once they are needed. ``closing``: what to call before their end."""

    def __init__(self, name: str) -> None:
        self.closing: list[Callable[[], Awaitable[object]]] = []
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs from now on."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()
        return self._loop

    def end(self) -> None:
        """Close what is open, and end the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with suppress(Exception):  # it has ended already, or takes too long
            closing = asyncio.run_coroutine_threadsafe(self._close(), loop)
            if thread is threading.current_thread():  # the garbage collector may run here: the thread cannot wait for itself
                return
            closing.result(CLOSING)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING)

    async def _close(self) -> None:
        try:
            for close in self.closing:
                await close()
        finally:
            asyncio.get_running_loop().stop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:  # at its end it cancels what is left, and closes the loop
        runner.get_loop().run_forever()

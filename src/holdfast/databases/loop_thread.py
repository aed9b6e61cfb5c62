"""An event loop in a separate thread, for what threads and loops of a process share."""

import asyncio
from collections.abc import Callable, Coroutine
from threading import Lock, Thread
from typing import Any, TypeVar

from holdfast._forks import Forked, register

Result = TypeVar("Result")


class LoopThread(Forked):
    """A thread that starts with the first call and does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        register(self)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop, later, without waiting for it."""
        self._running().call_soon_threadsafe(function, *arguments)

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop, and return its result to another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    def close(self) -> None:
        """End the loop. A call after that starts another one."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def after_fork_in_child(self) -> None:
        """Forget the loop of the parent; the child starts one when it needs it."""
        self._lock, self._loop, self._thread = Lock(), None, None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()

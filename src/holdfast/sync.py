"""``get = blocking(aget)``: the blocking twin of an async method, through one portal thread; never a hand-mirrored copy."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from holdfast.errors import InsideEventLoop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Portal:
    """A thread with an event loop, started when first needed.

    One is enough for a process, however many Apps it has: everything that belongs to an App is kept by the App.
    A forked child has no such thread, so it forgets its parent's and starts its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._of_parent: asyncio.AbstractEventLoop | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Its result, waited for in this thread; Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._open())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread; the next call starts another."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _open(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            loop = self._loop
            if loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=loop.run_forever, name="holdfast-portal", daemon=True)
                self._thread.start()
            return loop

    def _forget(self) -> None:
        # The parent's loop is kept, unused: closing it would touch what the parent still waits on.
        self._lock, self._of_parent = threading.Lock(), self._loop
        self._loop = self._thread = None


PORTAL = Portal()


def blocking(afunction: Callable[Parameters, Coroutine[Any, Any, Result]]) -> Callable[Parameters, Result]:
    """The same call for code without an event loop; inside a running loop it raises ``InsideEventLoop``, which it would block.

    >>> class Clerk:
    ...     async def aask(self) -> int:
    ...         return 42
    ...
    ...     ask = blocking(aask)
    >>> Clerk().ask()
    42
    """

    @wraps(afunction)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if asyncio._get_running_loop() is not None:
            raise InsideEventLoop(afunction.__name__)
        return PORTAL.run(afunction(*args, **kwargs))

    call.__name__ = afunction.__name__.removeprefix("a")
    return call

"""``get = blocking(aget)``: the blocking twin of an async method, through one portal thread; never a hand-mirrored copy."""

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from holdfast._forks import Forked, Lock, register
from holdfast.errors import InsideEventLoop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

CLOSING = 5.0
"""Seconds for calls in flight to be cancelled when the program ends; one that blocks must not keep it."""


class Portal(Forked):
    """A thread with an event loop, started when first needed.

    One is enough for a process with any number of Apps: everything that belongs to an App is kept by the App.
    A forked child has no such thread, so it forgets its parent's and starts its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._of_parent: list[object] = []
        register(self)
        atexit.register(self.close)

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Start it, and return its result to come."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._open())
        except BaseException:
            coroutine.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Wait in this thread for its result; Ctrl-C cancels it."""
        future = self.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread, with all that still runs in it; the next call starts another."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSING)

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Forget the thread in the child. The parent's loop is kept, unused: closing it would touch what the parent still waits on."""
        self._of_parent += [self._loop, self._thread]
        self._lock, self._loop, self._thread = threading.Lock(), None, None

    def _open(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            loop = self._loop
            if loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="holdfast-portal", daemon=True)
                self._thread.start()
                self._loop = loop
            return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:  # at its end it cancels what is left, and closes the loop
        runner.get_loop().run_forever()


PORTAL = Portal()
_TASKS: "set[asyncio.Task[None]]" = set()  # a loop keeps only weak references to its tasks


def refuse_inside_loop(twin: str) -> None:
    """Raise ``InsideEventLoop``, naming the async twin, when this thread runs an event loop."""
    if asyncio._get_running_loop() is not None:
        raise InsideEventLoop(twin)


def soon(action: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have it done: before this returns or, where an event loop runs, which must not be blocked, by that loop later."""
    loop = asyncio._get_running_loop()
    if loop is None:
        PORTAL.run(action())
        return
    task = loop.create_task(action())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


def iterated(values: AsyncGenerator[Result, None]) -> Iterator[Result]:
    """Yield what an async generator yields, for code without an event loop; it is closed when the caller stops."""
    try:
        while True:
            try:
                yield PORTAL.run(_next(values))
            except StopAsyncIteration:
                return
    finally:
        PORTAL.run(values.aclose())


async def _next(values: AsyncGenerator[Result, None]) -> Result:
    return await anext(values)


def blocking(afunction: Callable[Parameters, Coroutine[Any, Any, Result]]) -> Callable[Parameters, Result]:
    """Make the same call for code without an event loop; inside a running loop it raises ``InsideEventLoop``.

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
        refuse_inside_loop(afunction.__name__)
        return PORTAL.run(afunction(*args, **kwargs))

    call.__name__ = afunction.__name__.removeprefix("a")
    return call

"""One thread that runs calls in the order in which they came.

``ThreadPoolExecutor`` does the same, but wraps each call in a second future with a separate lock, and wakes the event loop
once more for it. For a single enqueue that cost as much as the SQL.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from holdfast._forks import Forked, register

SPARE = 8

Result = TypeVar("Result")

Call = tuple[Callable[[], Any], asyncio.Future[Any]]


class Closed(Exception):
    """The thread takes no more calls."""


class CallThread:
    """A thread that runs calls in order, from its creation on. It does not keep the process alive: a caller must wait for its answer."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._is_closed = False
        self._adding = Lock()  # a call added by one thread while another one closes must not be queued behind the end
        self._thread = Thread(target=_run, args=(self._calls,), name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], Result], *, is_last: bool = False) -> Result:
        """Run a call in the thread and return or raise what it does; ``Closed`` after the last one. A caller that is cancelled
        before its turn cancels the call."""
        return await self.ask(call, is_last=is_last)

    def ask(self, call: Callable[[], Result], *, is_last: bool = False) -> asyncio.Future[Result]:
        """Queue a call and return a future of its result; ``Closed`` after the last one."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        with self._adding:
            if self._is_closed:
                raise Closed
            self._calls.put((call, answer))
            if is_last:
                self._end()
        return answer

    def end(self) -> None:
        """End the thread after the calls that are queued already, without waiting for that."""
        with self._adding:
            if not self._is_closed:
                self._end()

    def close(self) -> None:
        """End the thread after the calls that are queued already, and wait for that."""
        self.end()
        self._thread.join()

    def _end(self) -> None:
        self._is_closed = True
        self._calls.put(None)


class CallThreadPool(Forked):
    """Idle call threads of a process, to be borrowed: starting a thread takes longer than many a call."""

    def __init__(self) -> None:
        self._idle: list[CallThread] = []
        register(self)

    @contextmanager
    def borrow(self) -> Iterator[CallThread]:
        """Lend a thread to one caller, and keep it for the next one."""
        idle = self._idle  # the list of this process: a thread borrowed across a fork does not return to the child
        try:
            lane = idle.pop()
        except IndexError:
            lane = CallThread("holdfast-transaction")
        try:
            yield lane
        finally:
            if len(idle) < SPARE:
                idle.append(lane)
            else:
                lane.close()

    def use_idle(self, call: Callable[[], object]) -> None:
        """Run a call whose result no caller needs in an idle thread; do nothing if no thread is idle."""
        idle = self._idle
        try:
            lane = idle.pop()
        except IndexError:
            return

        def run() -> None:
            try:
                call()
            finally:
                if len(idle) < SPARE:
                    idle.append(lane)
                else:
                    lane.end()

        lane.ask(run)

    def after_fork_in_child(self) -> None:
        """Start with no threads in the child, which inherits none."""
        self._idle = []


def _run(calls: SimpleQueue[Call | None]) -> None:
    while (turn := calls.get()) is not None:
        call, answer = turn
        if not answer.cancelled():
            _answer(call, answer)
        del turn, call, answer  # keep no object alive while the thread waits


def _answer(call: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
    value, error = None, None
    try:
        value = call()
    except BaseException as raised:
        error = raised
    try:
        answer.get_loop().call_soon_threadsafe(_tell, answer, value, error)
    except RuntimeError:
        pass  # the loop has closed: no caller waits any more
    finally:
        del error  # its traceback holds this frame


def _tell(answer: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)

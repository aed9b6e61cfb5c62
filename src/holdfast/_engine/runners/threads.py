"""``def`` handlers, in a few threads of the worker that take one call after the other from a queue.

To hand each call to a thread, and its result back to the event loop, costs a short call more than all the rest of it. So a thread takes
the next call by itself, and while calls are short the loop fetches their results at intervals. A call that has not begun waits behind no
slow one: the loop adds threads as long as nothing was taken since its last look.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any, Protocol

from holdfast._core.job import Claim, Json
from holdfast._engine.runners.forked import exits_in_forked_child
from holdfast._engine.runners.outcomes import captured
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.tasks.job_context import JobContext, ProgressSink

LOOK = 0.001
"""Seconds between two looks of the event loop at its threads, while calls wait for one or short calls end all the time."""
LONGEST_LOOK = 0.016
"""Seconds between two looks while all threads are busy with long calls."""

Ended = tuple[Any, BaseException | None]


class Work(Protocol):
    """One call for a thread."""

    has_begun: bool

    def begins(self) -> bool:
        """Return whether to make the call at all; in the thread, as ``call`` and ``answer``."""
        ...

    def call(self) -> Any:
        """Run the user's code."""
        ...

    def answer(self, value: Any, error: BaseException | None) -> Any:
        """Return what ``ended`` receives for what the call returned or raised. Raises nothing."""
        ...

    def begun(self) -> None:
        """Note that the call has begun; in the event loop, as ``ended``, and before it."""
        ...

    def ended(self, result: Any) -> None:
        """Take the answer; ``None`` if the call was not made."""
        ...


class _Call:
    """The work of a caller that waits for it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.has_begun = call, False
        self.done: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    def begins(self) -> bool:
        return True

    def answer(self, value: Any, error: BaseException | None) -> Ended:
        return value, error

    def begun(self) -> None:
        pass

    def ended(self, result: Ended | None) -> None:
        if result is None:
            self.done.cancel()
        else:
            self.done.set_result(result)


class ThreadRunner:
    """The threads of one worker; a thread cannot be cancelled, only asked to end. All methods are for the event loop."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="holdfast-handler")
        self._most = threads
        self._lock = threading.Lock()
        self._waiting: deque[Work] = deque()
        self._at_work = self._taken = self._taken_before = 0
        self._begun: deque[Work] = deque()
        self._ended: deque[tuple[Work, Any]] = deque()
        self._home: tuple[asyncio.AbstractEventLoop, Context] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._pause = LOOK
        self._is_watched = self._is_notified = self._is_closed = False
        self.unbegun = 0
        """Number of calls of which the event loop does not know yet that they have begun."""

    def context(self, claim: Claim, reporter: ProgressSink) -> JobContext:
        """Return the job object of a handler in a thread."""
        return SyncJob(claim, reporter, asyncio.get_running_loop())

    async def run_call(self, context: JobContext, call: Callable[[], Any]) -> Json:
        """Wait for the thread. When cancelled, ask the handler to end and go on waiting: its code has not stopped."""
        self.add(work := _Call(call))
        ended = work.done
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                context.mark_cancelled()
        value, error = ended.result()
        if error is not None:
            raise error
        if context.saw_cancellation and value is None:
            raise asyncio.CancelledError
        return value

    def add(self, work: Work) -> None:
        """Make the call in a thread, behind those that wait for one. Once the threads are closed it is not made."""
        if self._is_closed:
            asyncio.get_running_loop().call_soon(work.ended, None)
            return
        if self._home is None:
            self._home = asyncio.get_running_loop(), copy_context()
        self.unbegun += 1
        with self._lock:
            self._waiting.append(work)
            is_first = self._at_work == 0
            self._at_work += is_first
        if is_first:
            self._start_thread()
        self._look_in(LOOK)

    def withdraw(self, work: Work) -> bool:
        """Return whether the call had not begun; then it is never made, and ``ended`` is not called."""
        with self._lock:
            try:
                self._waiting.remove(work)
            except ValueError:
                return False
        self.unbegun -= 1
        return True

    def close(self) -> None:
        """Make no more calls; do not wait for those that run."""
        self._is_closed = True
        with self._lock:
            left = [*self._waiting]
            self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.unbegun -= len(left)
        for work in left:
            work.ended(None)

    def _start_thread(self) -> None:
        self._pool.submit(self._take_all)

    def _take_all(self) -> None:
        while (work := self._next()) is not None:
            with exits_in_forked_child():
                result = work.answer(*captured(work.call)) if self._begins(work) else None
            self._end(work, result)

    def _next(self) -> Work | None:
        with self._lock:
            if self._waiting:
                self._taken += 1
                return self._waiting.popleft()
            self._at_work -= 1
            return None

    def _begins(self, work: Work) -> bool:
        work.has_begun = work.begins()
        self._begun.append(work)
        return work.has_begun

    def _end(self, work: Work, result: Any) -> None:
        self._ended.append((work, result))
        # A notice for each of many short calls would make thread and loop wait for each other all the time.
        if not (self._is_watched or self._is_notified) and self._home is not None:
            self._is_notified = True
            self._notify(*self._home)

    def _notify(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        try:
            loop.call_soon_threadsafe(self._notified, context=context)
        except RuntimeError:
            pass  # the loop is closed: its worker has ended, and this code has outlasted it

    def _notified(self) -> None:
        self._is_notified = False
        self._fetch()

    def _look_in(self, pause: float) -> None:
        if self._look is not None:
            if pause >= self._pause:
                return
            self._look.cancel()
        self._pause = pause
        self._look = asyncio.get_running_loop().call_later(pause, self._looked)

    def _looked(self) -> None:
        self._look = None
        self._fetch()

    def _fetch(self) -> None:
        """Pass on what has begun and ended, add threads, and decide when to look again."""
        has_moved = bool(self._begun or self._ended)
        ended = [self._ended.popleft() for _ in range(len(self._ended))]  # what ended has begun before, so this comes first
        while self._begun:
            self.unbegun -= 1
            if (work := self._begun.popleft()).has_begun:
                work.begun()
        for work, result in ended:
            work.ended(result)
        self._add_threads()
        self._is_watched = has_moved and bool(self._waiting)
        if self._is_watched or self.unbegun:
            self._look_in(LOOK if has_moved or self._at_work < self._most else min(2 * self._pause, LONGEST_LOOK))
        if not self._is_watched and self._ended:  # it ended before its thread could see that the loop waits for a notice
            asyncio.get_running_loop().call_soon(self._fetch)

    def _add_threads(self) -> None:
        with self._lock:
            is_stuck, self._taken_before = bool(self._waiting) and self._taken == self._taken_before, self._taken
            more = min(len(self._waiting), self._at_work, self._most - self._at_work) if is_stuck else 0
            self._at_work += more
        for _ in range(more):
            self._start_thread()

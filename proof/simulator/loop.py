"""An event loop whose time passes only when nothing else can happen, and processes that die and freeze on it.

Everything that runs belongs to the ``Process`` in its context. A dead process never runs another line, not even
a ``finally``. The callbacks of a frozen one wait until it is thawed. The same seed gives the same run.
"""

import asyncio
import contextvars
import random
import warnings
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, TypeVar
from zlib import crc32

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.host import Exit

T = TypeVar("T")
LONGEST_INSTANT = 100_000  # callbacks at one and the same time: more is a loop that never waits


class Stuck(AssertionError):
    """The world is stuck: nothing can happen any more, or time cannot pass."""


class Process:
    """One simulated operating-system process. ``title``: its role and number, which are the same in every run of a seed."""

    def __init__(self, loop: "VirtualLoop", name: str, identity: ProcessIdentity, title: str) -> None:
        self.name = name
        self.title = title
        self.number = crc32(title.encode())
        self.identity = identity
        self.exit: Exit | None = None
        self.thawed_at = -1e9
        self.on_exit: list[Callable[[Exit], None]] = []
        self._loop = loop
        self._stops: set[str] = set()
        self._parked: list[Handle] = []
        self._beside: list[Process] = []
        self.is_beside = False
        self.tasks: list[asyncio.Task[Any]] = []

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @cached_property
    def numbers(self) -> random.Random:
        """The random numbers for decisions of this process."""
        return self._loop.stream(self.title)

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended, for any reason."""
        return self.exit is not None

    @property
    def is_frozen(self) -> bool:
        """Whether it runs nothing for now."""
        return bool(self._stops)

    def is_frozen_by(self, why: str) -> bool:
        """Return whether it is frozen for this reason."""
        return why in self._stops

    @cached_property
    def thread(self) -> "Process":
        """Its part that runs beside its event loop."""
        return self.beside(f"a thread of {self.title}")

    def beside(self, title: str) -> "Process":
        """Create a process that runs while the event loop is busy; it is stopped and dies with this one."""
        beside = Process(self._loop, self.name, self.identity, title)
        beside._stops, beside.exit, beside.is_beside = self._stops - {"busy"}, self.exit, True
        self._beside.append(beside)
        return beside

    @property
    def all_tasks(self) -> "list[asyncio.Task[Any]]":
        """Return its tasks and those of its threads."""
        return [task for each in (self, *self._beside) for task in each.tasks]

    def freeze(self, why: str = "stopped") -> None:
        """Run nothing of it until it is thawed for the same reason. The threads of a busy process still run."""
        self._stops.add(why)
        for each in self._beside if why != "busy" else ():
            each.freeze(why)

    def thaw(self, why: str = "stopped") -> None:
        """Run the waiting callbacks, unless it is frozen for another reason too."""
        if why not in self._stops:
            return
        self._stops.remove(why)
        for each in self._beside:
            each.thaw(why)
        if not self._stops and not self.is_dead:
            self.thawed_at = self._loop.time()
            parked, self._parked = self._parked, []
            self._loop.resume(parked)

    def end(self, how: Exit) -> None:
        """End the process: no further line of it runs. Repeated calls have no effect."""
        if self.exit is None:
            self.exit = how
            self._parked.clear()
            for each in self._beside:
                each.end(how)
            watchers, self.on_exit = self.on_exit, []
            for tell in watchers:
                tell(how)

    def park(self, handle: "Handle") -> None:
        """Keep a callback of a frozen process until it is thawed."""
        self._parked.append(handle)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Keep the task alive as long as the loop, so that no collector closes it half-way through."""
        self.tasks.append(task)
        if len(self.tasks) > 64 and not self.is_dead:
            self.tasks = [each for each in self.tasks if not each.done()]


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class _Task(asyncio.Task[T]):
    """A task whose hash is a number, not an address, so that sets have a stable order."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, T], **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """The same for a future. Its loop sets the number: a method for that would cost as much as the rest of a future."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class Handle(Struct, eq=False):
    """A handle of asyncio, as far as anything uses it: a world makes thousands of handles."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class VirtualLoop(asyncio.BaseEventLoop):
    """The world's loop. The seed decides everything that it does. ``now``: its time, for readers that ask often."""

    _stopping: bool  # asyncio's own; its stubs do not show it

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.get_debug = bool  # type: ignore[method-assign]  # each future asks; no call of Python code
        self.seed = seed
        self.outside = contextvars.Context()  # the world itself: never dead, never frozen
        self.complaints: list[str] = []
        self.now = 1000.0
        self._steps = 0
        self._number = 0
        self._queue: list[Handle] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        """Return the virtual seconds; every process reads them through the clock of its machine."""
        return self.now

    def stream(self, purpose: str) -> random.Random:
        """Return numbers for one purpose: they stay the same when other purposes draw more or fewer."""
        return random.Random(f"{self.seed}/{purpose}")

    def start(self, process: Process, main: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run ``main`` as the process; the process ends with it: exit code 0, or 1 when it raised."""
        task = self.create_task(main, context=self.context_of(process))

        def finish(done: asyncio.Task[Any]) -> None:
            is_well = done.cancelled() or done.exception() is None
            if not is_well and not process.is_dead:
                self.complaints.append(f"{process.name} ended with {done.exception()!r}")
            process.end(Exit(code=0 if is_well else 1))

        task.add_done_callback(finish, context=self.outside)
        return task

    @staticmethod
    def context_of(process: Process) -> contextvars.Context:
        """Return a context in which all callbacks belong to the process."""
        context = contextvars.Context()
        context.run(PROCESS.set, process)
        return context

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Create a task with a stable order in sets, which belongs to the process that creates it."""
        self._number += 1
        task: asyncio.Task[Any] = _Task(self._number, coro, loop=self, **options)
        context: contextvars.Context | None = options.get("context")
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            self._tasks.append(task)
        else:
            process.adopt(task)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """Create a future with a stable order in sets."""
        self._number += 1
        future = _Future(loop=self)
        future.number = self._number
        return future

    def resume(self, handles: list[Handle]) -> None:
        """Run parked callbacks before all later ones."""
        self._queue[:0] = handles

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = Handle(callback, args, copy_context() if context is None else context)
        self._queue.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Schedule a callback of a thread, which is a process here: it runs even if that process has ended."""
        return self.call_soon(callback, *args, context=self.outside if context is None else context)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        """Schedule a timer as asyncio does; timers of one moment keep their order."""
        timer = Handle(callback, args, copy_context() if context is None else context)
        self._number += 1
        heappush(self._timers, (when, self._number, timer))
        return timer

    def _run_once(self) -> None:
        """Run all callbacks until the loop is stopped: asyncio calls this repeatedly."""
        while not self._stopping:
            if not self._queue:
                self._pass_time()
            batch, self._queue = self._queue, []
            self._steps += len(batch)
            if self._steps > LONGEST_INSTANT:
                raise Stuck(f"time stands still at {self.now:.3f}")
            if len(batch) > 1:
                batch = self._interleaved(batch)
            for handle in batch:
                if handle.is_cancelled:
                    continue
                process = handle.context.get(PROCESS)
                if process is not None:
                    if process.exit is not None:
                        continue
                    if process._stops:
                        process.park(handle)
                        continue
                try:
                    handle.context.run(handle.callback, *handle.args)
                except Exception as error:
                    self.call_exception_handler({"message": f"callback {handle.callback!r}", "exception": error})

    def _pass_time(self) -> None:
        """Move the time on to the next timer."""
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        if not timers:
            raise Stuck("nothing can ever happen again")
        if timers[0][0] > self.now:
            self.now, self._steps = timers[0][0], 0
        while timers and timers[0][0] <= self.now:
            self._queue.append(heappop(timers)[2])

    def _interleaved(self, batch: list[Handle]) -> list[Handle]:
        """Return the callbacks with the processes in a drawn order; each process keeps the order of its callbacks."""
        owners = [handle.context.get(PROCESS) for handle in batch]
        if owners.count(owners[0]) == len(owners):
            return batch
        now, steps, seed = self.now, self._steps, self.seed
        # From numbers only: the hash of a string differs between interpreters.
        ranks = {owner: hash((0 if owner is None else owner.number, now, steps, seed)) for owner in dict.fromkeys(owners)}
        order = sorted(range(len(batch)), key=lambda place: ranks[owners[place]])
        return [batch[place] for place in order]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an exception that no code caught, unless its process has ended."""
        process = PROCESS.get()
        if process is None or not process.is_dead:
            who = process.name if process else "the world"
            self.complaints.append(f"{who}: {context.get('message')}: {context.get('exception')!r}")

    def dispose(self, processes: list[Process]) -> None:
        """Close all that was still running, without recording it, and then the loop."""
        tasks = [*self._tasks, *(task for process in processes for task in process.all_tasks)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in tasks:
                if task.done():
                    task.cancelled() or task.exception()
                else:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
            self._queue.clear()
            self._timers.clear()
            self.close()

    def _write_to_self(self) -> None:
        """Do nothing: nothing waits in a selector here."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Run pure code of a thread beside an event loop, in no time; refuse other threads: they cannot be simulated."""
        process = PROCESS.get()
        if process is None or not process.is_beside:
            raise RuntimeError(f"no threads in a simulation: {func!r}")
        done = self.create_future()
        done.set_result(func(*args))
        return done


def _close(coroutine: Any) -> None:
    """End a suspended coroutine; one that awaits while it is being closed is closed again."""
    for _ in range(20):
        try:
            coroutine.close()
        except BaseException:  # no process receives errors from its end
            continue
        return

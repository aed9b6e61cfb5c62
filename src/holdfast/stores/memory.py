"""Jobs in this process: a book with a clock and a lock around it.

Every verb runs to its end without yielding, and the lock makes it one step for threads too: an App is used by its user's event
loop and by the thread of its blocking methods at once.
"""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast._core.answers import Capabilities, Check
from holdfast._core.book.book import Book
from holdfast._core.book.content import Snapshot
from holdfast._core.book.moment import Moment
from holdfast._core.flow_changes import FlowChange
from holdfast._ports.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = 1

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _verb(
    verb: Callable[Concatenate[Book, Moment, Parameters], Result],
) -> Callable[Concatenate["MemoryStore", Parameters], Coroutine[Any, Any, Result]]:
    name = verb.__name__

    async def ask(self: "MemoryStore", /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with self._lock:
            try:
                answer: Result = getattr(self.book, name)(self.moment(), *args, **kwargs)
            finally:
                self.book.forget_journal()
            return answer

    ask.__name__, ask.__qualname__ = name, f"MemoryStore.{name}"
    return ask


class MemoryStore:
    """Jobs in this process only; they end with it."""

    def __init__(self, clock: Clock, book: Book | None = None) -> None:
        self.book = book or Book()
        self._clock = clock
        self._lock = RLock()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("memory", "kernel")

    def moment(self) -> Moment:
        """Return the time on both clocks, for a verb that is called now."""
        clock = self._clock
        return Moment(_EPOCH + timedelta(0, 0, round(clock.wall() * 1e6)), round(clock.monotonic() * 1e6))

    def snapshot(self) -> Snapshot:
        """Return a copy of the store's content. To ``restore`` it later simulates a fail-over that loses the newest writes."""
        with self._lock:
            return self.book.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the store's content by a snapshot, which can be restored again."""
        with self._lock:
            self.book.restore(snapshot)

    enqueue = _verb(Book.enqueue)
    exchange = _verb(Book.exchange)
    start = _verb(Book.start)
    report = _verb(Book.report)
    annotate = _verb(Book.annotate)
    expire = _verb(Book.expire)
    owed_hooks = _verb(Book.owed_hooks)

    open_lease = _verb(Book.open_lease)
    beat = _verb(Book.beat)
    end_lease = _verb(Book.end_lease)
    held = _verb(Book.held)
    expired = _verb(Book.expired)
    overdue = _verb(Book.overdue)

    get = _verb(Book.get)
    list = _verb(Book.list)
    counts = _verb(Book.counts)
    workers = _verb(Book.workers)
    worker_history = _verb(Book.worker_history)
    start_through = _verb(Book.start_through)
    void = _verb(Book.void)
    queues = _verb(Book.queues)
    waiting_tasks = _verb(Book.waiting_tasks)
    next_due = _verb(Book.next_due)
    due = _verb(Book.due)

    request_cancel = _verb(Book.request_cancel)
    reopen = _verb(Book.reopen)
    reschedule = _verb(Book.reschedule)
    delete = _verb(Book.delete)
    steer = _verb(Book.steer)
    purge = _verb(Book.purge)
    pause = _verb(Book.pause)
    set_queue = _verb(Book.set_queue)
    limits = _verb(Book.limits)
    set_limit = _verb(Book.set_limit)
    prune = _verb(Book.prune)

    enqueue_flow = _verb(Book.enqueue_flow)
    enqueue_member = _verb(Book.enqueue_member)
    enqueue_after = _verb(Book.enqueue_after)
    outputs = _verb(Book.outputs)
    flow = _verb(Book.flow)
    steer_flow = _verb(Book.steer_flow)
    revive = _verb(Book.revive)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self.book.flow_changes.take()

    schedules = _verb(Book.schedules)
    ticks = _verb(Book.ticks)
    advance = _verb(Book.advance)
    set_schedule = _verb(Book.set_schedule)
    remove_schedule = _verb(Book.remove_schedule)

    steps = _verb(Book.steps)
    record_step = _verb(Book.record_step)
    take_signal = _verb(Book.take_signal)
    signal = _verb(Book.signal)
    job_with_key = _verb(Book.job_with_key)

    async def migrate(self) -> tuple[int, int]:
        return _VERSION, _VERSION

    async def check(self) -> tuple[Check, ...]:
        message = "jobs live in this process and end with it"
        return (Check("warning", "durability", message, "use a store that writes to disk, such as sqlite:///jobs.db"),)

    async def close(self) -> None:
        pass

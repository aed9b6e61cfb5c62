"""The verbs of the store port as methods of a store that has a book. The store decides how a verb reaches the book."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _verb(
    verb: Callable[Concatenate[Book, Moment, Parameters], Result],
) -> Callable[Concatenate["BookVerbs", Parameters], Coroutine[Any, Any, Result]]:
    name = verb.__name__

    async def ask(self: "BookVerbs", /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        answer: Result = await self._ask(name, args, kwargs)
        return answer

    ask.__name__, ask.__qualname__ = name, f"BookVerbs.{name}"
    return ask


class BookVerbs(ABC):
    """All verbs of a book, without the moment of their calls."""

    @abstractmethod
    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a verb of the book, as one atomic step, and return its answer."""

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
    request_drain = _verb(Book.request_drain)
    held = _verb(Book.held)
    expired = _verb(Book.expired)
    overdue = _verb(Book.overdue)

    get = _verb(Book.get)
    list = _verb(Book.list)
    errors = _verb(Book.errors)
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
    audits = _verb(Book.audits)
    record_minutes = _verb(Book.record_minutes)
    minutes = _verb(Book.minutes)
    enqueue_by = _verb(Book.enqueue_by)
    record_action = _verb(Book.record_action)
    limits = _verb(Book.limits)
    set_limit = _verb(Book.set_limit)
    prune = _verb(Book.prune)
    vitals = _verb(Book.vitals)

    enqueue_flow = _verb(Book.enqueue_flow)
    enqueue_member = _verb(Book.enqueue_member)
    enqueue_after = _verb(Book.enqueue_after)
    outputs = _verb(Book.outputs)
    flow = _verb(Book.flow)
    steer_flow = _verb(Book.steer_flow)
    revive = _verb(Book.revive)

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

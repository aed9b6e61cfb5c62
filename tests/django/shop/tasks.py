"""The tasks of the shop."""

import os
import signal
from pathlib import Path
from typing import Any

from django.db import connections
from django.db.models import F
from django.tasks import task

from holdfast import Backoff, Snooze
from holdfast.integrations.django import task_options
from tests.django.shop.models import Order

AT_ONCE = Backoff.fixed("0s")


@task
def add(first: int, second: int = 0, *more: int) -> int:
    """Return the sum of all arguments."""
    return first + second + sum(more)


@task
async def aadd(first: int, second: int) -> int:
    """Return the sum, from the event loop."""
    order = await Order.objects.filter(number=first).afirst()
    return first + second + (order.shipped if order else 0)


@task(takes_context=True)
@task_options(max_attempts=2, backoff=AT_ONCE)
def second_try(context: Any) -> list[Any]:
    """Fail in the first attempt; return what the second one knows of it."""
    if context.attempt == 1:
        raise LookupError("not yet")
    result = context.task_result
    return [context.attempt, len(result.worker_ids), [each.exception_class_path for each in result.errors]]


@task
@task_options(max_attempts=1)
def refuse(why: str) -> None:
    """Fail at once, with this reason."""
    raise ValueError(why)


@task
@task_options(max_attempts=1)
def unreadable() -> Any:
    """Return what is not JSON."""
    return object()


@task
def later() -> Any:
    """Run again in an hour."""
    return Snooze("1h")


@task(queue_name="mail", takes_context=True)
def ship(context: Any, number: int) -> bool:
    """Ship an order by the ORM, and use the job."""
    context.job.progress(stage="ship", fraction=0.5)
    return bool(Order.objects.filter(number=number).update(shipped=F("shipped") + 1))


@task
def is_open() -> bool:
    """Return whether this thread had a connection of an earlier task, and use it."""
    was_open = connections["default"].connection is not None
    Order.objects.count()
    return was_open


@task
@task_options(process=True)
def process_id() -> int:
    """Return the process that this runs in, after a query."""
    Order.objects.count()
    return os.getpid()


@task(takes_context=True)
@task_options(timeout="60s")
def die_once(context: Any, path: str) -> int:
    """Kill the worker in the first attempt."""
    if context.attempt == 1:
        Path(path).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return int(context.attempt)


@task(takes_context=True)
@task_options(unique_by=("order",))
def charge(context: Any, order: int, cents: int = 100) -> str:
    """Charge an order, for which one unfinished job may exist."""
    return f"{order}: {cents}"

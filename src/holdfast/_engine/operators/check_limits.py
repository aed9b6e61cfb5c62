"""What ``app.check()`` finds about limits and lanes: those that keep jobs from starting, perhaps without intent."""

from collections.abc import AsyncIterator, Iterator, Sequence
from shlex import quote
from typing import Final

from holdfast._core.answers import Check, LeaseView, QueueView
from holdfast._core.job import State
from holdfast._core.lane_cause import remedy_of, starved
from holdfast._core.limit_causes import command, is_full
from holdfast._core.limits import CountedBy, LimitView, ScopeKind, is_limited
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter
from holdfast._engine.client.explaining import lane_facts
from holdfast._engine.store_defaults import limits, offers
from holdfast._engine.tasks.registry import Registry
from holdfast._ports.limits import Limits
from holdfast._ports.store import Store

LATE: Final = 60.0
"""Seconds after which it is looked at why a job waits."""
MOST_JOBS: Final = 500
MOST_LANES: Final = 5


async def check_limits(
    store: Store, registry: Registry, alive: Sequence[LeaseView], queues: Sequence[QueueView]
) -> tuple[Check, ...]:
    """Check the limits of a store, and whether lanes wait longer than their share."""
    views = await limits(store).limits() if offers(store, Limits) else ()
    jobs_of_tasks = {task for task, _ in await store.counts("task")} if views else set[str]()
    used = {
        ScopeKind.TASK: {*registry.names(), *jobs_of_tasks, *(task for worker in alive for task in worker.tasks)},
        ScopeKind.QUEUE: _queues_in_use(registry, alive, queues),
    }
    return (
        *(finding for view in views for finding in _of_limit(view, alive)),
        *(finding for view in views for finding in _of_unused(view, used) if registry.names()),
        *[finding async for finding in _of_lanes(store, alive, queues, views)],
    )


def _queues_in_use(registry: Registry, alive: Sequence[LeaseView], queues: Sequence[QueueView]) -> set[str]:
    of_tasks = {task.queue for name in registry.names() if (task := registry.get(name)) is not None}
    return (
        of_tasks
        | {queue for worker in alive for queue in worker.queues}
        | {each.name for each in queues if any(each.counts.values())}
    )


def _of_limit(view: LimitView, alive: Sequence[LeaseView]) -> Iterator[Check]:
    if view.limit.concurrency == 0:
        remedy = f"raise it: {command(view.scope, view.limit, concurrency='1')}"
        yield Check("warning", "limits", f"the limit of {view.scope} is 0: no job of it may start", remedy)
    elif is_full(view) and view.holders and not {worker.worker for worker in alive} & {each.worker for each in view.holders}:
        held = ", ".join(f"job {each.job} on {each.worker}" for each in view.holders)
        message = f"the limit of {view.scope} is full, and the workers that hold it have ended: {held}"
        yield Check(
            "warning",
            "limits",
            message,
            "a supervisor (`holdfast worker`) takes their jobs back; `holdfast recover module:app` does so once",
        )


def _of_unused(view: LimitView, used: dict[ScopeKind, set[str]]) -> Iterator[Check]:
    kind, name = view.scope.kind, view.scope.name
    if kind in used and name not in used[kind]:
        message = f"the limit of {view.scope} counts nothing: no job, no task of this App and no live worker uses it"
        yield Check("warning", "limits", message, f"correct the name, or `holdfast limits clear {kind} {quote(name)}`")


async def _of_lanes(
    store: Store, alive: Sequence[LeaseView], queues: Sequence[QueueView], views: Sequence[LimitView]
) -> AsyncIterator[Check]:
    """Find lanes without a limit that wait longer than their share, by the job of each that waits longest."""
    late = await store.list(JobFilter(state=State.AVAILABLE, older_than=LATE, limit=MOST_JOBS)) if alive else ()
    paused = {queue.name for queue in queues if queue.paused_at is not None}
    scopes = {view.scope for view in views}
    oldest = dict[tuple[str, str], JobRecord]()
    for row in late:  # the newest first
        if row.queue not in paused and not is_limited(CountedBy(row.task, row.queue, row.key), scopes):
            oldest[row.queue, row.key] = row
    for row in sorted(oldest.values(), key=lambda row: row.available_at)[:MOST_LANES]:
        facts = await lane_facts(store, row, queues)
        slots = sum(worker.slots for worker in alive if row.task in worker.tasks)
        if slots and facts.is_starved(slots):
            yield Check("warning", "lanes", starved(facts), remedy_of(facts))

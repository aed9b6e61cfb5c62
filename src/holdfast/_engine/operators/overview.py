"""The reads behind ``app.overview()``."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import QueueView
from holdfast._core.audit import AuditEntry, AuditFilter
from holdfast._core.error_groups import ErrorList
from holdfast._core.job import ACTIVE, FINISHED, PLACE_OF, Place, RescueReason, State
from holdfast._core.need_words import MOST_NAMED, oldest_of
from holdfast._core.overview import (
    LOOK_AT_FAILED,
    LOOK_FOR_RESCUED,
    MOST_HELD,
    MOST_RESCUED,
    MOST_RUNNING,
    WAITING,
    Overview,
    is_long_full,
    needs_of,
    recently_lost,
    tasks_to_count,
)
from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.requests import JobFilter
from holdfast._core.schedule import ScheduleView
from holdfast._core.view import JobView
from holdfast._engine import store_defaults
from holdfast._engine.client.client import Client
from holdfast._engine.operators.looking import MOST_LOOKED, newest
from holdfast.errors import JobNotFound, Unsupported

Row = TypeVar("Row")
RESCUED_KEPT = 10.0
"""Seconds for which finished jobs that were taken from a worker, and many waiting ones, are shown again while none of the others ends."""
FEW_WAITING = 2_000
"""The most waiting jobs that each overview looks at. To look at 50,000 each time took 60 ms of PostgreSQL."""
UNFINISHED = tuple(state for state in State if state not in FINISHED)


class Recent:
    """What an overview that is read again and again has read, and need not read each time."""

    def __init__(self) -> None:
        self.failed, self.newest, self.errors = -1, ErrorList(), ErrorList()
        self.unfinished, self.others = frozenset[UUID](), list[JobView]()
        self.until = 0.0
        self.late, self.late_until = frozenset[UUID](), 0.0
        self.waiting, self.waiting_until = dict[str, int](), 0.0


async def overview(client: Client, queues: Sequence[QueueView] | None = None, recent: Recent | None = None) -> Overview:
    """Read what the store shows, and find what an operator should look at. ``queues``: they were read just now. ``recent``: of errors and
    of finished jobs, what it has is shown again while nothing points to others."""

    async def schedules() -> list[ScheduleView]:
        return [ScheduleView.of(each, 1) for each in (await client.schedules()).found]

    queues = await client.queues(MOST_COUNTED) if queues is None else queues

    async def pauses() -> Sequence[AuditEntry]:
        return await client.audits(AuditFilter(action="pause")) if any(queue.paused_at for queue in queues) else ()

    counts: Counter[State] = Counter()
    for queue in queues:
        counts.update(queue.counts)
    recent = recent or Recent()
    rescued = await _rescued(client, counts, recent)
    seen = Overview(
        at=client.now(),
        workers=await client.workers(),
        queues=queues,
        running=await client.list(JobFilter(state=State.RUNNING, limit=MOST_RUNNING)),
        held=await client.list(JobFilter(state=State.HELD, limit=MOST_HELD)) if counts[State.HELD] else (),
        waiting_tasks=await client.ask("waiting_tasks", store_defaults.waiting_tasks),
        limits=await _if_any(client.limits),
        schedules=await _if_any(schedules),
        errors=await _errors(client, counts[State.FAILED], recent),
        pauses=await _if_any(pauses),
        rescued=rescued,
        answered_late=await _answered_late(client, rescued, recent),
    )
    seen = structs.replace(seen, waiting=await _waiting(client, seen, counts, recent), holders=await _holders(client, seen))
    return structs.replace(seen, needs=needs_of(seen))


async def _errors(client: Client, failed: int, recent: Recent) -> ErrorList:
    """Return why jobs fail, without messages: they may contain values that only the page of a job shows."""
    newest = await _groups(client, 1) if recent.failed == failed else ErrorList()
    if recent.failed != failed or recent.newest != newest:
        recent.errors = await _groups(client, LOOK_AT_FAILED)
        recent.failed, recent.newest = failed, newest
    return recent.errors


async def _groups(client: Client, look: int) -> ErrorList:
    found = await client.ask("errors", partial(store_defaults.errors, look=look, limit=look))
    return structs.replace(found, groups=tuple(structs.replace(group, message="") for group in found.groups))


async def _rescued(client: Client, counts: Mapping[State, int], recent: Recent) -> list[JobView]:
    """Return jobs that were taken from workers: all that have not finished, and others among the newest jobs.

    Where very many jobs wait, those of them that are rescued are looked for among the newest jobs, too.
    """
    which = JobFilter(is_rescued=True, limit=MOST_RESCUED)
    waiting = tuple(state for state in State if PLACE_OF[state] is Place.PENDING)
    waits = sum(counts.get(state, 0) for state in waiting)
    found = await client.list(structs.replace(which, state=UNFINISHED if waits <= FEW_WAITING else tuple(ACTIVE)))
    now, ids = client.now().timestamp(), frozenset(job.id for job in found)
    if now >= recent.until or not recent.unfinished <= ids:  # one of them has finished, or waits again
        others = tuple(FINISHED) + (waiting if waits > MOST_LOOKED else ())
        recent.others = await newest(client, structs.replace(which, state=others), most=LOOK_FOR_RESCUED)
        if FEW_WAITING < waits <= MOST_LOOKED:
            recent.others += await client.list(structs.replace(which, state=waiting))
        recent.until = now + RESCUED_KEPT
    recent.unfinished = ids
    return [*found, *(job for job in recent.others if job.id not in ids)]


async def _waiting(client: Client, seen: Overview, counts: Mapping[State, int], recent: Recent) -> Mapping[str, int]:
    """Return how many jobs are in line of each task to look at, if there is one; nothing where very many jobs have not finished.

    It reads each of those, as the counts of queues do. So where there are many, it does so every 10 s.
    """
    tasks = tasks_to_count(seen.waiting_tasks, seen.workers, seen.limits)
    reads, now = sum(counts.get(state, 0) for state in UNFINISHED), seen.at.timestamp()
    if not tasks or reads > MOST_LOOKED:
        return {}
    if reads <= FEW_WAITING or now >= recent.waiting_until or not tasks <= recent.waiting.keys():
        found = await client.counts("task", 1)
        recent.waiting = {task: sum(found.get(task, {}).get(state, 0) for state in WAITING) for task in tasks}
        recent.waiting_until = now + RESCUED_KEPT
    return recent.waiting


async def _holders(client: Client, seen: Overview) -> list[JobView]:
    """Return the jobs that have held full limits for longest, of some limits, but for those that are shown as running anyway."""
    full = [oldest_of(limit).job for limit in seen.limits if is_long_full(limit)]
    shown = {job.id for job in seen.running}
    found = [await _job(client, job) for job in dict.fromkeys(full[:MOST_NAMED]) if job not in shown]
    return [job for job in found if job is not None]


async def _answered_late(client: Client, rescued: Sequence[JobView], recent: Recent) -> frozenset[UUID]:
    """Return the jobs that a worker has answered for after they were taken from it: one of each worker is looked at."""
    now = client.now()
    lost = {job.rescued_from: job.id for job in recently_lost(rescued, now) if job.rescued is RescueReason.EXPIRED}
    if now.timestamp() >= recent.late_until:
        found = [await _job(client, job) for job in [*lost.values()][:MOST_NAMED]]
        recent.late = frozenset(job.id for job in found if job and any(attempt.late_at for attempt in job.attempts))
        recent.late_until = now.timestamp() + RESCUED_KEPT
    return recent.late


async def _job(client: Client, job: UUID) -> JobView | None:
    try:
        return await client.get(job)
    except JobNotFound:  # it was deleted in the meantime
        return None


async def _if_any(read: Callable[[], Awaitable[Sequence[Row]]]) -> Sequence[Row]:
    try:
        return await read()
    except Unsupported:
        return ()

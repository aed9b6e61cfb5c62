"""The reads of many jobs: lists, counts, queues, and what is due."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import structs

from holdfast._core.answers import BeatView, DueJob, QueueView
from holdfast._core.audit import AuditEntry, AuditFilter
from holdfast._core.error_groups import ErrorGroup, ErrorList, group_of
from holdfast._core.job import FINISHED, State
from holdfast._core.limits import CountedBy, is_limited, wait_for
from holdfast._core.record import JobRecord, as_read, matches
from holdfast._core.requests import IsolatedJobs, JobFilter, QueueSettings, several
from holdfast._core.text import storable_text
from holdfast.databases.mongo.database import Document
from holdfast.databases.readable import readable
from holdfast.stores.mongo.documents import range_in, record_of
from holdfast.stores.mongo.loading import Loader, unexpired

_PAGE = 1000
_STORED = {
    State.SCHEDULED: ("available",),
    State.BLOCKED: ("available", "blocked"),
    State.CLAIMED: ("claimed",),
    State.RUNNING: ("claimed", "running"),
}
_UNFINISHED = ("available", "claimed", "running", "held", "blocked")
"""The states of documents whose jobs have not finished."""
_FIELDS = {
    "task": "task",
    "queue": "queue",
    "key": "key",
    "error_key": "error_key",
    "reason": "reason",
    "tag": "tags",
    "worker": "worker",
}
"""The conditions that are equal to a field of a document."""
_SECOND = timedelta(seconds=1)


async def list_jobs(loader: Loader, now: datetime, which: JobFilter) -> tuple[JobRecord, ...]:
    """Return matching jobs, newest first."""
    if which.skip and which.has_no_conditions:
        last = await loader.find_jobs(
            {**_query(which), **_between(which.before, which.down_to)},
            limit=1,
            skip=which.skip - 1,
            sort={"_id": -1},
            projection={"_id": 1},
        )
        return await list_jobs(loader, now, structs.replace(which, skip=0, before=last[0]["_id"])) if last else ()
    found, before = list[JobRecord](), which.before
    while len(found) < which.skip + which.limit:
        query = {**_query(which), **_between(before, which.down_to)}
        page = await loader.find_jobs(query, limit=_PAGE, sort={"_id": -1})
        if not page:
            break
        before = page[-1]["_id"]
        views = readable(partial(_view, await loader.started(), now), page)
        chosen = [view for view in views if matches(view, which, now)]
        if which.only_workflows:
            lone = await loader.lone_roots([view.id for view in chosen if view.member is not None and not view.member.is_gate])
            chosen = [view for view in chosen if view.id not in lone]
        found += chosen
    return tuple(found[which.skip :][: which.limit])


def _view(started: Mapping[UUID, int], now: datetime, found: Document) -> JobRecord:
    return as_read(record_of(found, started.get(found["active"], 0) if "active" in found else 0), now)


def _between(before: UUID | None, down_to: UUID | None) -> Document:
    ends = {name: each for name, each in (("$lt", before), ("$gte", down_to)) if each is not None}
    return {"_id": ends} if ends else {}


def _query(which: JobFilter) -> Document:
    states = several(which.state)
    stored = (
        {"$exists": True}
        if states is None
        else {"$in": [name for state in states for name in _STORED.get(state, (state.value,))]}
    )
    query: Document = {"state": stored}
    for name, field in _FIELDS.items():
        if (values := several(getattr(which, name))) is not None:
            query[field] = values[0] if len(values) == 1 else {"$in": [*values]}
    if which.is_rescued is not None:
        query["rescue"] = {"$exists": which.is_rescued}
    if which.workflow is not None:
        query["flow"] = which.workflow
    elif which.only_workflows:
        query["flow"] = {"$exists": True}
    return query


async def list_audits(loader: Loader, now: datetime, which: AuditFilter) -> tuple[AuditEntry, ...]:
    """Return matching actions of operators, newest first."""
    del now
    query: Document = {} if which.before is None else {"_id": {"$lt": which.before}}
    query |= {name: value for name in ("action", "who") if (value := storable_text(getattr(which, name))) is not None}
    return tuple(kept.entry for kept in await loader.audits(query, which.limit))


async def group_errors(loader: Loader, now: datetime, look: int, limit: int) -> ErrorList:
    """Return groups of the newest failed jobs."""
    del now
    if look < 1 or limit < 1:
        return ErrorList()
    key = {"$ifNull": ["$error_key", ""]}
    own = {name: {"$cond": [{"$eq": [key, ""]}, f"${name}", ""]} for name in ("task", "reason")}
    newest_first: list[Document] = [
        {"$match": {"failed_at": {"$exists": True}}},
        {"$sort": {"failed_at": -1, "_id": -1}},
        {"$limit": look},
    ]
    group = {
        "_id": {"key": key, **own},
        "job": {"$first": "$_id"},
        "last_at": {"$first": "$failed_at"},
        "first_at": {"$last": "$failed_at"},
        "number": {"$sum": 1},
    }
    found = await loader.gather([*newest_first, {"$group": group}])
    found.sort(key=lambda each: (each["last_at"], each["job"]), reverse=True)
    newest = await loader.find_jobs({"_id": {"$in": [each["job"] for each in found[:limit]]}})
    jobs = {row.id: row for row in readable(record_of, newest)}
    return ErrorList(
        groups=tuple(_group(jobs[each["job"]], each) for each in found[:limit] if each["job"] in jobs),
        kinds=len(found),
        looked_at=sum(each["number"] for each in found),
        back_to=min((each["first_at"] for each in found), default=None),
    )


def _group(newest: JobRecord, found: Document) -> ErrorGroup:
    times = {"count": found["number"], "first_at": found["first_at"], "last_at": found["last_at"]}
    return group_of(newest.id, newest.task, newest.reason, newest.error, **times)


async def count_jobs(
    loader: Loader, now: datetime, by: Literal["queue", "task"] | None = None, most: int | None = None
) -> dict[tuple[str, State], int]:
    """Count jobs by group and state, as they are read. ``most``: the most finished jobs of a state to count, and one more."""
    group = "" if by is None else f"${by}"
    early = {"$and": [{"$eq": ["$state", "available"]}, {"$gt": ["$available_at", now]}]}
    state = {
        "$cond": [early, {"$cond": [{"$gt": ["$awaits", None]}, "blocked", "scheduled"]}, "$state"],
    }
    count: Document = {"$group": {"_id": {"group": group, "state": state}, "number": {"$sum": 1}}}
    which: Document = {"$exists": True} if most is None else {"$in": [*_UNFINISHED]}
    ended: list[list[Document]] = (
        [] if most is None else [[{"$match": {"state": each.value}}, {"$limit": most + 1}, count] for each in FINISHED]
    )
    counted = await loader.gather([{"$match": {"state": which}}, count], *ended)
    found = Counter({(each["_id"]["group"], State(each["_id"]["state"])): each["number"] for each in counted})
    started = await loader.started()
    if started:
        which = {"active": {"$in": [*started]}, "state": "claimed"}
        for each in await loader.find_jobs(which, projection={"active": 1, "number": 1, "queue": 1, "task": 1}):
            if each["number"] <= started[each["active"]]:
                name = "" if by is None else each[by]
                found[name, State.CLAIMED] -= 1
                found[name, State.RUNNING] += 1
    return {group: number for group, number in found.items() if number}


async def view_queues(loader: Loader, now: datetime, most: int | None = None) -> tuple[QueueView, ...]:
    """Return queues that have jobs, are paused, or have settings."""
    paused, chosen = loader.paused, loader.queue_settings
    found: dict[str, dict[State, int]] = {queue: {} for queue in (*paused, *chosen)}
    for (queue, state), number in (await count_jobs(loader, now, "queue", most)).items():
        found.setdefault(queue, {})[state] = number
    return tuple(
        QueueView(name=name, paused_at=paused.get(name), counts=found[name], settings=chosen.get(name, QueueSettings()))
        for name in sorted(found)
    )


async def worker_history(loader: Loader, now: datetime, worker: str, limit: int) -> tuple[BeatView, ...]:
    """Return the last notes on a worker, newest first."""
    del now
    return tuple(msgspec.json.decode(each["value"], type=BeatView) for each in await loader.beats(worker, limit))


async def tasks_that_wait(loader: Loader) -> tuple[str, ...]:
    """Return the tasks that have a waiting job, by name."""
    pipeline: list[Document] = [{"$match": {"line": {"$gte": ""}}}, {"$group": {"_id": "$line"}}]
    return tuple(sorted({range_in(each["_id"])[0] for each in await loader.gather(pipeline)}))


async def due_jobs(
    loader: Loader,
    now: datetime,
    tasks: Sequence[str],
    limit: int,
    *,
    queues: Sequence[str] | None = None,
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
    age: float = 0.0,
) -> tuple[DueJob, ...]:
    """Return the first jobs that a claim would take."""
    found = list[tuple[int, datetime, UUID, DueJob]]()
    async for line, jobs in _heads(loader, now, tasks, queues, isolated, limit=limit, until=now - timedelta(seconds=age)):
        task, queue, key, priority = range_in(line)
        if not is_limited(CountedBy(task, queue, key), loader.limits):
            found += [(priority, each["available_at"], each["_id"], DueJob(each["_id"], queue, each["number"])) for each in jobs]
    return tuple(due for *_, due in sorted(found, key=lambda each: each[:3])[:limit])


async def next_due(
    loader: Loader,
    now: datetime,
    tasks: Sequence[str],
    queues: Sequence[str] | None = None,
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
) -> float | None:
    """Return the seconds until a claim would find a job."""
    uses = await loader.read_uses(now)
    soonest = list[float]()
    async for line, jobs in _heads(loader, now, tasks, queues, isolated, limit=1):
        task, queue, key, _ = range_in(line)
        wait = wait_for(CountedBy(task, queue, key), uses)
        if wait is not None:
            soonest += [max((each["available_at"] - now) / _SECOND, wait / 1e6) for each in jobs]
    return max(0.0, min(soonest)) if soonest else None


async def _heads(
    loader: Loader,
    now: datetime,
    tasks: Sequence[str],
    queues: Sequence[str] | None,
    isolated: IsolatedJobs,
    *,
    limit: int,
    until: datetime | None = None,
) -> AsyncIterator[tuple[str, list[Document]]]:
    """Return the first jobs of each line, but expired ones."""
    fields = {"available_at": 1, "number": 1}
    for line in await loader.lines(tasks, queues, isolated):
        which = {"line": line, **unexpired(now), **({} if until is None else {"available_at": {"$lte": until}})}
        yield line, await loader.find_jobs(which, limit=limit, sort={"available_at": 1, "_id": 1}, projection=fields)

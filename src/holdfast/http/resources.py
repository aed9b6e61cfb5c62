"""Reads of everything beside jobs: queues, workers, schedules, workflows, watched tables, limits, findings, and the store itself."""

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast._core.answers import Check, LeaseView, QueueView
from holdfast._core.audit import AuditEntry, AuditFilter
from holdfast._core.job import Reason, State
from holdfast._core.release import VERSION
from holdfast._core.requests import JobFilter, QueueSettings
from holdfast._core.schedule import ScheduleView
from holdfast._core.workflow_view import WorkflowView
from holdfast._engine.operators.limits import LimitStatus
from holdfast._ports.table import States
from holdfast.http.job_items import may_read, with_masked_texts, without_texts
from holdfast.http.job_resources import MOST_ITEMS, READING, READING_ONE
from holdfast.http.managed import Managed
from holdfast.http.openapi import PREFIX
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.problems import ApiError
from holdfast.http.redact import recorded
from holdfast.metrics.store_gauges import longest_wait

MOST_COUNTED: Final = 1000
"""The most jobs of unknown tasks that a backlog leaves out, for each task."""


class Root(Struct, frozen=True, kw_only=True):
    """What answers here. ``may``: the actions that the sender may take. ``caller_transaction``: jobs can join a caller's transaction."""

    version: str
    store: str
    url: str
    caller_transaction: bool
    read_only: bool
    identity: str
    roles: list[str]
    may: list[str]


class QueueItem(Struct, frozen=True, kw_only=True):
    """A queue. ``backlog``: jobs that are due, are not paused, and have a task that a worker or this App knows: what a scaler reads.

    ``oldest_waiting``: for how many seconds the job that is due for longest has waited, exact to a few percent.
    """

    name: str
    paused_at: datetime | None
    counts: dict[State, int]
    settings: QueueSettings
    backlog: int
    oldest_waiting: float


class WorkerItem(Struct, frozen=True, kw_only=True):
    """A worker whose lease has not ended. ``last_beat``: seconds since its last beat. ``overdue``: seconds since it should have come,
    negative before. Empty ``queues``: all."""

    name: str
    host: str
    pid: int
    state: str
    slots: int
    running: int
    claimed: int
    last_beat: float
    overdue: float
    age: float
    queues: tuple[str, ...]
    tasks: tuple[str, ...]


class RowsItem(Struct, frozen=True, kw_only=True):
    """A table that the App watches."""

    name: str
    table: str
    task: str
    states: States


class WorkflowItem(Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    id: str
    name: str
    queue: str
    state: State
    reason: Reason | None
    created_at: datetime
    finished_at: datetime | None


class WorkflowQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflows to list."""

    name: str | UnsetType = UNSET
    state: State | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    tag: str | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 100
    cursor: str | UnsetType = UNSET


class ScheduleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many coming ticks each schedule shows."""

    next: Annotated[int, Meta(ge=1, le=100)] = 1


class Queues(Struct, frozen=True):
    """All queues, by name."""

    items: list[QueueItem]


class Workers(Struct, frozen=True):
    """All workers whose lease has not ended, oldest first."""

    items: list[WorkerItem]


class Schedules(Struct, frozen=True):
    """All schedules, by name."""

    items: list[ScheduleView]


class Workflows(Struct, frozen=True):
    """A page of workflows, newest first. ``next``: the cursor of the page after it."""

    items: list[WorkflowItem]
    next: str | None


class WatchedRows(Struct, frozen=True):
    """The tables that the App watches."""

    items: list[RowsItem]


class Limits(Struct, frozen=True):
    """All limits: that of the cluster, then those of queues and tasks."""

    items: list[LimitStatus]


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which actions to list."""

    action: str | UnsetType = UNSET
    who: str | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 100
    cursor: str = ""


class Audits(Struct, frozen=True):
    """What operators did, newest first. ``next``: the cursor of the next page."""

    items: list[AuditEntry]
    next: str | None


class Findings(Struct, frozen=True):
    """What `holdfast check` finds."""

    items: list[Check]


class Resources:
    """What the API reads beside jobs."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def operations(self) -> list[Operation]:
        """Describe the reads beside jobs."""
        return [
            _read("/", "Read what answers here, and what you may do.", Root, self._root, roles=READING_ONE),
            _read("/queues", "List queues.", Queues, self._queues),
            _read("/queues/{name}", "Read a queue; its backlog is what a scaler reads.", QueueItem, self._queue, refusals=(404,)),
            _read("/workers", "List workers.", Workers, self._workers),
            _read("/workers/{name}", "Read a worker.", WorkerItem, self._worker, refusals=(404,)),
            _read("/schedules", "List schedules.", Schedules, self._schedules, ScheduleQuery),
            _read("/schedules/{name}", "Read a schedule.", ScheduleView, self._schedule, ScheduleQuery, refusals=(404,)),
            _read("/workflows", "List workflows, newest first.", Workflows, self._workflows, WorkflowQuery),
            _read("/workflows/{id}", "Read a workflow with its nodes.", WorkflowView, self._workflow, refusals=(404,)),
            _read("/rows", "List watched tables.", WatchedRows, self._rows, is_unbounded=True),
            _read("/limits", "List limits, and what is used of them.", Limits, self._limits),
            _read("/audit", "List what operators did, newest first.", Audits, self._audit, AuditQuery),
            _read("/check", "Find what is right and wrong.", Findings, self._check, is_unbounded=True),
        ]

    async def _root(self, call: Call) -> Reply:
        capabilities = self._managed.environment().store.capabilities
        root = Root(
            version=VERSION,
            store=capabilities.name,
            url=self._managed.url,
            caller_transaction=capabilities.caller_transaction,
            read_only=call.is_read_only,
            identity=call.identity.name,
            roles=sorted(call.identity.roles),
            may=sorted(call.may),
        )
        return Reply(root)

    async def _queues(self, _: Call) -> Reply:
        known = await self._known_tasks()
        return Reply(Queues([await self._queue_item(each, known) for each in await self._managed.queues.alist()]))

    async def _queue(self, call: Call) -> Reply:
        for each in await self._managed.queues.alist():
            if each.name == call.path["name"]:
                return Reply(await self._queue_item(each, await self._known_tasks()))
        raise absent("queue", call.path["name"], "/queues")

    async def _known_tasks(self) -> tuple[set[str], set[str]]:
        """Return the tasks that a live worker or this App knows, and those with due jobs that neither knows: none if there is no code."""
        live = {task for worker in await self._managed.workers.alist() if worker.overdue <= 0 for task in worker.tasks}
        known = live | set(self._managed.registry.names())
        due = {task for task, counts in (await self._managed.jobs.acounts("task")).items() if counts[State.AVAILABLE.value]}
        return known, (due - known if known else set())

    async def _queue_item(self, queue: QueueView, tasks: tuple[set[str], set[str]]) -> QueueItem:
        due, client = queue.counts.get(State.AVAILABLE, 0), self._managed.client
        for task in tasks[1] if due and queue.paused_at is None else ():
            which = JobFilter(queue=queue.name, task=task, state=State.AVAILABLE, limit=MOST_COUNTED)
            due -= len(await client.page(which))
        return QueueItem(
            name=queue.name,
            paused_at=queue.paused_at,
            counts=queue.counts,
            settings=queue.settings,
            backlog=max(due, 0) if queue.paused_at is None else 0,
            oldest_waiting=await longest_wait(client, queue.name, client.now()) if queue.counts.get(State.AVAILABLE) else 0.0,
        )

    async def _workers(self, _: Call) -> Reply:
        return Reply(Workers([_worker(each) for each in await self._managed.workers.alist()]))

    async def _worker(self, call: Call) -> Reply:
        for each in await self._managed.workers.alist():
            if each.worker == call.path["name"]:
                return Reply(_worker(each))
        raise absent("worker", call.path["name"], "/workers")

    async def _schedules(self, call: Call) -> Reply:
        return Reply(Schedules(await self._managed.schedules.alist(next=call.asked.next)))

    async def _schedule(self, call: Call) -> Reply:
        for each in await self._managed.schedules.alist(next=call.asked.next):
            if each.name == call.path["name"]:
                return Reply(each)
        raise absent("schedule", call.path["name"], "/schedules")

    async def _workflows(self, call: Call) -> Reply:
        query, cursors = call.asked, self._managed.cursors
        given = {name: found for name in ("name", "state", "queue", "key", "tag") if (found := getattr(query, name)) is not UNSET}
        which = f"workflows {sorted(given.items())!r}"
        cursor = cursors.read(query.cursor, which) if query.cursor else None
        found = await self._managed.workflows.alist(**given, limit=query.limit, cursor=cursor)
        items = [WorkflowItem(id=str(each.id), name=each.task, **{name: getattr(each, name) for name in _SAME}) for each in found]
        return Reply(Workflows(items, cursors.make(found[-1].id, which) if len(found) == query.limit else None))

    async def _workflow(self, call: Call) -> Reply:
        found = await self._managed.workflows.aget(call.path["id"])
        return Reply(await with_masked_texts(found, self._managed) if may_read(call) else without_texts(found))

    async def _rows(self, _: Call) -> Reply:
        watches = self._managed.watches.values()
        items = [
            RowsItem(
                name=each.name,
                table=".".join(each.settings.watch.table),
                task=each.settings.task,
                states=await each.astates(),
            )
            for each in watches
        ]
        return Reply(WatchedRows(items))

    async def _limits(self, _: Call) -> Reply:
        return Reply(Limits(await self._managed.limits.alist()))

    async def _audit(self, call: Call) -> Reply:
        query, cursors = call.asked, self._managed.cursors
        given = {name: found for name in ("action", "who") if (found := getattr(query, name)) is not UNSET}
        which = f"audit {sorted(given.items())!r}"
        before = cursors.read(query.cursor, which) if query.cursor else None
        found = [*await self._managed.client.audits(AuditFilter(**given, limit=query.limit, before=before))]
        items = [recorded(each, is_readable=may_read(call)) for each in found]
        return Reply(Audits(items, cursors.make(found[-1].id, which) if len(found) == query.limit else None))

    async def _check(self, _: Call) -> Reply:
        return Reply(Findings([*await self._managed.check()]))


_SAME: Final = ("queue", "state", "reason", "created_at", "finished_at")


def absent(kind: str, name: str, path: str) -> ApiError:
    """Return the answer for a thing that there is not."""
    return ApiError(404, "not_found", f"there is no {kind} {name!r}", f"see {PREFIX}{path}")


def condition(worker: LeaseView) -> str:
    """Return what a worker does, in a word."""
    if worker.overdue > 0:
        return "silent"
    return "draining" if worker.is_draining else "isolated" if worker.is_isolated else "live"


def _worker(of: LeaseView) -> WorkerItem:
    return WorkerItem(
        name=of.worker,
        host=of.process.host,
        pid=of.process.pid,
        state=condition(of),
        slots=of.slots,
        running=of.holds - of.claimed,
        claimed=of.claimed,
        last_beat=max(of.overdue + of.timing.ttl, 0.0),
        overdue=of.overdue,
        age=of.age,
        queues=of.queues,
        tasks=of.tasks,
    )


def _read(path: str, summary: str, answer: Any, run: Any, query: Any = None, **more: Any) -> Operation:
    return Operation(
        method="GET", path=path, summary=summary, answers={200: answer}, query=query, run=run, **{"roles": READING, **more}
    )

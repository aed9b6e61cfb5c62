"""Reads of the last day: what workers did in each step, and the jobs that were taken from workers."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast._core.history import History
from holdfast._core.job import RescueReason, State
from holdfast._core.requests import JobFilter
from holdfast._core.view import JobView
from holdfast._engine.operators.history import read_history
from holdfast.http.job_resources import MOST_ITEMS, READING
from holdfast.http.managed import Managed
from holdfast.http.operation import Call, Operation, Reply

LONGEST_STEP: Final = 86_400


class HistoryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time, and the length of a step in seconds: whole minutes. Without ``from``: an hour. ``by``: also each queue or task."""

    start: datetime | UnsetType = field(default=UNSET, name="from")
    end: datetime | UnsetType = field(default=UNSET, name="to")
    step: Annotated[int, Meta(ge=60, le=LONGEST_STEP)] = 60
    queue: str | UnsetType = UNSET
    task: str | UnsetType = UNSET
    by: Literal["queue", "task"] | UnsetType = UNSET


class RescueQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many rescued jobs to list."""

    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS)] = 100
    cursor: str | UnsetType = UNSET


class RescueItem(Struct, frozen=True, kw_only=True):
    """The last time a job was taken from a worker. ``job``: its id. ``state``: what became of it. ``attempt``: its last one."""

    job: UUID
    task: str
    queue: str
    reason: RescueReason | None
    worker: str | None
    at: datetime | None
    state: State
    attempt: int
    crashes: int

    @classmethod
    def of(cls, job: JobView) -> "RescueItem":
        """Return the last rescue of a job."""
        shared = {name: getattr(job, name) for name in ("task", "queue", "state", "attempt", "crashes")}
        return cls(job=job.id, reason=job.rescued, worker=job.rescued_from, at=job.rescued_at, **shared)


class Rescues(Struct, frozen=True):
    """A page of rescued jobs, those enqueued last first. ``next``: the cursor of the page after it."""

    items: list[RescueItem]
    next: str | None


class HistoryResources:
    """What the API reads of the last day."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def operations(self) -> list[Operation]:
        """Describe the reads of the last day."""
        return [
            _read("/history", "Read what workers did in the last day, in steps.", History, HistoryQuery, self._history),
            _read("/rescues", "List the jobs that were taken from workers, newest first.", Rescues, RescueQuery, self._rescues),
        ]

    async def _history(self, call: Call) -> Reply:
        query = call.asked
        found = await read_history(
            self._managed.client,
            since=query.start or "1h",
            until=query.end or None,
            step=query.step,
            queue=query.queue or None,
            task=query.task or None,
            by=query.by or None,
        )
        return Reply(found)

    async def _rescues(self, call: Call) -> Reply:
        query, cursors = call.asked, self._managed.cursors
        before = cursors.read(query.cursor, "rescues") if query.cursor else None
        found = await self._managed.client.page(JobFilter(is_rescued=True, limit=query.limit, before=before))
        following = cursors.make(found[-1].id, "rescues") if len(found) == query.limit else None
        return Reply(Rescues([RescueItem.of(JobView.of(each)) for each in found], following))


def _read(path: str, summary: str, answer: Any, query: Any, run: Any) -> Operation:
    return Operation(method="GET", path=path, summary=summary, roles=READING, answers={200: answer}, query=query, run=run)

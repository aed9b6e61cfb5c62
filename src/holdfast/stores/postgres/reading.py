"""The verbs that read: each is one statement, so that it sees pending, active and finished jobs in one snapshot."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID

from holdfast._core.answers import MOST_ATTEMPTS, DueJob, LeaseView, QueueView
from holdfast._core.error_groups import ErrorList
from holdfast._core.job import PLACE_OF, State
from holdfast._core.record import AttemptRecord, JobRecord
from holdfast._core.requests import IsolatedJobs, JobFilter
from holdfast._core.text import json_text, storable_text
from holdfast.databases.readable import readable
from holdfast.stores.postgres import limit_uses as uses
from holdfast.stores.postgres import records as rows
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.parameters import takes
from holdfast.stores.postgres.records import Row

_ATTEMPT: Final = (
    *("job", "claim_id", "claim_number", "attempt", "worker", "outcome", "error", "started_at", "ended_at", "signal", "stacks"),
    "late_result",
)
_EARLY: Final = {State.SCHEDULED: (True, False), State.BLOCKED: (True, True), State.AVAILABLE: (False, None)}
"""What a waiting job in this state is: early, and waiting for a signal; None: either."""


def conditions_of(which: JobFilter) -> tuple[object, ...]:
    """Return the parameters of ``parts/matching.sql``."""
    return (
        State.AVAILABLE if which.state in _EARLY else which.state,
        *((None, None) if which.state is None else _EARLY.get(which.state, (None, None))),
        None if which.state is None else PLACE_OF[which.state].value,
        storable_text(which.task),
        storable_text(which.queue),
        None if which.tag is None else json_text(which.tag),
        which.reason,
        storable_text(which.key),
        None if which.older_than is None else round(which.older_than * 1e6),
        which.attempts_at_least,
        which.created_after,
        which.created_before,
        which.available_after,
        which.available_before,
        which.finished_after,
        which.finished_before,
        storable_text(which.error_key),
        which.only_workflows,
    )


class Reading(StoreDatabase):
    """The part of the store that has the reading verbs in ``_ports.store``."""

    async def get(self, job: UUID) -> JobRecord | None:
        found = await self._fetch("get", job, MOST_ATTEMPTS)
        if not found:
            return None
        return rows.record_of(found[0], tuple(_attempt_of(row) for row in found if row["attempt_job"] is not None))

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        found = await self._search("list", which.before, *conditions_of(which), which.limit)
        return readable(rows.record_of, found)

    async def errors(self, look: int, limit: int) -> ErrorList:
        found = await self._search("errors", look, limit)
        if not found:
            return ErrorList()
        first = found[0]
        groups = readable(rows.error_group_of, found)
        return ErrorList(groups=groups, kinds=first["kinds"], looked_at=first["looked_at"], back_to=first["back_to"])

    async def counts(self, by: Literal["queue", "task"] | None = None) -> dict[tuple[str, State], int]:
        found = Counter[tuple[str, State]]()
        for row in await self._search("counts", by):  # a blocked job awaits a signal, or other jobs: these are two rows
            found[row["name"], rows.state_of(row)] += row["number"]
        return dict(found)

    async def workers(self) -> tuple[LeaseView, ...]:
        return readable(rows.lease_of, await self._fetch("workers"))

    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        asked = _texts(tasks), _texts(queues), *takes(isolated)
        ((wait, has_limits),) = await self._fetch("next_due", *asked)
        if has_limits:
            used = uses.uses_of(uses.kept_of(await self._fetch("limits")), await self._fetch("limit_uses"))
            wait = uses.wait_of(await self._fetch("next_due_ranges", *asked), used)
        return None if wait is None else max(0.0, wait / 1e6)

    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        found = await self._fetch("due", _texts(tasks), _texts(queues), *takes(isolated), round(age * 1e6), limit)
        return tuple(DueJob(job, queue, number) for job, queue, number in found)

    async def queues(self) -> tuple[QueueView, ...]:
        views: dict[str, QueueView] = {}
        for row in await self._search("queues"):
            view = views.setdefault(row["name"], rows.queue_of(row))
            if row["state"] is not None:
                state = rows.state_of(row)
                view.counts[state] = view.counts.get(state, 0) + row["number"]
        return tuple(views.values())

    async def waiting_tasks(self) -> tuple[str, ...]:
        return tuple(name for (name,) in await self._fetch("waiting_tasks"))


def _attempt_of(row: Row) -> AttemptRecord:
    return rows.attempt_of({name: row[f"attempt_{name}"] for name in _ATTEMPT})


def _texts(names: Sequence[str] | None) -> Sequence[str | None] | None:
    return None if names is None else [storable_text(name) for name in names]

"""The verbs that read: each is one statement, so that it sees pending, active and finished jobs in one snapshot."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import MOST_ATTEMPTS, DueJob, LeaseView, QueueView, due_in
from holdfast._core.error_groups import ErrorList
from holdfast._core.job import PLACE_OF, State
from holdfast._core.record import AttemptRecord, JobRecord
from holdfast._core.requests import IsolatedJobs, JobFilter, several
from holdfast._core.schedule import tag_of
from holdfast._core.text import in_lower_case, json_part, json_text, storable_text
from holdfast.databases.readable import readable
from holdfast.stores.postgres import limit_uses as uses
from holdfast.stores.postgres import records as rows
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.parameters import takes
from holdfast.stores.postgres.records import Row

_ATTEMPT: Final = (
    *("job", "claim_id", "claim_number", "attempt", "worker", "outcome", "error", "started_at", "ended_at", "signal", "stacks"),
    *("late_result", "points", "rescued_by", "late_at"),
)
_STORED: Final = {State.SCHEDULED: (State.AVAILABLE,), State.BLOCKED: (State.AVAILABLE, State.BLOCKED)}
"""The states as rows have them of a job that is shown in this state."""


def conditions_of(which: JobFilter) -> tuple[object, ...]:
    """Return the parameters of ``parts/matching.sql``."""
    states, tags = several(which.state), several(which.tag)
    return (
        None if states is None else [*{PLACE_OF[state].value for state in states}],
        None if states is None else [*{stored for state in states for stored in _STORED.get(state, (state,))}],
        states,
        _texts(several(which.task)),
        _texts(several(which.queue)),
        several(which.reason),
        _texts(several(which.worker)),
        which.workflow,
        which.is_rescued,
        which.up_to,
        None if which.text is None else in_lower_case(json_part(which.text)),
        None if tags is None else [json_text(tag) for tag in tags],
        None if which.schedule is None else json_text(tag_of(which.schedule)),
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

    _has_waiting = False  # any job, as the last look had it

    async def get(self, job: UUID) -> JobRecord | None:
        found = await self._fetch("get", job, MOST_ATTEMPTS)
        if not found:
            return None
        return rows.record_of(found[0], tuple(_attempt_of(row) for row in found if row["attempt_job"] is not None))

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        name = "roots" if which.only_workflows else "list"
        conditions = conditions_of(structs.replace(which, only_workflows=False))
        found = await self._search(name, which.before, which.down_to, *conditions, which.limit, which.skip)
        return readable(rows.record_of, found)

    async def errors(self, look: int, limit: int) -> ErrorList:
        found = await self._search("errors", look, limit)
        if not found:
            return ErrorList()
        first = found[0]
        groups = readable(rows.error_group_of, found)
        return ErrorList(groups=groups, kinds=first["kinds"], looked_at=first["looked_at"], back_to=first["back_to"])

    async def counts(self, by: Literal["queue", "task"] | None = None, most: int | None = None) -> dict[tuple[str, State], int]:
        found = Counter[tuple[str, State]]()
        for row in await self._search(
            "counts", by, None if most is None else most + 1
        ):  # a blocked job awaits a signal, or other jobs: these are two rows
            found[row["name"], rows.state_of(row)] += row["number"]
        return dict(found)

    async def workers(self) -> tuple[LeaseView, ...]:
        return readable(rows.lease_of, await self._fetch("workers"))

    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        asked = _texts(tasks), _texts(queues), *takes(isolated)
        # Of an idle worker this costs a server 0.15 ms of CPU, and the read of all lanes 0.4 ms.
        if not self._has_waiting and not (await self._fetch("has_waiting", asked[0]))[0][0]:
            return None
        ((wait, self._has_waiting, is_cut, has_limits),) = await self._fetch("next_due", *asked)
        if has_limits:
            used = uses.uses_of(uses.kept_of(await self._fetch("limits")), await self._fetch("limit_uses"))
            wait = uses.wait_of(await self._fetch("next_due_ranges", *asked), used)
        return due_in(wait, is_cut=is_cut)

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

    async def queues(self, most: int | None = None) -> tuple[QueueView, ...]:
        views: dict[str, QueueView] = {}
        for row in await self._search("queues", None if most is None else most + 1):
            view = views.setdefault(row["name"], rows.queue_of(row))
            if row["state"] is not None:
                state = rows.state_of(row)
                view.counts[state] = view.counts.get(state, 0) + row["number"]
        return tuple(views.values())

    async def estimates(self) -> dict[State, int]:
        found: dict[str, int] = {row["kind"]: row["number"] for row in await self._fetch("estimates")}
        bad = {state: found.get(state, 0) for state in (State.FAILED, State.CANCELLED)}
        completed = found.get("all", 0) - sum(bad.values())
        return {State.COMPLETED: completed, **bad} if completed > 0 else {}

    async def waiting_tasks(self) -> tuple[str, ...]:
        return tuple(name for (name,) in await self._fetch("waiting_tasks"))


def _attempt_of(row: Row) -> AttemptRecord:
    return rows.attempt_of({name: row[f"attempt_{name}"] for name in _ATTEMPT})


def _texts(names: Sequence[str] | None) -> Sequence[str | None] | None:
    return None if names is None else [storable_text(name) for name in names]

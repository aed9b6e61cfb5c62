"""Pages of jobs that look at a bounded number of them, and report how far back they looked."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import State
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter, several
from holdfast._core.view import JobView
from holdfast._engine.client.client import Client
from holdfast._engine.operators.operators import Jobs
from holdfast._engine.operators.where import Where

MOST_LOOKED: Final = 50_000
"""The jobs that one page looks at to find those that meet rare conditions."""
_INDEXED: Final = frozenset(State) - {State.COMPLETED}


class Look(Struct, frozen=True):
    """Matching jobs, newest first. ``back_to``: the job at which the look has ended before it found as many as were asked for; the next
    look goes on after it. None: there is nothing more to look at, or the page is full."""

    jobs: Sequence[JobView]
    back_to: JobView | None = None


async def alook(jobs: Jobs, where: Where, limit: int, cursor: UUID | None = None, *, most: int) -> Look:
    """Return a page of matching jobs from the newest ``most`` ones after the cursor."""
    client, which = jobs._connect(), where.filter(limit, before=cursor)
    if _is_quick(which):
        return Look(await client.list(which))
    last = await _last_of(client, cursor, most)
    found = await client.list(which if last is None else structs.replace(which, down_to=last.id))
    return Look(found, JobView.of(last) if last is not None and len(found) < limit else None)


async def newest(client: Client, which: JobFilter, *, most: int) -> list[JobView]:
    """Return matching jobs among the newest ``most`` ones."""
    last = await _last_of(client, which.before, most)
    return await client.list(which if last is None else structs.replace(which, down_to=last.id))


def _is_quick(which: JobFilter) -> bool:
    """Return whether an index leads to the jobs, or all jobs match."""
    if which == JobFilter(limit=which.limit, before=which.before, state=which.state):
        return which.state is None or _INDEXED.issuperset(several(which.state) or ())
    return which.error_key is not None


async def _last_of(client: Client, cursor: UUID | None, most: int) -> JobRecord | None:
    rows = await client.page(JobFilter(before=cursor, skip=most - 1, limit=1))
    return rows[0] if rows else None

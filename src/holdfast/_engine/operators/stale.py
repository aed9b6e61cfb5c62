"""Which jobs a recovery would look at now: a report that changes nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

from holdfast._ports.store import Store

MOST_LEASES, MOST_JOBS = 1000, 10_000
WHYS: Final = ("expired", "ended", "overdue")

Why = Literal["expired", "ended", "overdue"]


class StaleJob(Struct, frozen=True):
    """A job whose owner may have lost its right. ``why``: its lease has ``expired`` or ``ended``, or it is ``overdue``, past a limit."""

    id: UUID
    task: str
    worker: str
    attempt: int
    why: Why


async def stale(store: Store) -> Sequence[StaleJob]:
    """Return the jobs of leases that have expired or ended, and of live ones that are past a limit of their task.

    After an outage every lease looks expired, and its worker may still renew it: recovery waits before it judges, this report does not.
    """
    found = list[StaleJob]()
    for lease in await store.expired(MOST_LEASES):
        why: Why = "expired" if lease.end is None else "ended"
        jobs = await store.held(lease.id, MOST_JOBS - len(found))
        found += [StaleJob(job.id, job.task, lease.worker, job.attempt, why) for job in jobs]
        if len(found) >= MOST_JOBS:
            return found
    late = await store.overdue(MOST_JOBS - len(found))
    known = {each.id for each in found}
    found += [
        StaleJob(each.job.id, each.job.task, each.worker, each.job.attempt, "overdue")
        for each in late
        if each.job.id not in known
    ]
    return found


def by_task(jobs: Sequence[StaleJob]) -> dict[str, dict[str, int]]:
    """Count stale jobs by task, and why they are stale, zeros included."""
    counted = Counter((job.task, job.why) for job in jobs)
    return {task: {why: counted[task, why] for why in WHYS} for task in sorted({job.task for job in jobs})}

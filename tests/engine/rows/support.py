"""Helpers of the tests of runs and batches."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from holdfast import Batch, State
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.record import JobRecord
from holdfast._core.requests import IsolatedJobs, NewLease
from tests.engine.rows.rows_worker import Garden
from tests.engine.support import LEASE, OTHER

Handler = Callable[[Batch], Awaitable[None]]


def result(row: JobRecord) -> dict[str, int]:
    """What the run has counted; one that rests counts on when it is tried again."""
    said = json.loads(row.result or row.checkpoint or b"{}")
    found: dict[str, int] = said.get("so_far", said)
    return found


async def finish_all(batch: Batch) -> None:
    await batch.done(batch.keys)


async def again(garden: Garden, job: UUID, ended: int = 2) -> JobRecord:
    """The run once its next try has ended, an interval later and not before."""
    garden.clock.advance(4.9)
    garden.beat()
    await garden.memory.beat([LEASE.id])
    await garden.exchange.step()
    assert not garden.executor.running
    garden.clock.advance(0.2)
    garden.beat()
    await garden.exchange.step()
    await garden.until_ended(ended)
    await garden.settle()
    return await garden.row(job)


async def tried(garden: Garden, runs: int = 1) -> list[JobRecord]:
    """So many runs, each through all of its attempts."""
    ended, found = 0, list[JobRecord]()
    for _ in range(runs):
        (job,) = await garden.start()
        await garden.until_ended(ended := ended + 1)
        await garden.settle()
        row = await garden.row(job)
        while row.state is State.SCHEDULED:
            row = await again(garden, job, ended := ended + 1)
        found.append(row)
    return found


def picky(calls: list[int], *poison: int) -> Handler:
    """A handler that raises when one of these rows is in its batch."""

    async def handler(batch: Batch) -> None:
        calls.append(len(batch))
        if bad := set(batch.keys) & {*poison}:
            raise ValueError(f"row {min(bad)} is broken")
        await batch.done(batch.keys)

    return handler


AS_IT_IS_KNOWN: list[dict[str, Any]] = [{}, {"tells_stamps": True}, {"owner": "holder"}]
"""When a claim's mark is known: with its answer, or before."""


ENDING: dict[str, Any] = {"resets": "resets", "max_resets": 2, "failed": "bad", "reason": "why"}


async def completes(handler: Handler, **options: Any) -> None:
    row = await Garden(handler, **options).run_once()
    assert row.state is State.COMPLETED, row.error


async def die(
    garden: Garden, handler: Handler = finish_all, *, lease: NewLease = LEASE, heir: NewLease = OTHER, **options: Any
) -> Garden:
    """The worker is killed, and another one has its jobs; the table and the store are the same."""
    why = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
    await garden.memory.end_lease(lease.id, why)
    await garden.memory.exchange([rescue(hold, why, jitter=0.0) for hold in await garden.memory.held(lease.id)])
    other = Garden(handler, **options)
    other.table, other.plain, other.memory, other.store.store = garden.table, garden.plain, garden.memory, garden.memory
    await other.memory.open_lease(heir)
    other.exchange = other.open_exchange(heir, IsolatedJobs.INCLUDE)
    return other

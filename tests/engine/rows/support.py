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
from tests.engine.rows.rows_worker import RowsWorker
from tests.engine.support import LEASE, OTHER

Handler = Callable[[Batch], Awaitable[None]]


def result(row: JobRecord) -> dict[str, int]:
    """Return what the run has counted; a run that snoozes keeps its counts for the next attempt."""
    counts = json.loads(row.result or row.checkpoint or b"{}")
    found: dict[str, int] = counts.get("so_far", counts)
    return found


async def finish_all(batch: Batch) -> None:
    await batch.done(batch.keys)


async def next_attempt(worker: RowsWorker, job: UUID, ended: int = 2) -> JobRecord:
    """Return the run once its next attempt has ended, which begins an interval later and not before."""
    worker.clock.advance(4.9)
    worker.beat()
    await worker.memory.beat([LEASE.id])
    await worker.exchange.step()
    assert not worker.executor.running
    worker.clock.advance(0.2)
    worker.beat()
    await worker.exchange.step()
    await worker.until_ended(ended)
    await worker.settle()
    return await worker.row(job)


async def run_to_end(worker: RowsWorker, runs: int = 1) -> list[JobRecord]:
    """Return N runs, each after all of its attempts."""
    ended, found = 0, list[JobRecord]()
    for _ in range(runs):
        (job,) = await worker.start()
        await worker.until_ended(ended := ended + 1)
        await worker.settle()
        row = await worker.row(job)
        while row.state is State.SCHEDULED:
            row = await next_attempt(worker, job, ended := ended + 1)
        found.append(row)
    return found


def raises_on(calls: list[int], *poison: int) -> Handler:
    """Return a handler that raises when one of these rows is in its batch."""

    async def handler(batch: Batch) -> None:
        calls.append(len(batch))
        if bad := set(batch.keys) & {*poison}:
            raise ValueError(f"row {min(bad)} is broken")
        await batch.done(batch.keys)

    return handler


FENCE_KNOWN: list[dict[str, Any]] = [{}, {"tells_stamps": True}, {"owner": "holder"}]
"""When the worker knows the fence of a claim: with its answer, or before it."""


ENDING: dict[str, Any] = {"resets": "resets", "max_resets": 2, "failed": "bad", "reason": "why"}


async def completes(handler: Handler, **options: Any) -> None:
    row = await RowsWorker(handler, **options).run_once()
    assert row.state is State.COMPLETED, row.error


async def die(
    worker: RowsWorker, handler: Handler = finish_all, *, lease: NewLease = LEASE, next_lease: NewLease = OTHER, **options: Any
) -> RowsWorker:
    """Kill the worker and return another one, which has its jobs, its table and its store."""
    reason = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
    await worker.memory.end_lease(lease.id, reason)
    await worker.memory.exchange([rescue(active, reason, jitter=0.0) for active in await worker.memory.held(lease.id)])
    other = RowsWorker(handler, **options)
    other.table, other.plain, other.memory, other.store.store = worker.table, worker.plain, worker.memory, worker.memory
    await other.memory.open_lease(next_lease)
    other.exchange = other.open_exchange(next_lease, IsolatedJobs.INCLUDE)
    return other

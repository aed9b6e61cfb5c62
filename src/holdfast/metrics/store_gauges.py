"""What the store holds now, read in bounded calls and kept for a few seconds, for all scrapers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.job import State
from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.requests import JobFilter
from holdfast._core.tallies import Series
from holdfast._engine.store_defaults import vitals
from holdfast.errors import HoldfastError, Unsupported
from holdfast.metrics.rows_gauges import Look, RowsGauges

if TYPE_CHECKING:
    from holdfast._engine.client.client import Client
    from holdfast._ports.clock import Clock

KEPT = 5.0
LONGEST = 2.0
"""Seconds in which the store has to answer all calls; beyond them it counts as down."""
MOST_QUEUES = 50
"""The queues with a backlog whose oldest job is looked for."""
STEPS = 12


class StoreGauges:
    """The gauges of one store. ``connect`` returns its client once it is open. ``tables``: the looks at the watched tables, by name."""

    def __init__(
        self, connect: "Callable[[], Client | None]", clock: "Clock", tables: Callable[[], Mapping[str, Look]] = dict
    ) -> None:
        self._connect, self._clock, self._rows = connect, clock, RowsGauges(tables, clock)
        self._read_at, self._found = float("-inf"), dict[Series, float]()
        self._reading = asyncio.Lock()

    async def read(self) -> dict[Series, float]:
        """Return the gauges, at most 5 s old. A store that does not answer shows as ``store_up 0``, and nothing else of it."""
        async with self._reading:
            if self._clock.monotonic() - self._read_at >= KEPT:
                self._found = await self._answered() | await self._rows.read()
                self._read_at = self._clock.monotonic()
        return self._found

    async def _answered(self) -> dict[Series, float]:
        client = self._connect()
        if client is None:
            return {}
        try:
            async with asyncio.timeout(LONGEST):
                found = await self._gauges(client)
        except (HoldfastError, TimeoutError):
            return {("store_up",): 0.0}
        return {**found, ("store_up",): 1.0}

    async def _gauges(self, client: "Client") -> dict[Series, float]:
        queues, leases = await client.queues(MOST_COUNTED), await client.workers()
        found: dict[Series, float] = {}
        for queue in queues:
            found |= {("jobs", queue.name, state.value): count for state, count in queue.counts.items()}
            found["queue_backlog", queue.name] = queue.counts.get(State.AVAILABLE, 0)
            found["queue_paused", queue.name] = queue.paused_at is not None
            found["queue_oldest_waiting_seconds", queue.name] = 0.0
        found |= await self._oldest(client, queues)
        found |= _of_workers(leases)
        known = {task for lease in leases if lease.end is None for task in lease.tasks}
        for task, counts in (await client.counts("task", MOST_COUNTED)).items():
            if task not in known and (waiting := counts.get(State.AVAILABLE.value, 0) + counts.get(State.SCHEDULED.value, 0)):
                found["jobs_without_worker", task] = waiting
        return found | await _of_limits(client) | await _of_schedules(client) | await _of_vitals(client)

    async def _oldest(self, client: "Client", queues: Sequence[QueueView]) -> dict[Series, float]:
        now = datetime.fromtimestamp(self._clock.wall()).astimezone()
        behind = [queue.name for queue in queues if queue.counts.get(State.AVAILABLE, 0)]
        return {
            ("queue_oldest_waiting_seconds", name): await longest_wait(client, name, now) for name in sorted(behind)[:MOST_QUEUES]
        }


async def longest_wait(client: "Client", queue: str, now: datetime) -> float:
    """Return for how long the job that is due for longest has waited, exact to a few percent.

    Stores list by age of the id, not of the wait. So this halves the time in which there is a job that is due for longer.
    """
    longest, beyond = 0.0, float("inf")
    for _ in range(STEPS):
        asked = max(2 * longest, 1.0) if beyond == float("inf") else (longest + beyond) / 2
        before = now - timedelta(seconds=asked)
        found = await client.page(JobFilter(queue=queue, state=State.AVAILABLE, available_before=before, limit=1))
        if found:
            longest = max(asked, (now - found[0].available_at).total_seconds())
        else:
            beyond = asked
        if beyond - longest <= 0.05 * longest or beyond <= 1.0:
            break
    return longest


def _of_workers(leases: Sequence[LeaseView]) -> dict[Series, float]:
    live = [lease for lease in leases if lease.end is None]
    states = Counter("silent" if each.overdue > 0 else "draining" if each.is_draining else "live" for each in live)
    return {("workers", state): float(states[state]) for state in ("live", "draining", "silent")}


async def _of_vitals(client: "Client") -> dict[Series, float]:
    found = await client.ask("vitals", vitals)
    if found is None:
        return {}
    return {("schema_version",): found.schema_version, ("prune_lag_seconds",): found.prune_lag}


async def _of_limits(client: "Client") -> dict[Series, float]:
    found: dict[Series, float] = {}
    try:
        limits = await client.limits()
    except Unsupported:
        return found
    for each in limits:
        if each.limit.concurrency is not None:
            found["limit_size", str(each.scope)] = each.limit.concurrency
        found["limit_in_use", str(each.scope)] = each.active
    return found


async def _of_schedules(client: "Client") -> dict[Series, float]:
    try:
        schedules = await client.schedules()
    except Unsupported:
        return {}
    return {
        ("schedule_lag_seconds", each.name): max(0.0, (schedules.now - each.next_at).total_seconds())
        for each in schedules.found
        if each.paused_at is None
    }

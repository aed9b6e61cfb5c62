"""The verbs of leases: open, renew and end them, and find those that are expired or overdue."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

from holdfast._core.answers import BeatAnswer, BeatView, LeaseView, OverdueJob
from holdfast._core.audit import AuditNote
from holdfast._core.encoding import end_of
from holdfast._core.job import ActiveJob
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.reading import first_readable
from holdfast._core.requests import BeatNote, NewLease
from holdfast._core.text import json_text, storable_text
from holdfast.databases.postgres.database import BEAT_LIMIT
from holdfast.databases.readable import readable
from holdfast.stores.postgres import records as rows
from holdfast.stores.postgres.database import StoreDatabase

SHORTEST_BEAT_LIMIT: Final = 0.5

_NOTED: Final = ("lease", "running", "claimed", "memory", "loop_lag", "silence", "kept")


class Leases(StoreDatabase):
    """The part of the store that has the verbs of leases in ``_ports.store``."""

    async def open_lease(self, lease: NewLease) -> bool:
        # A beat without an answer must leave time for another one.
        self._beat_limit = min(self._beat_limit, max(SHORTEST_BEAT_LIMIT, min(lease.timing.beat, BEAT_LIMIT)))
        found = await self._beat_fetch(
            "open_lease",
            lease.id,
            storable_text(lease.worker),
            json_text(lease.process),
            json_text(lease.timing),
            lease.timing.ttl,
            lease.grace,
            json_text(lease.queues),
            json_text(lease.tasks),
            lease.slots,
            lease.is_isolated,
            json_text(lease.declares),
        )
        return bool(found)

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        columns = ([getattr(note, name) for note in notes] for name in _NOTED)
        found = await self._beat_fetch("beat_noted" if notes else "beat", list(leases), draining, *(columns if notes else ()))
        alive = {row["id"]: row["elapsed"] / 1e6 for row in found if row["elapsed"] is not None}
        marked = defaultdict[UUID, list[UUID]](list)
        for row in found:
            if row["job"] is not None:
                marked[row["id"]].append(row["job"])
        return BeatAnswer(
            alive=frozenset(alive),
            gone=frozenset(leases).difference(row["id"] for row in found),
            cancelled={lease: tuple(jobs) for lease, jobs in marked.items()},
            elapsed=max(alive.values(), default=None),
            draining=frozenset(row["id"] for row in found if row["is_draining"]),
        )

    async def request_drain(self, lease: UUID, *, by: AuditNote | None = None) -> bool:
        def count(found: Sequence[rows.Row]) -> int | None:
            return int(not found[0]["was_draining"]) if found else None

        return bool(await self._fetch_by(by, count, "request_drain", lease))

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        while True:
            found = await self._fetch("end_lease", lease, json_text(why), "{}", seen)
            if found:
                return end_of(found[0]["end_reason"], is_draining=bool(found[0]["is_draining"]))
            if seen is not None:
                return None
            # Another session has ended the lease during this statement: the next one sees that.

    async def start_through(self, lease: UUID, number: int, voids: int) -> bool:
        return bool(await self._fetch("start_through", lease, number, voids))

    async def void(self, lease: UUID, voids: int) -> int | None:
        found = await self._fetch("void", lease, voids)
        return int(found[0]["started"]) if found else None

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        return await first_readable(partial(self._fetch, "held", lease), partial(readable, rows.active_job_of), limit)

    async def worker_history(self, worker: str, limit: int) -> tuple[BeatView, ...]:
        return readable(rows.beat_of, await self._fetch("worker_history", storable_text(worker), limit))

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        return await first_readable(partial(self._fetch, "expired"), partial(readable, rows.lease_of), limit)

    async def overdue(self, limit: int) -> tuple[OverdueJob, ...]:
        await self._fetch("mark_counted", False)
        return await first_readable(partial(self._fetch, "overdue"), partial(readable, rows.overdue_of), limit)

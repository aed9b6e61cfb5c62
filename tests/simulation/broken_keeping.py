"""Stores with one guard taken out of what is not owning: enqueuing, unique keys, operators, retention, hooks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer, Pruned, ReopenAnswer
from holdfast._core.job import PLACE_OF, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.record import JobRecord, new_record, reopened
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from proof.checker.hooks import HookedStore

Under = tuple[UUID, Token] | None


class ReopenResetsNumber(MemoryStore):
    """An operator's retry starts the claim numbers anew."""

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        answer = await super().reopen(ids)
        for row in self._rows(ids):
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, token=Token(None, 0)))
        return answer


class EnqueueWithoutReceipt(MemoryStore):
    """A second copy of an enqueue inserts again."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        for job in jobs:
            self._put(new_record(job, self._now()))
        return EnqueueAnswer()


class EnqueueLosesLast(MemoryStore):
    """The last job of a batch is acknowledged and not written."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        return await super().enqueue(call, jobs[:-1] if len(jobs) > 1 else jobs, under=under)


class CancelFinished(MemoryStore):
    """A cancellation does not look whether the job has finished."""

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            if row.state in (State.COMPLETED, State.FAILED):
                self._put(structs.replace(row, state=State.CANCELLED))
        return await super().request_cancel(ids)


class CancelMissesMoving(MemoryStore):
    """Whoever cancels looks for the job where it was a moment ago."""

    def _put(self, row: JobRecord) -> None:
        old = self._all.jobs.get(row.id)
        if old is not None and PLACE_OF[old.state] is not PLACE_OF[row.state]:
            self._moved = {**getattr(self, "_moved", {}), row.id: self._now()}
        super()._put(row)

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        moved, moment = getattr(self, "_moved", {}), self._now() - timedelta(seconds=1)
        await super().request_cancel([job for job in ids if job not in moved or moved[job] < moment])
        return self._states(ids)


class CancelAtOnce(MemoryStore):
    """A cancellation ends what runs, without waiting for its code."""

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is Place.ACTIVE:
                ended = structs.replace(row, state=State.CANCELLED, reason=Reason.BY_OPERATOR, finished_at=self._now())
                self._put(structs.replace(ended, lease=None))
        return await super().request_cancel(ids)


class ReopenOwned(MemoryStore):
    """An operator's retry takes what runs from its owner."""

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is Place.ACTIVE:
                self._put(reopened(row, self._now()))
        return await super().reopen(ids)


class ReopenForgets(MemoryStore):
    """An operator's retry forgets what the last attempt was told."""

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        tokens = {row.id: row.token for row in self._rows(ids)}
        answer = await super().reopen(ids)
        for job, token in tokens.items():
            self._all.attempts.get(job, {}).pop(token, None)
        return answer


class DeleteOwned(MemoryStore):
    """An operator deletes what runs."""

    async def delete(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            self._forget(row)
        return {}


class RescheduleFinished(MemoryStore):
    """Rescheduling wakes what has finished."""

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is Place.FINISHED and row.unique_key is None:
                self._put(reopened(row, self._now()))
        return await super().reschedule(ids, delay=delay, run_at=run_at)


class EnqueueInParts(MemoryStore):
    """The first half of a batch is written and acknowledged to nobody; the rest when it is sent again."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        half = len(jobs) // 2
        if half and jobs[0].id not in self._all.jobs and call not in self._all.receipts:
            self._insert(jobs[:half])
            raise StoreUnavailable("enqueue: the connection broke in the midst of it")
        return await super().enqueue(call, [job for job in jobs if job.id not in self._all.jobs], under=under)


class ChildUnfenced(MemoryStore):
    """A child is written whoever owns its parent by now."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        return await super().enqueue(call, jobs)


class KeyNotFreed(MemoryStore):
    """A finished job keeps its key until somebody else finishes one."""

    def _holder(self, row: JobRecord) -> JobRecord | None:
        ended = (old for old in self._all.jobs.values() if PLACE_OF[old.state] is Place.FINISHED and old.id != row.id)
        keyed = (old for old in ended if row.unique_key is not None and (old.task, old.unique_key) == (row.task, row.unique_key))
        return super()._holder(row) or next(keyed, None)


class KeyLookedUpEarlier(MemoryStore):
    """Whoever enqueues looks who has the key, and writes a moment later."""

    def _holder(self, row: JobRecord) -> JobRecord | None:
        holder = super()._holder(row)
        is_new = holder is not None and (self._now() - holder.created_at).total_seconds() < 1.0
        return None if is_new else holder

    def _take_from_indexes(self, row: JobRecord) -> None:
        if row.unique_key is not None:
            self._all.keys.setdefault((row.task, row.unique_key), row.id)
        super()._take_from_indexes(row)


class KeyFreedByClaim(MemoryStore):
    """A key is free again as soon as its job runs."""

    def _put(self, row: JobRecord) -> None:
        super()._put(row)
        if row.unique_key is not None and PLACE_OF[row.state] is Place.ACTIVE:
            self._all.keys.pop((row.task, row.unique_key), None)

    def _take_from_indexes(self, row: JobRecord) -> None:
        key = (row.task, row.unique_key or "")
        holder = self._all.keys.pop(key, None)
        if row.unique_key is not None:
            self._all.keys[key] = row.id
        super()._take_from_indexes(row)
        if holder is not None and holder != row.id:
            self._all.keys[key] = holder


class ReopenIgnoresKey(KeyLookedUpEarlier):
    """A job comes back although another one was given its key."""

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        rows = [row for row in self._rows(ids) if PLACE_OF[row.state] is Place.FINISHED and row.unique_key is not None]
        for row in rows:
            self._all.keys.pop((row.task, str(row.unique_key)), None)
        return await super().reopen(ids)

    def _holder(self, row: JobRecord) -> JobRecord | None:
        return MemoryStore._holder(self, row)


class PruneEarly(MemoryStore):
    """Pruning does not know the floor."""

    async def prune(self, limit: int) -> Pruned:
        floor, self.floor = self.floor, 1.0
        try:
            return await super().prune(limit)
        finally:
            self.floor = floor


class LeaseForgotten(MemoryStore):
    """Pruning forgets an ended lease as soon as nothing is held under it."""

    async def prune(self, limit: int) -> Pruned:
        for lease, known in list(self._all.leases.items()):
            if known.end is not None and not self._all.holds.get(lease):
                del self._all.leases[lease]
        return await super().prune(limit)


class ReceiptForgotten(MemoryStore):
    """Pruning forgets a receipt at once."""

    async def prune(self, limit: int) -> Pruned:
        self._all.receipts.clear()
        return await super().prune(limit)


class ExpireEarly(MemoryStore):
    """Whatever may expire one day is failed."""

    async def expire(self, limit: int) -> Any:
        rows = [row for row in self._all.jobs.values() if row.expires_at is not None and row.attempt == 0]
        for row in rows:
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, state=State.FAILED, reason=Reason.EXPIRED, finished_at=self._now()))
        return ()


class RescueOwesNothing(HookedStore):
    """Who rescues a job forgets that its task has a hook."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        return super()._settle(structs.replace(transition, owes_hook=False), now)


class MarkGoesFirst(HookedStore):
    """The mark is taken away when a hook begins, its rows land when it ends."""

    @asynccontextmanager
    async def transaction(  # type: ignore[override]
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AsyncIterator[list[str]]:
        self._heal(self._require_mark(job, token, hook_due_at), token, [])
        written: list[str] = []
        yield written
        self.rows[job] += written


class HealUnfenced(HookedStore):
    """A hook that has begun commits, whatever has become of its job."""

    @asynccontextmanager
    async def transaction(  # type: ignore[override]
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AsyncIterator[list[str]]:
        self._require_mark(job, token, hook_due_at)
        written: list[str] = []
        yield written
        if job in self._all.jobs:
            self._heal(self._all.jobs[job], token, written)

"""Stores with one missing guard outside of ownership: of enqueuing, unique keys, operators, retention or hooks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer, Pruned, ReopenAnswer
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.job import PLACE_OF, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.record import JobRecord, new_record, reopened
from holdfast.errors import StoreUnavailable
from proof.checker.hooks import HookedBook

Under = tuple[UUID, Token] | None


class ReopenResetsNumber(Book):
    """An operator's retry starts the claim numbers again."""

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        answer = super().reopen(now, ids, is_fresh=is_fresh)
        for row in self._rows(ids):
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, token=Token(None, 0)))
        return answer


class EnqueueWithoutReceipt(Book):
    """A second copy of an enqueue inserts again."""

    def enqueue(self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        for job in jobs:
            self._put(new_record(job, now.wall))
        return EnqueueAnswer()


class EnqueueLosesLast(Book):
    """The last job of a batch is acknowledged and not written."""

    def enqueue(self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        return super().enqueue(now, call, jobs[:-1] if len(jobs) > 1 else jobs, under=under)


class CancelFinished(Book):
    """A cancellation does not check whether the job has finished."""

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            if row.state in (State.COMPLETED, State.FAILED):
                self._put(structs.replace(row, state=State.CANCELLED))
        return super().request_cancel(now, ids)


class CancelMissesMoving(Book):
    """A cancellation looks for a job in the table in which it was a moment ago."""

    def _put(self, row: JobRecord) -> None:
        old = self._all.jobs.get(row.id)
        if old is not None and PLACE_OF[old.state] is not PLACE_OF[row.state]:
            self._moved = {**getattr(self, "_moved", {}), row.id: _wall(self)}
        super()._put(row)

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        moved, moment = getattr(self, "_moved", {}), now.wall - timedelta(seconds=1)
        super().request_cancel(now, [job for job in ids if job not in moved or moved[job] < moment])
        return self._states(ids, now)


class CancelAtOnce(Book):
    """A cancellation ends a running job, without waiting for its code."""

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is Place.ACTIVE:
                ended = structs.replace(row, state=State.CANCELLED, reason=Reason.BY_OPERATOR, finished_at=now.wall)
                self._put(structs.replace(ended, lease=None))
        return super().request_cancel(now, ids)


class ReopenOwned(Book):
    """An operator's retry takes a running job from its owner."""

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is Place.ACTIVE:
                self._put(reopened(row, now.wall))
        return super().reopen(now, ids, is_fresh=is_fresh)


class ReopenForgets(Book):
    """An operator's retry forgets the answer to the last attempt."""

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        tokens = {row.id: row.token for row in self._rows(ids)}
        answer = super().reopen(now, ids, is_fresh=is_fresh)
        for job, token in tokens.items():
            self._all.attempts.get(job, {}).pop(token, None)
        return answer


class DeleteOwned(Book):
    """An operator deletes a running job."""

    def delete(self, now: Moment, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        for row in self._rows(ids):
            self._forget(row)
        return {}


class RescheduleFinished(Book):
    """Rescheduling wakes a finished job."""

    def reschedule(
        self, now: Moment, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None
    ) -> dict[UUID, State]:
        for row in self._rows(ids):
            if PLACE_OF[row.state] is Place.FINISHED and row.unique_key is None:
                self._put(reopened(row, now.wall))
        return super().reschedule(now, ids, delay=delay, run_at=run_at)


class EnqueueInParts(Book):
    """The first half of a batch is written without an acknowledgement, and the rest when the call is sent again."""

    def enqueue(self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        half = len(jobs) // 2
        if half and jobs[0].id not in self._all.jobs and call not in self._all.receipts:
            self._insert(jobs[:half], now)
            raise StoreUnavailable("enqueue: the connection broke in the middle of it")
        return super().enqueue(now, call, [job for job in jobs if job.id not in self._all.jobs], under=under)


class ChildUnfenced(Book):
    """A child is written, although its parent may have another owner by now."""

    def enqueue(self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: Under = None) -> EnqueueAnswer:
        return super().enqueue(now, call, jobs)


class KeyNotFreed(Book):
    """A finished job keeps its key."""

    def _holder(self, row: JobRecord, now: datetime) -> JobRecord | None:
        ended = (old for old in self._all.jobs.values() if PLACE_OF[old.state] is Place.FINISHED and old.id != row.id)
        keyed = (old for old in ended if row.unique_key is not None and (old.task, old.unique_key) == (row.task, row.unique_key))
        return super()._holder(row, now) or next(keyed, None)


class KeyLookedUpEarlier(Book):
    """An enqueue reads the holder of the key, and writes a moment later."""

    def _holder(self, row: JobRecord, now: datetime) -> JobRecord | None:
        holder = super()._holder(row, now)
        is_new = holder is not None and (_wall(self) - holder.created_at).total_seconds() < 1.0
        return None if is_new else holder


class PeriodIgnored(Book):
    """A job frees its key as soon as it has completed, although its period is not over."""

    def _holder(self, row: JobRecord, now: datetime) -> JobRecord | None:
        holder = super()._holder(row, now)
        return None if holder is not None and PLACE_OF[holder.state] is Place.FINISHED else holder


class KeyFreedBeforeClaim(Book):
    """A job that frees its key when it is claimed has freed it before."""

    def _holder(self, row: JobRecord, now: datetime) -> JobRecord | None:
        holder = super()._holder(row, now)
        return None if holder is not None and holder.uniqueness.until_started else holder


class KeyFreedByClaim(Book):
    """A key is free as soon as its job runs."""

    def _put(self, row: JobRecord) -> None:
        super()._put(row)
        if row.unique_key is not None and PLACE_OF[row.state] is Place.ACTIVE:
            self._all.keys.pop((row.task, row.unique_key), None)


class ReopenIgnoresKey(KeyLookedUpEarlier):
    """A retried job returns although another job has its key."""

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        rows = [row for row in self._rows(ids) if PLACE_OF[row.state] is Place.FINISHED and row.unique_key is not None]
        for row in rows:
            self._all.keys.pop((row.task, str(row.unique_key)), None)
        return super().reopen(now, ids, is_fresh=is_fresh)

    def _holder(self, row: JobRecord, now: datetime) -> JobRecord | None:
        return Book._holder(self, row, now)


class PruneEarly(Book):
    """Pruning ignores the retention floor."""

    def prune(self, now: Moment, limit: int) -> Pruned:
        floor, self.floor = self.floor, 1.0
        try:
            return super().prune(now, limit)
        finally:
            self.floor = floor


class LeaseForgotten(Book):
    """Pruning deletes an ended lease as soon as it has no jobs."""

    def prune(self, now: Moment, limit: int) -> Pruned:
        for lease, known in list(self._all.leases.items()):
            if known.end is not None and not self._all.holds.get(lease):
                del self._all.leases[lease]
        return super().prune(now, limit)


class ReceiptForgotten(Book):
    """Pruning deletes a receipt at once."""

    def prune(self, now: Moment, limit: int) -> Pruned:
        self._all.receipts.clear()
        return super().prune(now, limit)


class ExpireEarly(Book):
    """Every job that can expire is failed as expired at once."""

    def expire(self, now: Moment, limit: int) -> Any:
        rows = [row for row in self._all.jobs.values() if row.expires_at is not None and row.attempt == 0]
        for row in rows:
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, state=State.FAILED, reason=Reason.EXPIRED, finished_at=now.wall))
        return ()


class RescueWithoutHook(HookedBook):
    """A rescue forgets that the task of its job has a hook."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        return super()._settle(structs.replace(transition, owes_hook=False), now)


class HookEndsFirst(HookedBook):
    """A hook counts as complete when it begins, and its rows are written when it ends."""

    @contextmanager
    def hook(self, job: UUID, token: Token, hook_due_at: datetime | None) -> Iterator[list[str]]:
        self._complete_hook(self._require_due(job, token, hook_due_at), token, [])
        written: list[str] = []
        yield written
        self.rows[job] += written


class HookUnfenced(HookedBook):
    """A hook that has begun commits, although its job may have another owner by then."""

    @contextmanager
    def hook(self, job: UUID, token: Token, hook_due_at: datetime | None) -> Iterator[list[str]]:
        self._require_due(job, token, hook_due_at)
        written: list[str] = []
        yield written
        if job in self._all.jobs:
            self._complete_hook(self._all.jobs[job], token, written)


def _wall(book: Any) -> datetime:
    """The time of the store around a book, for methods that do not receive it."""
    wall: datetime = book.around.moment().wall
    return wall

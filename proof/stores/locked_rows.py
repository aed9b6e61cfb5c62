"""A book in which a foreign session may lock the rows of jobs; its answers are those of PostgreSQL."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer, ExchangeAnswer, ExpiredJob, OverdueJob, Pruned, Purged, ReopenAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.book.rows import Range, Waiting
from holdfast._core.job import Claim, NewJob, State, Token
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import Transition
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ClaimRequest, IsolatedJobs, ProgressUpdate
from holdfast.errors import StoreBusy


class LockedRows(Book):
    """A mixin before a book. A locked row stays in its table; an exclusively locked row does not change at all.

    A server waits for some locks before it reports them. Its answers and writes for other rows are the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._locked, self._fixed = Counter[UUID](), Counter[UUID]()
        self._is_claiming = self._is_skipping = False

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock the rows FOR UPDATE or FOR KEY SHARE; the returned function unlocks them."""
        kinds = (self._locked, self._fixed) if is_exclusive else (self._locked,)
        for kind in kinds:
            kind.update(jobs)
        return partial(self._unlock, kinds, jobs)

    @staticmethod
    def _unlock(kinds: Iterable[Counter[UUID]], jobs: Sequence[UUID]) -> None:
        for kind in kinds:
            kind.subtract(jobs)

    # moving

    def enqueue(
        self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None
    ) -> EnqueueAnswer:
        self._require_free("enqueue", [] if under is None else [under[0]], self._fixed)
        return super().enqueue(now, call, jobs, under=under)

    def exchange(self, now: Moment, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        is_busy = [bool(self._locked[each.job]) and self._active(each.job, each.token) is not None for each in transitions]
        found = super().exchange(now, [each for each, busy in zip(transitions, is_busy, strict=True) if not busy], request)
        others = iter(found.answers)
        return structs.replace(found, answers=tuple(Answer.BUSY if busy else next(others) for busy in is_busy))

    def start(self, now: Moment, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        self._require_free("start", [job for job, _ in tokens], self._fixed)
        return super().start(now, tokens)

    def report(self, now: Moment, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        lost = super().report(now, [each for each in updates if not self._fixed[each.job]])
        self._name_locked("report", [each.job for each in updates if self._active(each.job, each.token)], self._fixed, lost)
        return lost

    def annotate(self, now: Moment, notes: Sequence[AttemptNote]) -> None:
        super().annotate(now, [each for each in notes if not self._fixed[each.job]])
        self._name_locked("annotate", [each.job for each in notes], self._fixed)

    def hook(self, job: UUID, token: Token, hook_due_at: datetime | None) -> AbstractContextManager[list[str]]:
        self._require_free("transaction", [job], self._fixed)
        block: AbstractContextManager[list[str]] = super().hook(job, token, hook_due_at)  # type: ignore[misc]
        return block

    # operators

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        states = super().request_cancel(now, self._free(ids))
        self._name_locked("request_cancel", ids)
        return states

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        answer = super().reopen(now, self._free(ids), is_fresh=is_fresh)
        self._name_locked("reopen", ids)
        return answer

    def reschedule(
        self, now: Moment, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None
    ) -> dict[UUID, State]:
        states = super().reschedule(now, self._free(ids), delay=delay, run_at=run_at)
        self._name_locked("reschedule", ids)
        return states

    def delete(self, now: Moment, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        states = super().delete(now, self._free(ids), only_waiting=only_waiting)
        self._name_locked("delete", ids)
        return states

    # verbs that skip locked rows

    def purge(self, now: Moment, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
        with self._skip_locked():
            return super().purge(now, queue, limit, until, by=by)

    def expire(self, now: Moment, limit: int) -> tuple[ExpiredJob, ...]:
        with self._skip_locked():
            return super().expire(now, limit)

    def overdue(self, now: Moment, limit: int) -> tuple[OverdueJob, ...]:
        free = [each for each in super().overdue(now, limit + self._locked.total()) if not self._locked[each.job.id]]
        return tuple(free[:limit])

    def owed_hooks(self, now: Moment, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        with self._skip_locked():
            return super().owed_hooks(now, tasks, limit, pause=pause)

    def prune(self, now: Moment, limit: int) -> Pruned:
        with self._skip_locked():
            return super().prune(now, limit)

    def _claim(self, request: ClaimRequest, now: Moment) -> tuple[tuple[Claim, ...], Cursor, bool]:
        self._is_claiming = True
        try:
            return super()._claim(request, now)
        finally:
            self._is_claiming = False

    def _ranges(
        self, tasks: Collection[str], queues: Sequence[str] | None, isolated: IsolatedJobs, wall: datetime
    ) -> dict[Range, Iterator[Waiting]]:
        """Leave out locked rows for a claim only: it locks what it finds. A question when work is due includes locked jobs."""
        ranges = super()._ranges(tasks, queues, isolated, wall)
        if not self._is_claiming:
            return ranges
        return {range_: filter(lambda waiting: not self._locked[waiting[1]], found) for range_, found in ranges.items()}

    @contextmanager
    def _skip_locked(self) -> Iterator[None]:
        self._is_skipping = True
        try:
            yield
        finally:
            self._is_skipping = False

    def _each(self, ids: Iterable[UUID]) -> Iterator[JobRecord]:
        rows = super()._each(ids)
        return (row for row in rows if not self._locked[row.id]) if self._is_skipping else rows

    def _free(self, ids: Sequence[UUID]) -> list[UUID]:
        return [job for job in ids if not self._locked[job]]

    def _require_free(self, verb: str, ids: Sequence[UUID], kind: Counter[UUID]) -> None:
        if any(kind[job] for job in ids):
            raise StoreBusy(f"{verb}: another session keeps a lock")

    def _name_locked(
        self, verb: str, ids: Iterable[UUID], kind: Counter[UUID] | None = None, lost: frozenset[UUID] = frozenset()
    ) -> None:
        locked = self._locked if kind is None else kind
        if jobs := frozenset(job for job in ids if locked[job] and job in self._all.jobs):
            raise StoreBusy(f"{verb}: {len(jobs)} jobs are locked by another session", jobs, lost)

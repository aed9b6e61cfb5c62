"""A memory store in which a stranger's session may have rows of jobs locked, and which answers as PostgreSQL does then."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer, ExchangeAnswer, ExpiredJob, Pruned, Purged, ReopenAnswer
from holdfast._core.job import Claim, NewJob, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ClaimRequest, IsolatedJobs, ProgressUpdate
from holdfast.errors import StoreBusy
from holdfast.stores.memory import MemoryStore, Range, Waiting


class LockedRows(MemoryStore):
    """Put it before a memory store. A row that is locked stays where it is, and one that is locked exclusively as it is.

    A server waits for some locks before it says so; what it says and does for other rows is the same.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._locked, self._fixed = Counter[UUID](), Counter[UUID]()
        self._is_claiming = False

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """FOR UPDATE or FOR KEY SHARE; until the answer is called."""
        kinds = (self._locked, self._fixed) if is_exclusive else (self._locked,)
        for kind in kinds:
            kind.update(jobs)
        return partial(self._unlock, kinds, jobs)

    @staticmethod
    def _unlock(kinds: Iterable[Counter[UUID]], jobs: Sequence[UUID]) -> None:
        for kind in kinds:
            kind.subtract(jobs)

    # moving

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        self._require_free("enqueue", [] if under is None else [under[0]], self._fixed)
        return await super().enqueue(call, jobs, under=under)

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        is_busy = [bool(self._locked[each.job]) and self._active(each.job, each.token) is not None for each in transitions]
        found = await super().exchange([each for each, busy in zip(transitions, is_busy, strict=True) if not busy], request)
        said = iter(found.answers)
        return structs.replace(found, answers=tuple(Answer.BUSY if busy else next(said) for busy in is_busy))

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        self._require_free("start", [job for job, _ in tokens], self._fixed)
        return await super().start(tokens)

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        lost = await super().report([each for each in updates if not self._fixed[each.job]])
        self._name_locked("report", [each.job for each in updates if self._active(each.job, each.token)], self._fixed, lost)
        return lost

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        await super().annotate([each for each in notes if not self._fixed[each.job]])
        self._name_locked("annotate", [each.job for each in notes], self._fixed)

    def transaction(  # type: ignore[override]
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        self._require_free("transaction", [job], self._fixed)
        return super().transaction(job, token, idle=idle, hook_due_at=hook_due_at)

    # operators

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        states = await super().request_cancel(self._free(ids))
        self._name_locked("request_cancel", ids)
        return states

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        answer = await super().reopen(self._free(ids))
        self._name_locked("reopen", ids)
        return answer

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        states = await super().reschedule(self._free(ids), delay=delay, run_at=run_at)
        self._name_locked("reschedule", ids)
        return states

    async def delete(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        states = await super().delete(self._free(ids))
        self._name_locked("delete", ids)
        return states

    # what passes locked rows by

    async def purge(self, queue: str, limit: int, until: datetime | None = None) -> Purged:
        with self._passing_by():
            return await super().purge(queue, limit, until)

    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        with self._passing_by():
            return await super().expire(limit)

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        with self._passing_by():
            return await super().owed_hooks(tasks, limit, pause=pause)

    async def prune(self, limit: int) -> Pruned:
        with self._passing_by():
            return await super().prune(limit)

    def _claim(self, request: ClaimRequest, now: datetime) -> tuple[Claim, ...]:
        self._is_claiming = True
        try:
            return super()._claim(request, now)
        finally:
            self._is_claiming = False

    def _ranges(
        self, tasks: Collection[str], queues: Sequence[str] | None, isolated: IsolatedJobs, now: datetime
    ) -> dict[Range, Iterator[Waiting]]:
        """Only a claim locks what it finds: whoever asks when work is due is told of locked jobs too."""
        ranges = super()._ranges(tasks, queues, isolated, now)
        if not self._is_claiming:
            return ranges
        return {which: filter(lambda waiting: not self._locked[waiting[1]], found) for which, found in ranges.items()}

    @contextmanager
    def _passing_by(self) -> Iterator[None]:
        jobs, locked = self._all.jobs, {job: row for job, row in self._all.jobs.items() if self._locked[job]}
        for job in locked:
            del jobs[job]
        try:
            yield
        finally:
            jobs |= locked

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

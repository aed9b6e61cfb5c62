"""Stores with one guard taken out."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.job import PLACE_OF, Claim, JobRecord, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import Charge, Judge, LeaseEnd, Transition
from holdfast._core.rows import new_row
from holdfast._ports.store import (
    Answer,
    BeatAnswer,
    ClaimRequest,
    EnqueueAnswer,
    LastTries,
    NewLease,
    Pruned,
    ReopenAnswer,
    Update,
)
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.testing.hooks import HookedStore

NEVER = 1e9
Under = tuple[UUID, Token] | None


class SettleById(MemoryStore):
    """Whoever settles an active job moves it."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and PLACE_OF[row.state] is Place.ACTIVE:
            transition = structs.replace(transition, token=row.token)
        return super()._settle(transition, now)


class RescueById(MemoryStore):
    """A rescue moves whatever is active under an ended lease or not."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._all.jobs.get(transition.job)
        is_rescue = transition.judge is Judge.LEASE_ENDED
        if is_rescue and row is not None and PLACE_OF[row.state] is Place.ACTIVE:
            transition = structs.replace(transition, token=row.token, judge=Judge.OWNER)
        return super()._settle(transition, now)


class SettleByNumber(MemoryStore):
    """The claim number alone is the token."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and row.token.number == transition.token.number and row.token.claim is not None:
            transition = structs.replace(transition, token=row.token)
        return super()._settle(transition, now)


class SettleByWorker(MemoryStore):
    """The lease is enough: any claim of the same worker may settle."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._all.jobs.get(transition.job)
        known = getattr(self, "_owners", {})
        if row is not None and row.worker is not None and known.get(transition.token) == row.worker:
            transition = structs.replace(transition, token=row.token)
        return super()._settle(transition, now)

    def _take(self, row: Any, request: ClaimRequest, *, is_running: bool, worker: str) -> Claim:
        claim = super()._take(row, request, is_running=is_running, worker=worker)
        self._owners = {**getattr(self, "_owners", {}), claim.hold.token: worker}
        return claim


class ReportUnfenced(MemoryStore):
    """Progress lands on whoever owns the job."""

    async def report(self, updates: Sequence[Update]) -> frozenset[UUID]:
        jobs = self._all.jobs
        return await super().report(
            [structs.replace(each, token=jobs[each.job].token) if each.job in jobs else each for each in updates]
        )


class BeatRevives(MemoryStore):
    """A late beat brings an ended lease back."""

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        for lease in leases:
            if lease in self._all.leases:
                self._all.leases[lease] = structs.replace(self._all.leases[lease], end=None)
        return await super().beat(leases, draining=draining)


class OpenRevives(MemoryStore):
    """A late copy of its opening brings an ended lease back."""

    async def open_lease(self, lease: NewLease) -> bool:
        if lease.id in self._all.leases:
            self._all.leases[lease.id] = structs.replace(self._all.leases[lease.id], end=None)
        return await super().open_lease(lease)


class EndWithoutJudging(MemoryStore):
    """What looked expired when it was read is ended, though it was renewed since."""

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> Any:
        return await super().end_lease(lease, why)


class MoveBeforeEnd(MemoryStore):
    """A rescue moves the claims and leaves the lease alive."""

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> Any:
        before = self._all.leases.get(lease)
        answer = await super().end_lease(lease, why, seen=seen)
        if before is not None:
            self._all.leases[lease] = before
        return answer

    def _settle(self, transition: Transition, now: datetime) -> bool:
        return super()._settle(structs.replace(transition, judge=Judge.OWNER), now)


class ClaimFromStaleRead(MemoryStore):
    """The claim reads, then writes: what somebody took in between is taken again."""

    def _claim(self, request: ClaimRequest, now: datetime) -> tuple[Claim, ...]:
        lease = self._all.leases.get(request.lease)
        for row in self._all.jobs.values():
            is_fresh = row.state is State.RUNNING and row.claimed_at is not None and (now - row.claimed_at).total_seconds() < 0.05
            if lease is not None and is_fresh and row.lease != request.lease and row.task in request.tasks:
                return (self._take(row, request, is_running=True, worker=lease.spec.worker),)
        return super()._claim(request, now)


class ClaimForDeadLease(MemoryStore):
    """Nobody looks whether the lease still lives."""

    def _claim(self, request: ClaimRequest, now: datetime) -> tuple[Claim, ...]:
        lease = self._all.leases.get(request.lease)
        if lease is None:
            return ()
        self._all.leases[request.lease] = structs.replace(lease, end=None, expires=2**62)
        try:
            return super()._claim(request, now)
        finally:
            self._all.leases[request.lease] = lease


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
            self._put(new_row(job, self._now()))
        return EnqueueAnswer()


class CrashNotCounted(MemoryStore):
    """A rescue costs nothing."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and transition.judge is Judge.LEASE_ENDED:
            transition = structs.replace(transition, crashes=row.crashes, to=State.AVAILABLE)
        return super()._settle(transition, now)


class SettleOnlyOnce(MemoryStore):
    """The same settle sent again is told that it is lost."""

    def _answer_again(self, transition: Transition) -> Answer:
        return Answer.LOST


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


class ReopenIgnoresKey(KeyLookedUpEarlier):
    """A job comes back although another one was given its key."""

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        rows = [row for row in self._rows(ids) if PLACE_OF[row.state] is Place.FINISHED and row.unique_key is not None]
        for row in rows:
            self._all.keys.pop((row.task, str(row.unique_key)), None)
        return await super().reopen(ids)

    def _holder(self, row: JobRecord) -> JobRecord | None:
        return MemoryStore._holder(self, row)


class LimitJudgedEarly(MemoryStore):
    """Others judge a limit as early as the owner."""

    def _late(self, row: JobRecord, charge: Charge) -> int:
        if row.lease in self._all.leases:
            old = self._all.leases[row.lease]
            hasty = structs.replace(old.spec, grace=-old.spec.timing.ttl)
            self._all.leases[row.lease] = structs.replace(old, spec=hasty)
            try:
                return super()._late(row, charge)
            finally:
                self._all.leases[row.lease] = old
        return super()._late(row, charge)


class LastTryBesideOthers(MemoryStore):
    """Any worker takes last tries."""

    def _claim(self, request: ClaimRequest, now: datetime) -> tuple[Claim, ...]:
        return super()._claim(structs.replace(request, last_tries=LastTries.ALSO), now)


class ExpiryIgnored(MemoryStore):
    """A claim does not look whether a job has expired."""

    def _lines(self, tasks: Any, queues: Any, last_tries: LastTries, now: datetime) -> Any:
        return super()._lines(tasks, queues, last_tries, now.replace(year=1990))


class PauseIgnored(MemoryStore):
    """A claim does not look whether a queue is paused."""

    def _lines(self, tasks: Any, queues: Any, last_tries: LastTries, now: datetime) -> Any:
        paused, self._all.paused = self._all.paused, {}
        try:
            return super()._lines(tasks, queues, last_tries, now)
        finally:
            self._all.paused = paused


class IdsTakenUnseen(MemoryStore):
    """A job that was delivered is taken whether or not its time has come, and whether its queue is paused."""

    def _claim(self, request: ClaimRequest, now: datetime) -> Any:
        if request.ids is None:
            return super()._claim(request, now)
        paused, self._all.paused = self._all.paused, {}
        try:
            return super()._claim(request, now + timedelta(days=1))
        finally:
            self._all.paused = paused


class PruneEarly(MemoryStore):
    """Pruning does not know the floor."""

    async def prune(self, limit: int) -> Pruned:
        floor, self.floor = self.floor, 1.0
        try:
            return await super().prune(limit)
        finally:
            self.floor = floor


class ExpireEarly(MemoryStore):
    """Whatever may expire one day is failed."""

    async def expire(self, limit: int) -> Any:
        rows = [row for row in self._all.jobs.values() if row.expires_at is not None and row.attempt == 0]
        for row in rows:
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, state=State.FAILED, reason=Reason.EXPIRED, finished_at=self._now()))
        return ()


class ResultApart(MemoryStore):
    """A result is written by the exchange after the one that completes its job."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        for job, result in getattr(self, "_results", {}).items():
            if job in self._all.jobs:
                self._put(structs.replace(self._all.jobs[job], result=result))
        self._results = {} if transition.result is None else {transition.job: transition.result}
        return super()._settle(structs.replace(transition, result=None), now)


class FirstInLineOnly(MemoryStore):
    """A claim looks at the first waiting jobs only, whether or not it can use them."""

    def _lines(self, tasks: Any, queues: Any, last_tries: LastTries, now: datetime) -> Any:
        waiting = [job for _, _, job in sorted((line[2], *each) for line, some in self._all.lines.items() for each in some)]
        first = set(waiting[:3])
        lines = super()._lines(tasks, queues, last_tries, now)
        return {line: (each for each in some if each[1] in first) for line, some in lines.items()}


class RescueOwesNothing(HookedStore):
    """Who rescues a job forgets that its task has a hook."""

    def _settle(self, transition: Transition, now: datetime) -> bool:
        return super()._settle(structs.replace(transition, owes_hook=False), now)


class MarkGoesFirst(HookedStore):
    """The mark is taken away when a hook begins, its rows land when it ends."""

    @asynccontextmanager
    async def transaction(  # type: ignore[override]
        self, job: UUID, token: Token, *, idle: float, heal_at: datetime | None = None
    ) -> AsyncIterator[list[str]]:
        self._heal(self._require_mark(job, token, heal_at), token, [])
        written: list[str] = []
        yield written
        self.rows[job] += written


class HealUnfenced(HookedStore):
    """A hook that has begun commits, whatever has become of its job."""

    @asynccontextmanager
    async def transaction(  # type: ignore[override]
        self, job: UUID, token: Token, *, idle: float, heal_at: datetime | None = None
    ) -> AsyncIterator[list[str]]:
        self._require_mark(job, token, heal_at)
        written: list[str] = []
        yield written
        if job in self._all.jobs:
            self._heal(self._all.jobs[job], token, written)

"""Protocols with one guard taken out. The simulation must notice each of them: tests of the tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct, structs

from holdfast._core import lifecycle
from holdfast._core.job import PLACE_OF, Claim, NewJob, Place, State, Token
from holdfast._core.lifecycle import Judge, LeaseEnd, Transition
from holdfast._core.rows import new_row
from holdfast._core.timing import LeaseTiming
from holdfast._engine.exchange import Exchange
from holdfast._engine.executor import Ended, Executor, Stop
from holdfast._engine.recovery import Recovery, Rescued
from holdfast._engine.supervisor import Supervisor
from holdfast._engine.ward import Ward
from holdfast._ports.store import Answer, BeatAnswer, ClaimRequest, NewLease, Update
from holdfast.stores.memory import MemoryStore

NEVER = 1e9


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

    async def reopen(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        answer = await super().reopen(ids)
        for row in self._rows(ids):
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, token=Token(None, 0)))
        return answer


class EnqueueWithoutReceipt(MemoryStore):
    """A second copy of an enqueue inserts again."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob]) -> None:
        for job in jobs:
            self._put(new_row(job, self._now()))


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

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob]) -> None:
        await super().enqueue(call, jobs[:-1] if len(jobs) > 1 else jobs)


class CancelFinished(MemoryStore):
    """A cancellation does not look whether the job has finished."""

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        for row in self._rows(ids):
            if row.state in (State.COMPLETED, State.FAILED):
                self._put(structs.replace(row, state=State.CANCELLED))
        return await super().request_cancel(ids)


# the engine's guards


@contextmanager
def _patched(owner: type, **names: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, made in names.items():
            patch.setattr(owner, name, made)
        yield


def no_self_stop() -> Any:
    """Neither worker nor guard ever stop by themselves."""
    return _patched(LeaseTiming, owner_deadline=lambda self, sent: NEVER, guard_deadline=lambda self, sent: NEVER)


def no_guard() -> Any:
    """Code that cannot be cancelled outlives its lease."""
    return _patched(LeaseTiming, guard_deadline=lambda self, sent: NEVER)


def no_audit() -> Any:
    """After an unknown claim nobody asks what the store thinks we hold."""

    async def audit(self: Exchange) -> None:
        self._needs_audit = False

    return _patched(Exchange, audit=audit)


def no_amnesty() -> Any:
    """After an outage everybody is judged at once."""
    return _patched(LeaseTiming, may_judge=lambda self, *, contact, now: True)


def no_recovery() -> Any:
    """Nobody looks for expired leases."""

    async def step(self: Recovery, **_: Any) -> list[Rescued]:
        return []

    return _patched(Recovery, step=step)


def no_burial() -> Any:
    """Who sees a worker die leaves its jobs to the expiry of its lease."""
    return _patched(Supervisor, _bury=lambda self, ward, exit: None)


def impatient() -> Any:
    """A worker whose event loop is blocked for half a ttl is killed."""
    watch = Ward.watch

    def hasty(self: Ward, timing: LeaseTiming, *more: Any, max_block: float, **given: Any) -> None:
        watch(self, timing, *more, max_block=timing.ttl / 2, **given)

    return _patched(Ward, watch=hasty)


def siblings_pay() -> Any:
    """Every running job is charged for the end of its worker, whoever was the culprit."""
    return _patched(LeaseEnd, charges=lambda self, hold: hold.state is State.RUNNING)


def settle_before_stop() -> Any:
    """The job is given back when its code is told to stop, not when it has stopped."""
    stop = Executor.stop

    def stop_early(self: Executor, job: UUID, why: Stop, **given: Any) -> None:
        running = self.running.get(job)
        if running is not None and running.stop is None:
            self._on_ended(Ended(running.claim, lifecycle.release(running.claim.hold, code_ran=True)))
        stop(self, job, why, **given)

    return _patched(Executor, stop=stop_early)


class Mutant(Struct, frozen=True):
    """``caught_by``: the property that breaks; ``seed``: one that is known to show it; ``within``: so many seeds must."""

    name: str
    caught_by: str
    seed: int
    within: int
    kind: type[MemoryStore] = MemoryStore
    patch: Callable[[], Any] = nullcontext


MUTANTS = (
    Mutant("settle by id only", "S3", 0, 200, SettleById),
    Mutant("settle by worker", "S3", 2, 300, SettleByWorker),
    Mutant("settle by claim number, which a fail-over gives twice", "S3", 0, 1000, SettleByNumber),
    Mutant("settle sent again is told that it is lost", "S10", 2, 50, SettleOnlyOnce),
    Mutant("settle before the code has stopped", "S8", 11, 100, patch=settle_before_stop),
    Mutant("progress unfenced", "S3", 0, 300, ReportUnfenced),
    Mutant("late beat revives an ended lease", "S3", 1, 50, BeatRevives),
    Mutant("late opening revives an ended lease", "S3", 13, 200, OpenRevives),
    Mutant("lease ended without judging it again", "S5", 24, 400, EndWithoutJudging),
    Mutant("claims moved before their lease ends", "S5", 0, 20, MoveBeforeEnd),
    Mutant("rescue by id only", "S5", 115, 300, RescueById),
    Mutant("crash not counted", "S9", 0, 20, CrashNotCounted),
    Mutant("siblings charged for a culprit", "S9", 6, 50, patch=siblings_pay),
    Mutant("nobody looks for expired leases", "L2", 0, 50, patch=no_recovery),
    Mutant("claim not atomic", "S1", 0, 20, ClaimFromStaleRead),
    Mutant("claim for a lease that has run out", "S8", 13, 150, ClaimForDeadLease),
    Mutant("claim number reset by an operator's retry", "S2", 10, 50, ReopenResetsNumber),
    Mutant("cancel changes what has finished", "S4", 10, 100, CancelFinished),
    Mutant("enqueue without a receipt", "S2", 2, 50, EnqueueWithoutReceipt),
    Mutant("enqueue acknowledged before it is whole", "S6", 0, 20, EnqueueLosesLast),
    Mutant("no self-stop", "S8", 11, 200, patch=no_self_stop),
    Mutant("no guard", "S8", 11, 300, patch=no_guard),
    Mutant("a dead worker's jobs wait for its ttl", "L1", 9, 50, patch=no_burial),
    Mutant("a blocked event loop is killed early", "L3", 30, 300, patch=impatient),
    Mutant("no audit after an unknown claim", "L2", 44, 150, patch=no_audit),
    Mutant("no amnesty after an outage", "L8", 69, 600, patch=no_amnesty),
)

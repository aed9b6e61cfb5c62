"""Protocols with one guard taken out. The simulation must notice each of them: tests of the tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct, structs

from holdfast._core import lifecycle
from holdfast._core.job import PLACE_OF, Claim, Hold, JobRecord, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import Charge, Judge, LeaseEnd, Transition
from holdfast._core.rows import new_row
from holdfast._core.timing import LeaseTiming
from holdfast._engine.exchange import Exchange
from holdfast._engine.executor import Ended, Executor, Stop
from holdfast._engine.limits import Limited, Limits
from holdfast._engine.loop import Service
from holdfast._engine.recovery import Recovery, Rescued
from holdfast._engine.supervisor import Supervisor
from holdfast._engine.ward import Ward
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


# the engine's guards


@contextmanager
def _patched(owner: object, **names: Any) -> Iterator[None]:
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


def no_standing() -> Any:
    """The progress clock runs on while the store is silent."""
    return _patched(Limits, stand=lambda self, seconds: None)


def no_word_for_others() -> Any:
    """Where the owner's clock stood, others do not hear of it."""

    async def vouch(self: Supervisor) -> None:
        pass

    return _patched(Supervisor, _vouch=vouch)


def hasty_owner() -> Any:
    """A job is said to have stalled well before its time."""
    overrun = Limited.overrun
    return _patched(Limited, overrun=lambda self, now: overrun(self, now + 0.3 * (self.progress_within or 0.0)))


def fragile() -> Any:
    """Two lost beats, and a worker stops."""
    return _patched(LeaseTiming, owner_deadline=lambda self, sent: sent + 1.5 * self.beat)


def no_word_of_the_end() -> Any:
    """A worker whose lease was ended is not told."""
    return _patched(Ward, lost=lambda self: None)


def no_polling() -> Any:
    """A hint is the only thing that wakes a worker."""
    pause = Exchange._pause

    async def wait(self: Exchange, request: ClaimRequest | None, *, claimed: int) -> float:
        seconds = await pause(self, request, claimed=claimed)
        return 100 * seconds if claimed == 0 else seconds

    return _patched(Exchange, _pause=wait)


def drain_costs() -> Any:
    """What a worker gives back when it is asked to end has spent an attempt."""
    release = lifecycle.release

    def charge(hold: Hold, *, code_ran: bool) -> Transition:
        moved = release(hold, code_ran=code_ran)
        return structs.replace(moved, failures=hold.failures + 1) if code_ran else moved

    return _patched(lifecycle, release=charge)


def dropped_results() -> Any:
    """An outcome that the store did not answer is not sent again."""
    exchange = Exchange._exchange

    async def once(self: Exchange, batch: Any, request: ClaimRequest | None) -> int:
        try:
            return await exchange(self, batch, request)
        except StoreUnavailable:
            for key, _ in batch:
                self._ended.pop(key, None)
            raise

    return _patched(Exchange, _exchange=once)


def no_backing_off() -> Any:
    """Whoever is refused asks again at once."""
    return _patched(Service, _pause=lambda self, failures: 0.005)


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
    Mutant("batch written in parts", "S7", 0, 100, EnqueueInParts),
    Mutant("child of a former owner", "S7", 0, 400, ChildUnfenced),
    Mutant("key not freed", "S11", 0, 100, KeyNotFreed),
    Mutant("key looked up before the write", "S11", 0, 200, KeyLookedUpEarlier),
    Mutant("reopen ignores a taken key", "S11", 0, 200, ReopenIgnoresKey),
    Mutant("limit judged by others as early as by the owner", "S9", 0, 200, LimitJudgedEarly),
    Mutant("limit judged early by the owner", "S9", 0, 200, patch=hasty_owner),
    Mutant("stalled while the store is silent", "L8", 0, 400, patch=no_standing),
    Mutant("the owner's clock stood, and nobody was told", "S8", 0, 400, patch=no_word_for_others),
    Mutant("last try beside others", "S9", 0, 100, LastTryBesideOthers),
    Mutant("expiry ignored by the claim", "S1", 0, 100, ExpiryIgnored),
    Mutant("failed as expired too early", "S6", 0, 100, ExpireEarly),
    Mutant("paused queue claimed", "S1", 0, 100, PauseIgnored),
    Mutant("pruned before the floor", "S6", 0, 200, PruneEarly),
    Mutant("result written apart from the state", "S13", 0, 20, ResultApart),
    Mutant("only the first in line are looked at", "L4", 0, 200, FirstInLineOnly),
    Mutant("hints are the only wake-up", "L6", 0, 200, patch=no_polling),
    Mutant("a drain costs an attempt", "L7", 0, 100, patch=drain_costs),
    Mutant("a zombie is not told", "L5", 0, 300, patch=no_word_of_the_end),
    Mutant("a lost beat stops a worker", "L3", 0, 200, patch=fragile),
    Mutant("a result that was not answered is dropped", "L8", 0, 200, patch=dropped_results),
    Mutant("no backing off", "L9", 0, 200, patch=no_backing_off),
    Mutant("no audit after an unknown claim", "L2", 44, 150, patch=no_audit),
    Mutant("no amnesty after an outage", "L8", 69, 600, patch=no_amnesty),
)

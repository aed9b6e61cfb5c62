"""Stores with one missing guard of ownership: of settling, of leases or of claims."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, BeatAnswer
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.job import PLACE_OF, ActiveJob, Claim, Place, RescueReason, State
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import LeaseEnd, Precondition, Transition
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord, active_job
from holdfast._core.requests import BeatNote, ClaimRequest, IsolatedJobs, NewLease, ProgressUpdate
from holdfast._ports.clock import Clock

Made = tuple[tuple[Claim, ...], Cursor, bool]
"""The claims, the next cursor, and whether no lane was left out."""


class SettleById(Book):
    """A settle moves the job in any state, without a check of the token."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and transition.precondition is Precondition.TOKEN:
            owned = structs.replace(row, state=State.RUNNING, token=transition.token, lease=row.lease or UUID(int=0))
            Book._put(self, owned)  # not recorded: only the next write is
        return super()._settle(transition, now)


class SettleByState(Book):
    """A settle moves any active job, without a check of the token."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and PLACE_OF[row.state] is Place.ACTIVE:
            transition = structs.replace(transition, token=row.token)
        return super()._settle(transition, now)


class SettleByWorker(Book):
    """The lease is enough: any claim of the same worker may settle."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        known = getattr(self, "_owners", {})
        if row is not None and row.worker is not None and known.get(transition.token) == row.worker:
            transition = structs.replace(transition, token=row.token)
        return super()._settle(transition, now)

    def _take(self, row: Any, request: ClaimRequest, now: Moment, **how: Any) -> Claim:
        claim = super()._take(row, request, now, **how)
        self._owners = {**getattr(self, "_owners", {}), claim.job.token: how["worker"]}
        return claim


class SettleToTheEnd(Book):
    """A released or rescued job goes to the end of its queue."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        return super()._settle(structs.replace(transition, delay=transition.delay or 0.0), now)


class SettleByNumber(Book):
    """The claim number alone is the token."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and row.token.number == transition.token.number and row.token.claim is not None:
            transition = structs.replace(transition, token=row.token)
        return super()._settle(transition, now)


class SettleOnlyOnce(Book):
    """The same settle sent again gets the answer that the job is lost."""

    def _answer_again(self, transition: Transition) -> Answer:
        return Answer.LOST


class SettleConfirmed(Book):
    """A token that has settled gets a confirmation of any later settle, also with another outcome."""

    def _answer_again(self, transition: Transition) -> Answer:
        answer, row = super()._answer_again(transition), self._all.jobs.get(transition.job)
        is_spent = transition.token in self._all.attempts.get(transition.job, {})
        return Answer.APPLIED if is_spent or (row is not None and row.token == transition.token) else answer


class ResultApart(Book):
    """A result is written by the exchange after the one that completes its job."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        for job, result in getattr(self, "_results", {}).items():
            if job in self._all.jobs:
                self._put(structs.replace(self._all.jobs[job], result=result))
        self._results = {} if transition.result is None else {transition.job: transition.result}
        return super()._settle(structs.replace(transition, result=None), now)


class RescueById(Book):
    """A rescue moves any active job, under an ended lease or not."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        is_rescue = transition.precondition is Precondition.LEASE_ENDED
        if is_rescue and row is not None and PLACE_OF[row.state] is Place.ACTIVE:
            transition = structs.replace(transition, token=row.token, precondition=Precondition.TOKEN)
        return super()._settle(transition, now)


class CrashNotCounted(Book):
    """A rescue charges no crash."""

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._all.jobs.get(transition.job)
        if row is not None and transition.precondition is Precondition.LEASE_ENDED:
            transition = structs.replace(transition, crashes=row.crashes, to=State.AVAILABLE)
        return super()._settle(transition, now)


class LimitJudgedEarly(Book):
    """Other supervisors judge a limit as early as the owner."""

    def _late(self, row: JobRecord, charge: RescueReason, now: Moment) -> int:
        if row.lease in self._all.leases:
            old = self._all.leases[row.lease]
            hasty = structs.replace(old.spec, grace=-old.spec.timing.ttl)
            self._all.leases[row.lease] = structs.replace(old, spec=hasty)
            try:
                return super()._late(row, charge, now)
            finally:
                self._all.leases[row.lease] = old
        return super()._late(row, charge, now)


class ReportUnfenced(Book):
    """Progress is written under the token of the present owner."""

    def report(self, now: Moment, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        jobs = self._all.jobs
        return super().report(
            now, [structs.replace(each, token=jobs[each.job].token) if each.job in jobs else each for each in updates]
        )


class BeatRevives(Book):
    """A late beat makes an ended lease active again."""

    def beat(self, now: Moment, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        for lease in leases:
            if lease in self._all.leases:
                self._all.leases[lease] = structs.replace(self._all.leases[lease], end=None)
        return super().beat(now, leases, draining=draining, notes=notes)


class OpenRevives(Book):
    """A late copy of its opening makes an ended lease active again."""

    def open_lease(self, now: Moment, lease: NewLease) -> bool:
        if lease.id in self._all.leases:
            self._all.leases[lease.id] = structs.replace(self._all.leases[lease.id], end=None)
        return super().open_lease(now, lease)


class BeatOfTheEnded(Book):
    """A late beat changes nothing, and is confirmed."""

    def beat(self, now: Moment, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        answer = super().beat(now, leases, draining=draining, notes=notes)
        return structs.replace(answer, alive=frozenset(leases), gone=frozenset())


class ExpiryByWallClock(Book):
    """A lease expires a ttl after the time of its owner's wall clock, which is wrong by a ttl at most."""

    clocks: ClassVar[dict[str, Clock]] = {}

    def open_lease(self, now: Moment, lease: NewLease) -> bool:
        is_open = super().open_lease(now, lease)
        self._set_expiry(lease.id, now)
        return is_open

    def beat(self, now: Moment, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        answer = super().beat(now, leases, draining=draining, notes=notes)
        for lease in answer.alive:
            self._set_expiry(lease, now)
        return answer

    def _set_expiry(self, lease: UUID, now: Moment) -> None:
        known = self._all.leases[lease]
        ttl, error = known.spec.timing.ttl, self.clocks[known.spec.process.host].wall() - now.wall.timestamp()
        error = (error + ttl) % (2 * ttl) - ttl
        self._all.leases[lease] = structs.replace(known, expires_at=known.expires_at + round(error * 1e6))


class StartWithoutVoids(Book):
    """A start of claimed jobs that is under way lands after the supervisor has returned them to their queues."""

    def start_through(self, now: Moment, lease: UUID, number: int, voids: int) -> bool:
        known = self._all.leases.get(lease)
        return super().start_through(now, lease, number, voids if known is None else known.voids)


class EndWithoutJudging(Book):
    """A lease that was expired when it was read is ended, although it was renewed since."""

    def end_lease(self, now: Moment, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> Any:
        return super().end_lease(now, lease, why)


class MoveBeforeEnd(Book):
    """A rescue moves the claims and leaves the lease active."""

    def end_lease(self, now: Moment, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> Any:
        before = self._all.leases.get(lease)
        answer = super().end_lease(now, lease, why, seen=seen)
        if before is not None:
            self._all.leases[lease] = before
        return answer

    def _settle(self, transition: Transition, now: Moment) -> bool:
        return super()._settle(structs.replace(transition, precondition=Precondition.TOKEN), now)


class HeldWithoutLease(Book):
    """An audit returns the jobs of all leases, not only those of the lease that asks."""

    def held(self, now: Moment, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        rows = sorted(self._all.jobs.values(), key=lambda row: row.token.number)
        return tuple(active_job(row) for row in rows if PLACE_OF[row.state] is Place.ACTIVE)[:limit]


class StartNotCounted(Book):
    """A claim that starts a job does not count the attempt."""

    def _take(self, row: JobRecord, request: ClaimRequest, now: Moment, **how: Any) -> Claim:
        return super()._take(structs.replace(row, attempt=row.attempt - 1), request, now, **how)


class IsolatedWithTwo(Book):
    """A worker for one isolated attempt gets a second job beside it."""

    def _claim(self, request: ClaimRequest, now: Moment) -> Made:
        known = self._all.leases.get(request.lease)
        if known is None:
            return (), request.cursor, True
        self._all.leases[request.lease] = structs.replace(known, spec=structs.replace(known.spec, is_isolated=False))
        try:
            return super()._claim(request, now)
        finally:
            self._all.leases[request.lease] = known


class ClaimFromStaleRead(Book):
    """The claim reads, then writes: a job that another claim took in between is taken again."""

    def _claim(self, request: ClaimRequest, now: Moment) -> Made:
        lease = self._all.leases.get(request.lease)
        for row in self._all.jobs.values():
            is_fresh = (
                row.state is State.RUNNING and row.claimed_at is not None and (now.wall - row.claimed_at).total_seconds() < 0.05
            )
            if lease is not None and is_fresh and row.lease != request.lease and row.task in request.tasks:
                number = self._all.next_number("claim")
                return (
                    (self._take(row, request, now, is_running=True, worker=lease.spec.worker, number=number),),
                    request.cursor,
                    True,
                )
        return super()._claim(request, now)


class ClaimForDeadLease(Book):
    """A claim does not check whether its lease has ended."""

    def _claim(self, request: ClaimRequest, now: Moment) -> Made:
        lease = self._all.leases.get(request.lease)
        if lease is None:
            return (), request.cursor, True
        self._all.leases[request.lease] = structs.replace(lease, end=None, expires_at=2**62)
        try:
            return super()._claim(request, now)
        finally:
            self._all.leases[request.lease] = lease


class IsolatedBesideOthers(Book):
    """Any worker takes isolated attempts."""

    def _claim(self, request: ClaimRequest, now: Moment) -> Made:
        return super()._claim(structs.replace(request, isolated=IsolatedJobs.INCLUDE), now)


class _Any(dict[str, Policy]):
    """The tasks of a worker that knows every task."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Policy:
        return Policy()


class StrangersTaken(Book):
    """A claim does not check whether its worker knows the task."""

    def _claim(self, request: ClaimRequest, now: Moment) -> Made:
        return super()._claim(structs.replace(request, tasks=_Any(request.tasks)), now)


class DelayIgnored(Book):
    """A claim does not check whether a job is due."""

    def _due(self, request: ClaimRequest, wall: datetime) -> Any:
        return super()._due(request, wall + timedelta(days=1))


class ExpiryIgnored(Book):
    """A claim does not check whether a job has expired."""

    def _ranges(self, tasks: Any, queues: Any, isolated: IsolatedJobs, wall: datetime) -> Any:
        return super()._ranges(tasks, queues, isolated, wall.replace(year=1990))


class PauseIgnored(Book):
    """A claim does not check whether a queue is paused."""

    def _ranges(self, tasks: Any, queues: Any, isolated: IsolatedJobs, wall: datetime) -> Any:
        paused, self._all.paused_queues = self._all.paused_queues, {}
        try:
            return super()._ranges(tasks, queues, isolated, wall)
        finally:
            self._all.paused_queues = paused


class IdsTakenUnseen(Book):
    """A delivered job is taken although it may not be due, and its queue may be paused."""

    def _claim(self, request: ClaimRequest, now: Moment) -> Any:
        if request.ids is None:
            return super()._claim(request, now)
        paused, self._all.paused_queues = self._all.paused_queues, {}
        try:
            return super()._claim(request, structs.replace(now, wall=now.wall + timedelta(days=1)))
        finally:
            self._all.paused_queues = paused


class FirstJobsOnly(Book):
    """A claim reads only the first waiting jobs, whether or not it can take them."""

    def _ranges(self, tasks: Any, queues: Any, isolated: IsolatedJobs, wall: datetime) -> Any:
        waiting = [job for _, _, job in sorted((line[3], *each) for line, some in self._all.ranges.items() for each in some)]
        first = set(waiting[:3])
        lines = super()._ranges(tasks, queues, isolated, wall)
        return {line: (each for each in some if each[1] in first) for line, some in lines.items()}


class NewestFirst(Book):
    """A claim takes the newest jobs first."""

    def _due(self, request: ClaimRequest, wall: datetime) -> Any:
        lines = self._ranges(request.tasks, request.queues, request.isolated, wall)
        due = [(priority, at, job) for (*_, priority), line in lines.items() for at, job in line if at <= wall]
        due.sort(key=lambda each: (-each[0], each[1], each[2]), reverse=True)
        wanted = [each for each in due if request.ids is None or each[2] in request.ids]
        return [self._all.jobs[job] for _, _, job in wanted[: request.room]], request.cursor, True

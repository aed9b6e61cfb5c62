"""The engine with one missing guard in supervisors, as context managers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._core.view import Rescued
from holdfast._engine.supervisor import recovery, supervisor
from holdfast._engine.supervisor.isolation import Isolation
from holdfast._engine.supervisor.limits import Limits, TimedAttempt
from holdfast._engine.supervisor.recovery import Contact, Recovery
from holdfast._engine.supervisor.supervisor import Supervisor
from holdfast._engine.supervisor.voiding import Voiding
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from proof.simulator.hosts import Machine, SimChild
from proof.simulator.world import World
from tests.simulation.broken_stores import ExpiryByWallClock
from tests.simulation.patching import patched

NEVER = 1e9


def no_self_stop() -> Any:
    """Neither workers nor guards stop by themselves."""
    return patched(LeaseTiming, owner_deadline=lambda self, sent: NEVER, guard_deadline=lambda self, sent: NEVER)


def no_guard() -> Any:
    """Code that cannot be cancelled outlives its lease."""
    return patched(LeaseTiming, guard_deadline=lambda self, sent: NEVER)


def no_amnesty() -> Any:
    """After an outage every lease is judged at once."""
    return patched(LeaseTiming, may_judge=lambda self, *, contact, now: True)


def own_amnesty() -> Any:
    """A supervisor counts silences by its own timing, not by that of the lease that it judges."""

    def allows(self: Contact, lease: LeaseTiming, *, since: float = 0.0) -> bool:
        return not self.is_broken and lease.may_judge(contact=max(since, self.since), now=self._now())

    return patched(Contact, may_judge=allows)


def judged_at_first_sight() -> Any:
    """A supervisor charges a job past its limit as soon as its row is free, before the owner has sent its outcome again."""
    may_judge = Contact.may_judge
    return patched(Contact, may_judge=lambda self, lease, **_: may_judge(self, lease))


def no_recovery() -> Any:
    """No supervisor looks for expired leases."""

    async def step(self: Recovery, **_: Any) -> list[Rescued]:
        return []

    return patched(Recovery, step=step)


def no_recovery_after_exit() -> Any:
    """A supervisor whose worker dies leaves its jobs to the expiry of the lease."""
    return patched(Supervisor, _recover_jobs_of=lambda self, handle, exit: None)


def impatient() -> Any:
    """A worker whose event loop is blocked for half a ttl is killed."""
    watch = WorkerHandle.watch

    def hasty(self: WorkerHandle, timing: LeaseTiming, *more: Any, max_block: float, **given: Any) -> None:
        watch(self, timing, *more, max_block=timing.ttl / 2, **given)

    return patched(WorkerHandle, watch=hasty)


def siblings_charged() -> Any:
    """Every running job is charged for the end of its worker, also beside the culprit."""
    return patched(LeaseEnd, charges_crash_of=lambda self, job: job.state is State.RUNNING)


@contextmanager
def progress_clock_not_paused() -> Iterator[None]:
    """The progress clock runs on while the store is silent, and while the job's code waits for the store."""

    @contextmanager
    def wait(self: AttemptReporter, job: ActiveJob) -> Iterator[None]:
        self.moved(job)
        yield

    with patched(Limits, pause=lambda self, seconds: None), patched(AttemptReporter, waiting_for_store=wait):
        yield


def paused_clocks_not_reported() -> Any:
    """The owner does not report to other supervisors that a progress clock was paused."""

    async def vouch(store: Store, workers: Sequence[WorkerHandle]) -> None:
        pass

    return patched(supervisor, report_paused_clocks=vouch)


def hasty_owner() -> Any:
    """A job counts as stalled well before its limit."""
    exceeded = TimedAttempt.exceeded

    def early(self: TimedAttempt, now: float, reported_until: float) -> RescueReason | None:
        return exceeded(self, now, reported_until + 0.3 * (self.progress_within or 0.0))

    return patched(TimedAttempt, exceeded=early)


def judged_before_reports_arrive() -> Any:
    """A supervisor charges a job as stalled, although a report of its progress may wait in its worker's blocked event loop."""
    exceeded = TimedAttempt.exceeded
    return patched(TimedAttempt, exceeded=lambda self, now, reported_until: exceeded(self, now, now))


def fragile() -> Any:
    """A worker stops after two lost beats."""
    return patched(LeaseTiming, owner_deadline=lambda self, sent: sent + 1.5 * self.beat)


def no_notice_of_the_end() -> Any:
    """A worker gets no notice of the end of its lease."""
    return patched(WorkerHandle, lease_lost=lambda self: None)


def wall_clocks() -> Any:
    """The store knows the wall clocks of all machines, and uses them."""
    machine = World._machine

    def known(self: World, name: str) -> Machine:
        made = machine(self, name)
        ExpiryByWallClock.clocks[name] = made.clock
        return made

    return patched(World, _machine=known)


def rescue_by_age() -> Any:
    """A worker that has jobs and is older than two ttls counts as hung, and its jobs are rescued."""
    step = Recovery.step

    async def end_the_old(self: Recovery, **given: Any) -> list[Rescued]:
        rescued = await step(self, **given)
        for lease in await self._store.workers():
            if lease.age > 2 * lease.timing.ttl and lease.holds:
                rescued += await self.end(lease.id, lease.worker, LeaseEnd(RescueReason.EXPIRED))
        return rescued

    return patched(Recovery, step=end_the_old)


def unseen_is_dead() -> Any:
    """A process that does not run on this machine counts as dead, also if it was started on another one."""
    return patched(recovery, is_provably_dead=lambda theirs, ours, *, is_running: not is_running)


def locks_are_lost_contact() -> Any:
    """A supervisor treats a row locked by a foreign session as lost contact with the store, and judges no lease for a while."""
    say = Recovery._say_what_is_locked

    def break_off(self: Recovery, answers: Sequence[Answer]) -> None:
        say(self, answers)
        if Answer.BUSY in answers:
            self._contact.lost()

    return patched(Recovery, _say_what_is_locked=break_off)


def own_reason() -> Any:
    """A supervisor rescues the jobs of a lease that another one has ended with its own reason."""
    empty = Recovery.empty

    async def end(self: Recovery, lease: UUID, worker: str, why: LeaseEnd, **_: Any) -> list[Rescued]:
        await self._store.end_lease(lease, why)
        return await empty(self, lease, worker, why)

    return patched(Recovery, end=end)


def drain_unexplained() -> Any:
    """A drain does not explain the end of a worker."""
    return patched(LeaseEnd, with_drain=lambda self, *, is_draining: self)


def undelivered_dropped() -> Any:
    """The outcomes that a dead worker had sent to its supervisor are not delivered."""
    end = Recovery.end

    async def forget(self: Recovery, lease: UUID, worker: str, why: LeaseEnd, **_: Any) -> list[Rescued]:
        return await end(self, lease, worker, why)

    return patched(Recovery, end=forget)


def late_death_charged() -> Any:
    """The end of a worker at its deadline is charged as a crash."""
    lease_end = WorkerHandle.lease_end

    def charge(self: WorkerHandle, exit: Exit) -> LeaseEnd:
        why = lease_end(self, exit)
        return why if self._is_end_free else structs.replace(why, is_free=False)

    return patched(WorkerHandle, lease_end=charge)


def beats_for_dead_workers() -> Any:
    """The supervisor does not notice that a worker is dead, and renews its lease."""
    return patched(Supervisor, _recover_jobs_of=lambda self, session: self.workers.append(session.handle))


def frozen_not_seen() -> Any:
    """The supervisor does not notice that a worker is stopped, and renews its lease."""
    return patched(SimChild, is_stopped=lambda self: False)


def cut_off_not_seen() -> Any:
    """The supervisor renews the lease of a worker that the store does not answer."""
    return patched(WorkerHandle, _is_cut_off=lambda self, timing, contact: False)


def deadline_after_answer() -> Any:
    """A worker's deadline counts from the answer to the beat, not from its sending."""
    renewed, leased = WorkerHandle.lease_renewed, WorkerHandle.lease_granted

    def later(self: WorkerHandle, sent: float) -> None:
        renewed(self, self._now())

    def opened(self: WorkerHandle, lease: NewLease, sent: float) -> None:
        leased(self, lease, self._now())

    return patched(WorkerHandle, lease_renewed=later, lease_granted=opened)


def no_isolation() -> Any:
    """No supervisor starts a worker for isolated attempts."""

    async def step(self: Isolation) -> float:
        return self._interval

    return patched(Isolation, step=step)


def no_expiry() -> Any:
    """Expired jobs stay in their queue indefinitely."""

    async def expire(self: Recovery) -> int:
        return 0

    return patched(Recovery, expire=expire)


def no_voids() -> Any:
    """A worker whose event loop is blocked keeps the jobs that it has claimed ahead."""

    async def step(self: Voiding) -> float:
        return NEVER

    return patched(Voiding, step=step)

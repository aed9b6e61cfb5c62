"""Take jobs from owners that lost their right: end the lease first, then move its claims through the door of all moves.

Every supervisor runs it; there is no leader. Whatever is seen here is judged again inside the write.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from uuid import UUID

from msgspec import Struct

from holdfast._core import lifecycle
from holdfast._core.identity import is_provably_dead
from holdfast._core.job import Hold, State
from holdfast._core.lifecycle import End, LeaseEnd, Transition
from holdfast._core.timing import LeaseTiming
from holdfast._engine.events import EventName, Events
from holdfast._ports.clock import Chance
from holdfast._ports.host import Host
from holdfast._ports.store import Answer, LeaseView, Store
from holdfast._ports.transport import Hint

LEASES_PER_STEP = 100
HOLDS_PER_MOVE = 100
JOBS_PER_MOVE = 100
EXPIRED_PER_STEP = 1000


class Rescued(Struct, frozen=True):
    """One job taken from a worker: why its lease ended, which attempt it was, and where the job went."""

    id: UUID
    task: str
    reason: str
    worker: str
    attempt: int
    to: State


class Contact:
    """How long the store has answered us without a gap: after an outage every lease looks expired (amnesty)."""

    def __init__(self, timing: LeaseTiming, now: Callable[[], float]) -> None:
        self._timing = timing
        self._now = now
        self.since = self._last = now()
        self.is_broken = False

    def answered(self, sent: float) -> None:
        """The store answered a call that was sent then."""
        now = self._now()
        if self.is_broken or self._timing.is_gap(sent - self._last) or self._timing.is_gap(now - sent):
            self.since, self.is_broken = now, False
        self._last = now

    def broke(self) -> None:
        """A call failed, or time itself cannot be trusted: start anew with the next answer."""
        self.is_broken = True

    def is_silent(self) -> bool:
        """Whether the store does not answer us, or has not for too long to tell."""
        return self.is_broken or self._timing.is_gap(self._now() - self._last)

    def is_settled(self) -> bool:
        """Whether it has lasted long enough for everybody to have said what an outage kept them from saying."""
        return self.allows(self._timing)

    def allows(self, lease: LeaseTiming) -> bool:
        """Whether a lease of this timing may be judged by now."""
        return not self.is_broken and lease.may_judge(contact=self.since, now=self._now())


class Recovery:
    """Finds leases without right and empties them."""

    def __init__(
        self,
        store: Store,
        contact: Contact,
        *,
        now: Callable[[], float],
        chance: Chance,
        events: Events,
        publish: Callable[[Sequence[Hint]], Awaitable[None]],
        host: Host | None = None,
        own: Callable[[], Collection[UUID]] = frozenset,
        compare_clocks: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._store = store
        self._contact = contact
        self._now = now
        self._chance = chance
        self._events = events
        self._publish = publish
        self._host = host
        self._own = own
        self._compare_clocks = compare_clocks

    async def step(self, *, skip_amnesty: bool = False) -> list[Rescued]:
        """One pass over everything that has lost its right."""
        rescued = await self.reconcile(is_patient=not skip_amnesty)
        leases = await self._expired()
        if self._compare_clocks is not None and any(lease.end is None for lease in leases):
            await self._compare_clocks()  # after a step of the store's clock all of them only look expired: amnesty
        for lease in leases:
            why = lease.end
            if why is None:
                if not (skip_amnesty or self._contact.allows(lease.timing)):
                    continue
                expired = LeaseEnd(End.EXPIRED)
                why = await self._store.end_lease(lease.id, expired, seen=lease.seen)
                if why is None:
                    continue
                self._announce_end(lease.id, lease.worker, why)
            rescued += await self.empty(lease.id, lease.worker, why)
        return rescued + await self._end_overdue()

    async def expire(self) -> int:
        """Fail a batch of what nobody started before it expired; how many jobs."""
        expired = await self._store.expire(EXPIRED_PER_STEP)
        for each in expired:
            self._events.emit(EventName.JOB_EXPIRED, job=each.job, task=each.task)
        return len(expired)

    async def _end_overdue(self) -> list[Rescued]:
        """Jobs of living workers far past a limit, which their own supervisor should have ended long ago."""
        sent = self._now()
        found = await self._store.overdue(JOBS_PER_MOVE)
        self._contact.answered(sent)
        own = self._own()
        late = [each for each in found if each.hold.lease not in own and self._contact.is_settled()]
        if not late:
            return []
        jitters = [self._chance.jitter() for _ in late]
        moves = [
            lifecycle.overrun_seen_by_others(each.hold, each.charge, jitter=jitter)
            for each, jitter in zip(late, jitters, strict=True)
        ]
        answer = await self._store.exchange(moves)
        moved = [(o, m) for o, m, a in zip(late, moves, answer.answers, strict=True) if a is Answer.APPLIED]
        rescued = [self._announce(o.hold, m, o.worker, o.charge.value, None) for o, m in moved]
        await self._publish(hints_of_rescued((each.hold, move, each.charge.value) for each, move in moved))
        return rescued

    async def reconcile(self, *, by_host_name: bool = False, is_patient: bool = False) -> list[Rescued]:
        """End leases of processes that are provably dead, after what is left of their sessions is killed.

        ``is_patient``: only of those whose supervisor does not bury them, because it knows better why they died.
        """
        if self._host is None:
            return []
        rescued: list[Rescued] = []
        ours = self._host.process()
        for lease in await self._workers():
            if is_patient and not self._is_left_alone(lease):
                continue
            theirs = lease.process
            is_dead = is_provably_dead(theirs, ours, is_running=self._host.is_running(theirs))
            if is_dead or (by_host_name and theirs.host == ours.host and not self._host.is_running(theirs)):
                self._host.kill_leftovers(theirs)
                rescued += await self.end(lease.id, lease.worker, LeaseEnd(End.CRASHED))
        return rescued

    async def end(self, lease: UUID, worker: str, why: LeaseEnd, *, undelivered: Sequence[Transition] = ()) -> list[Rescued]:
        """A worker whose death we saw: deliver what it had ended, end its lease, move the rest."""
        if undelivered:
            await self._store.exchange(undelivered)
        # Somebody may have ended it before, for a reason of his own: the first one stays and says who pays.
        stands = await self._store.end_lease(lease, why) or why
        self._announce_end(lease, worker, stands)
        return await self.empty(lease, worker, stands)

    async def empty(self, lease: UUID, worker: str, why: LeaseEnd) -> list[Rescued]:
        """Move the claims of an ended lease, in bounded batches, until none is left that we can move."""
        rescued: list[Rescued] = []
        while holds := await self._store.held(lease, HOLDS_PER_MOVE):
            moves = [lifecycle.rescue(hold, why, jitter=self._chance.jitter()) for hold in holds]
            answer = await self._store.exchange(moves)
            moved = [(h, m) for h, m, a in zip(holds, moves, answer.answers, strict=True) if a is Answer.APPLIED]
            if not moved:
                break
            rescued += [self._announce(hold, move, worker, why.end.value, why.signal) for hold, move in moved]
            await self._publish(hints_of_rescued((hold, move, why.end.value) for hold, move in moved))
        return rescued

    def _is_left_alone(self, lease: LeaseView) -> bool:
        unbeaten = lease.timing.ttl + lease.overdue
        return self._contact.allows(lease.timing) and unbeaten > lease.timing.beat + lease.timing.margin

    async def _expired(self) -> tuple[LeaseView, ...]:
        sent = self._now()
        leases = await self._store.expired(LEASES_PER_STEP)
        self._contact.answered(sent)
        own = self._own()
        return tuple(lease for lease in leases if lease.id not in own)

    async def _workers(self) -> tuple[LeaseView, ...]:
        sent = self._now()
        leases = await self._store.workers()
        self._contact.answered(sent)
        own = self._own()
        return tuple(lease for lease in leases if lease.id not in own)

    def _announce(self, hold: Hold, move: Transition, worker: str, reason: str, signal: str | None) -> Rescued:
        rescued = Rescued(hold.job, hold.task, reason, worker, hold.attempt, move.to)
        self._events.emit(
            EventName.JOB_RESCUED,
            job=hold.job,
            task=hold.task,
            attempt=hold.attempt,
            worker=worker,
            reason=signal or reason,
            to=move.to.value,
            crashes=move.crashes,
            delay=move.delay or None,
            recovery="store",
        )
        return rescued

    def _announce_end(self, lease: UUID, worker: str, why: LeaseEnd) -> None:
        # Nobody's fault is no crash: we killed it ourselves, or it had to stop anyway.
        reason = "killed" if why.is_free and why.end is End.CRASHED else why.end.value
        self._events.emit(EventName.LEASE_ENDED, lease=lease, worker=worker, reason=reason, signal=why.signal)


def hints_of_rescued(moved: Iterable[tuple[Hold, Transition, str]]) -> list[Hint]:
    """For whoever may run them now, by queue and reason; of all others, who had them hears in any case."""
    groups: dict[tuple[str, str], list[UUID]] = {}
    for hold, move, reason in moved:
        is_due = move.to is State.AVAILABLE and move.delay <= 0 and not hold.cancel_requested
        groups.setdefault((hold.queue, reason) if is_due else ("", ""), []).append(hold.job)
    return [Hint(queue, tuple(jobs), reason) for (queue, reason), jobs in groups.items()]

"""Rescue jobs whose owner lost its right: end the lease first, then move its jobs by transitions like any other.

Every supervisor does this; there is no leader. What a supervisor reads here, the store checks again inside the write.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from uuid import UUID

from holdfast._core import lifecycle
from holdfast._core.answers import Answer, LeaseView
from holdfast._core.attempt_line import rescued_line
from holdfast._core.identity import is_provably_dead
from holdfast._core.job import ActiveJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.timing import LeaseTiming, Silence, Silences
from holdfast._core.view import Rescued
from holdfast._engine.environment import Environment
from holdfast._engine.error_text import described
from holdfast._engine.events import EventName, failure_of_store
from holdfast._engine.flow_events import report_flows
from holdfast._engine.service import is_answer, is_refusal
from holdfast._engine.supervisor.rescue_tallies import count_rescue
from holdfast._ports.host import Host
from holdfast._ports.transport import Hint
from holdfast.errors import HoldfastError
from holdfast.settings import EVERY_KIND, RecoverySwitches

LEASES_PER_STEP = 100
HOLDS_PER_MOVE = 100
JOBS_PER_MOVE = 100
EXPIRED_PER_STEP = 1000
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 60.0
MOST_REFUSALS = 5
"""Number of refusals by the store after which an outcome of an exited worker is given up, and its job is rescued."""


class Contact:
    """How long the store has answered this supervisor without a gap: after an outage every lease looks expired (amnesty).

    ``timing`` is that of this supervisor's own leases. Every other lease counts gaps by its own timing.
    """

    def __init__(self, timing: LeaseTiming, now: Callable[[], float]) -> None:
        self._timing = timing
        self._now = now
        self._last = now()
        self._silences = Silences.since(self._last)
        self.is_broken = False

    @property
    def since(self) -> float:
        """The time at which the contact began, with gaps counted by the timing of the supervisor's own leases."""
        return self._silences.contact_for(self._timing)

    def answered(self, sent: float) -> None:
        """Record that the store answered a call that was sent at ``sent``."""
        now = self._now()
        silence = math.inf if self.is_broken else now - min(sent, self._last)
        self._silences, self.is_broken = self._silences.then(Silence(silence, now)), False
        self._last = now

    def lost(self) -> None:
        """End the contact after a failed call or a step of a clock; it begins again with the next answer."""
        self.is_broken = True

    def failed(self, error: BaseException) -> None:
        """End the contact after a failed call, unless the error is itself an answer of the store."""
        if not is_answer(error):
            self.lost()

    def is_silent(self) -> bool:
        """Return whether the contact is lost, or the store's last answer is too old to rely on."""
        return self.is_broken or self._timing.breaks_contact(self._now() - self._last)

    def may_judge(self, lease: LeaseTiming, *, since: float = -math.inf) -> bool:
        """Return whether a lease of this timing may be judged now, and a job of it that could be moved ``since`` that time.

        After an outage its owner first gets the time to send the renewal or the outcome that the outage held up.
        """
        contact = max(since, self._silences.contact_for(lease))
        return not self.is_broken and lease.may_judge(contact=contact, now=self._now())


class Recovery:
    """The step that ends leases whose owner lost its right, and rescues their jobs."""

    def __init__(
        self,
        environment: Environment,
        contact: Contact,
        *,
        switches: RecoverySwitches = EVERY_KIND,
        host: Host | None = None,
        own: Callable[[], Collection[UUID]] = frozenset,
        compare_clocks: Callable[[], Awaitable[object]] | None = None,
        rescued: Callable[[ActiveJob, Transition, str], None] | None = None,
        by: str | None = None,
    ) -> None:
        self._store = environment.store
        self._events, self._chance, self._now = environment.events, environment.chance, environment.lease_time
        self._wall = environment.clock.wall
        self._publish = environment.transport.publish
        self._contact, self._host, self._own, self._compare_clocks = contact, host, own, compare_clocks
        self._rescued, self._by = rescued, by
        self._off, self._left = frozenset(switches.off), Counter[str]()
        self._leases_left: set[UUID] = set()
        self._late: tuple[Transition, ...] = ()
        self._overdue_since: dict[tuple[UUID, Token], float] = {}
        self._refusals: defaultdict[tuple[UUID, Token], int] = defaultdict(int)
        self.has_locked, self.pause_of_locked = False, math.inf
        """Whether a job or an outcome was found locked, and the seconds until the next try: 0.05 at first, doubled up to 60."""
        self.pause = math.inf
        """Seconds until leases that could not be judged yet are checked again. A supervisor may judge a short lease only if the
        store answers it as often as it answers the lease's owner."""

    async def step(self, *, skip_amnesty: bool = False) -> list[Rescued]:
        """Run one pass: deliver late outcomes, end leases whose owner lost its right, and return the jobs that were rescued."""
        self.pause, self.has_locked = math.inf, False
        self._left.clear()
        try:
            await self._deliver(())
        except HoldfastError as error:
            self._require_answer("deliver", error)
        rescued = await self.reconcile(is_patient=not skip_amnesty)
        leases = await self._expired()
        if self._compare_clocks is not None and any(lease.end is None for lease in leases):
            await self._compare_clocks()  # after a step of the store's clock all leases look expired: then none is judged
        for lease in leases:
            try:
                rescued += await self._take_from(lease, skip_amnesty=skip_amnesty)
            except HoldfastError as error:
                self._require_answer("rescue", error)
        rescued += await self._end_overdue()
        if self._left:
            self._events.emit(EventName.RECOVERY_SKIPPED, **self._left)
        pause = SHORTEST_PAUSE if self.pause_of_locked == math.inf else min(2 * self.pause_of_locked, LONGEST_PAUSE)
        self.pause_of_locked = pause if self.has_locked else math.inf
        return rescued

    async def _take_from(self, lease: LeaseView, *, skip_amnesty: bool) -> list[Rescued]:
        why = lease.end
        if why is None:
            if not (skip_amnesty or self._allows(lease.timing)):
                return []
            why = await self._store.end_lease(lease.id, LeaseEnd(RescueReason.EXPIRED), seen=lease.seen)
            if why is None:
                return []
            self._announce_end(lease.id, lease.worker, why)
        return await self.empty(lease.id, lease.worker, why)

    def _require_answer(self, operation: str, error: HoldfastError) -> None:
        """Report that one lease cannot be handled now, so that the caller goes on; raise if the store is unreachable."""
        if not is_answer(error):
            raise error
        self._events.emit(failure_of_store(error), operation=operation, error=described(error), failures=1)

    async def expire(self) -> int:
        """Fail a batch of jobs that no worker started before they expired; return how many."""
        expired = await self._store.expire(EXPIRED_PER_STEP) if "expired" not in self._off else ()
        for each in expired:
            self._events.emit(EventName.JOB_EXPIRED, job=each.job, task=each.task)
        if expired:
            report_flows(self._store, self._events)
        return len(expired)

    async def _end_overdue(self) -> list[Rescued]:
        """Rescue jobs of live workers far past a limit: their own supervisor should have ended them long ago.

        Perhaps another session had the job locked until now, and its owner has an outcome for it: the owner sends that first.
        """
        sent = self._now()
        found = await self._store.overdue(JOBS_PER_MOVE)
        self._contact.answered(sent)
        now, own = self._now(), self._own()
        keys = [(each.job.id, each.job.token) for each in found]
        self._overdue_since = {key: self._overdue_since.get(key, now) for key in keys}
        late = [
            each
            for each, key in zip(found, keys, strict=True)
            if each.job.lease not in own and self._allows(each.timing, since=self._overdue_since[key])
        ]
        if late and "overrun" in self._off:
            self._left["overrun"] += len(late)
            return []
        if not late:
            return []
        jitters = [self._chance.jitter() for _ in late]
        moves = [
            lifecycle.deadline_exceeded_elsewhere(each.job, each.charge, jitter=jitter, by=self._by)
            for each, jitter in zip(late, jitters, strict=True)
        ]
        answer = await self._store.exchange(moves)
        moved = [(o, m) for o, m, a in zip(late, moves, answer.answers, strict=True) if a is Answer.APPLIED]
        rescued = [self._announce(o.job, m, o.worker, o.charge.value, None, now) for o, m in moved]
        self._report_flows(move for _, move in moved)
        if rescued:
            self._announce_completed(None, None, rescued)
        await self._publish(hints_of_rescued((each.job, move, each.charge.value) for each, move in moved))
        return rescued

    async def reconcile(self, *, by_host_name: bool = False, is_patient: bool = False) -> list[Rescued]:
        """Kill what is left of the sessions of provably dead processes, then end their leases and rescue their jobs.

        ``by_host_name``: a process of this host's name that does not run here counts as dead, without further proof.
        ``is_patient`` skips leases renewed recently: their own supervisor recovers them, and knows better why they died.
        """
        if self._host is None:
            return []
        rescued: list[Rescued] = []
        ours = self._host.process()
        for lease in await self._workers():
            if is_patient and not self._is_unattended(lease):
                continue
            theirs = lease.process
            is_dead = is_provably_dead(theirs, ours, is_running=self._host.is_running(theirs))
            if is_dead or (by_host_name and theirs.host == ours.host and not self._host.is_running(theirs)):
                self._host.kill_orphans(theirs)
                try:
                    rescued += await self.end(lease.id, lease.worker, LeaseEnd(RescueReason.CRASHED))
                except HoldfastError as error:
                    self._require_answer("reconcile", error)
        return rescued

    async def end(self, lease: UUID, worker: str, why: LeaseEnd, *, undelivered: Sequence[Transition] = ()) -> list[Rescued]:
        """Deliver the outcomes that an exited worker left behind, end its lease, and rescue the rest of its jobs."""
        began = self._now()
        await self._deliver(undelivered)
        # Another supervisor may have ended it before, for another reason: the first reason stays and decides which jobs pay.
        stands = await self._store.end_lease(lease, why) or why
        self._announce_end(lease, worker, stands)
        return await self.empty(lease, worker, stands, began=began)

    async def _deliver(self, outcomes: Sequence[Transition]) -> None:
        """Settle outcomes that exited workers left behind, and those whose rows were locked before.

        They are sent together. If the store refuses that, each is sent separately: a refused one must delay neither the
        others nor the end of its lease for long. An outage is not a refusal: unanswered outcomes are sent until answered.
        """
        outcomes = (*self._late, *outcomes)
        wanted = [each for each in outcomes if self._refusals[each.job, each.token] < MOST_REFUSALS]
        try:
            answers = (await self._store.exchange(wanted)).answers if wanted else ()
            late = [each for each, answer in zip(wanted, answers, strict=True) if answer is Answer.BUSY]
        except Exception as error:
            if not is_refusal(error):
                raise
            late = [each for each in wanted if not await self._is_delivered(each)]
            if any(self._refusals[each.job, each.token] for each in late):
                raise
        self._report_flows(wanted)
        self.has_locked = self.has_locked or bool(late)
        asked = {(each.job, each.token) for each in outcomes}
        # Two workers may be recovered at once: each call keeps the outcomes that the other has just found locked.
        self._late = (*(each for each in self._late if (each.job, each.token) not in asked), *late)
        for key in asked:
            self._refusals.pop(key, None)

    async def _is_delivered(self, outcome: Transition) -> bool:
        """Return whether the store answered the outcome, or has refused it so often that it is given up."""
        key = outcome.job, outcome.token
        try:
            return (await self._store.exchange([outcome])).answers != (Answer.BUSY,)
        except Exception as error:
            if not is_refusal(error):
                raise
            self._refusals[key] += 1
            fields = {"job": outcome.job, "error": described(error), "failures": self._refusals[key]}
            self._events.emit(EventName.STORE_REFUSED, operation="deliver", **fields)
            return self._refusals[key] >= MOST_REFUSALS

    async def empty(self, lease: UUID, worker: str, why: LeaseEnd, *, began: float | None = None) -> list[Rescued]:
        """Rescue the jobs of an ended lease, in bounded batches, until none is left that can be moved.

        A job that another session has locked, or has moved first, or whose kind is not recovered, does not delay those behind it.
        """
        rescued: list[Rescued] = []
        began = self._now() if began is None else began
        passed, left = {(each.job, each.token) for each in self._late}, Counter[str]()
        while found := await self._store.held(lease, HOLDS_PER_MOVE + len(passed)):
            seen = [hold for hold in found if (hold.id, hold.token) not in passed]
            if not seen:
                break
            holds = [hold for hold in seen if hold.state.value not in self._off]
            left.update(hold.state.value for hold in seen if hold.state.value in self._off)
            moves = [lifecycle.rescue(hold, why, jitter=self._chance.jitter(), by=self._by) for hold in holds]
            answers = await self._move(moves) if moves else ()
            moved = [(h, m) for h, m, a in zip(holds, moves, answers, strict=True) if a is Answer.APPLIED]
            passed |= {(hold.id, hold.token) for hold in seen} - {(hold.id, hold.token) for hold, _ in moved}
            self._say_what_is_locked(answers)
            rescued += [self._announce(hold, move, worker, why.reason.value, why.signal, began) for hold, move in moved]
            self._report_flows(move for _, move in moved)
            await self._publish(hints_of_rescued((hold, move, why.reason.value) for hold, move in moved))
        self._left += left
        (self._leases_left.add if left else self._leases_left.discard)(lease)
        if rescued:
            self._announce_completed(worker, why.signal or why.reason.value, rescued)
        return rescued

    async def _move(self, moves: Sequence[Transition]) -> Sequence[Answer]:
        """Apply the transitions together; if the store refuses that, apply each separately, so that one does not block others.

        Raise the store's error if it refuses all of them.
        """
        try:
            return (await self._store.exchange(moves)).answers
        except Exception as error:
            if len(moves) == 1 or not is_refusal(error):
                raise
        answers: list[Answer] = []
        for move in moves:
            try:
                answers += (await self._store.exchange([move])).answers
            except Exception as error:
                if not is_refusal(error) or (len(answers) == MOST_REFUSALS and Answer.APPLIED not in answers):
                    raise
                answers.append(Answer.LOST)
                self._events.emit(EventName.STORE_REFUSED, operation="rescue", job=move.job, error=described(error), failures=1)
        return answers

    def _say_what_is_locked(self, answers: Sequence[Answer]) -> None:
        if count := answers.count(Answer.BUSY):
            self.has_locked = True
            error = "another session has their rows locked; each is asked for again until that one ends its transaction"
            self._events.emit(EventName.STORE_BUSY, operation="rescue", error=error, jobs=count)

    def _is_unattended(self, lease: LeaseView) -> bool:
        unbeaten = lease.timing.ttl + lease.overdue
        return unbeaten > lease.timing.beat + lease.timing.margin and self._allows(lease.timing)

    def _allows(self, lease: LeaseTiming, *, since: float = -math.inf) -> bool:
        is_allowed = self._contact.may_judge(lease, since=since)
        self.pause = self.pause if is_allowed else min(self.pause, lease.beat or math.inf)
        return is_allowed

    async def _expired(self) -> tuple[LeaseView, ...]:
        sent = self._now()
        leases = await self._store.expired(LEASES_PER_STEP + len(self._leases_left))
        self._contact.answered(sent)
        own = self._own()
        return tuple(lease for lease in leases if lease.id not in own)

    async def _workers(self) -> tuple[LeaseView, ...]:
        sent = self._now()
        leases = await self._store.workers()
        self._contact.answered(sent)
        own = self._own()
        return tuple(lease for lease in leases if lease.id not in own)

    def _announce(self, hold: ActiveJob, move: Transition, worker: str, reason: str, signal: str | None, began: float) -> Rescued:
        to, took = move.with_cancellation(cancel_requested=hold.cancel_requested).to, self._now() - began
        if (tallies := self._events.tallies) is not None:
            times = {"delay": took, "wall": self._wall()}
            count_rescue(tallies, hold, move, to, reason=reason, is_own=hold.lease in self._own(), **times)
        if self._rescued is not None:
            self._rescued(hold, move, worker)
        rescued = Rescued(hold.id, hold.task, reason, worker, hold.attempt, to)
        self._events.emit_as(
            rescued_line(hold, move, to, worker, signal or reason, took),
            EventName.JOB_RESCUED,
            job=hold.id,
            task=hold.task,
            attempt=hold.attempt,
            worker=worker,
            reason=signal or reason,
            to=to.value,
            crashes=move.crashes,
            fraction=hold.fraction,
            delay=move.delay or None,
            recovery="store",
        )
        return rescued

    def _announce_completed(self, worker: str | None, reason: str | None, rescued: Sequence[Rescued]) -> None:
        by_reason, by_task = (dict(Counter(each)) for each in ([job.reason for job in rescued], [job.task for job in rescued]))
        fields = {"worker": worker, "reason": reason, "jobs": len(rescued), "by_reason": by_reason, "by_task": by_task}
        self._events.emit(EventName.RECOVERY_COMPLETED, **fields)

    def _report_flows(self, moves: Iterable[Transition]) -> None:
        if any(move.has_flow for move in moves):
            report_flows(self._store, self._events)

    def _announce_end(self, lease: UUID, worker: str, why: LeaseEnd) -> None:
        # A free end is not reported as a crash: the supervisor killed the worker, or the worker had to stop anyway.
        reason = "killed" if why.is_free and why.reason is RescueReason.CRASHED else why.reason.value
        self._events.emit(EventName.LEASE_ENDED, lease=lease, worker=worker, reason=reason, signal=why.signal)


def hints_of_rescued(moved: Iterable[tuple[ActiveJob, Transition, str]]) -> list[Hint]:
    """Return hints about rescued jobs, grouped by queue and reason.

    Jobs that are not due share one hint without a queue: it reaches the worker that had them in any case.
    """
    groups: dict[tuple[str, str], list[UUID]] = {}
    for hold, move, reason in moved:
        is_due = move.to is State.AVAILABLE and not move.delay and not hold.cancel_requested
        groups.setdefault((hold.queue, reason) if is_due else ("", ""), []).append(hold.id)
    return [Hint(queue, tuple(jobs), reason) for (queue, reason), jobs in groups.items()]

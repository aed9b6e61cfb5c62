"""The supervisor's view of one worker process, from spawn until its jobs are recovered."""

import asyncio
from collections.abc import Callable, Sequence
from typing import assert_never
from uuid import UUID

from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.requests import BeatNote, NewLease
from holdfast._core.tallies import TallyDelta
from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.events import EventName, Events
from holdfast._engine.supervisor.limits import Limits, TimedAttempt
from holdfast._engine.supervisor.recovery import Contact
from holdfast._ports.host import Exit, WorkerChild

START_TIMEOUT = 120.0
"""Seconds from a worker's spawn to its hello, while it imports the application."""


class WorkerHandle:
    """What the supervisor knows about one worker, and what it decides about it."""

    def __init__(
        self,
        child: WorkerChild,
        *,
        now: Callable[[], float],
        events: Events,
        is_isolated: bool = False,
        counted: Callable[[str, TallyDelta], None] | None = None,
    ) -> None:
        self.child, self._counted = child, counted
        self.is_isolated = is_isolated
        self.name = str(child.process.pid)
        self.lease: NewLease | None = None
        self.hello: messages.WorkerHello | None = None
        self.refused: tuple[str, ...] = ()
        self.undelivered: tuple[Transition, ...] = ()
        self.charged_jobs: dict[UUID, RescueReason] = {}
        self.limits = Limits(now)
        self.stacks: str | None = None
        self.deadline = float("-inf")
        self.is_ready = False
        self.is_gone = self.has_begun = self.is_retired = False
        self.is_idle: bool | None = None
        self.drain_by: float | None = None
        self.kill_reason: str | None = None
        self._is_end_free = False
        self._now = now
        self._events = events
        self._watched = self.ponged = self._answered = now()
        self._silence = 0.0
        self._asked = self._answered_ping = self._reported_until = float("-inf")
        self._unresponsive_since: float | None = None
        self.pong: messages.Pong | None = None
        self._lag = self.lag = 0.0
        self.renewed = float("-inf")
        self._stopped_since: float | None = None
        self._lapsed: float | None = None
        self._guard_deadline = float("-inf")
        self._unguarded_since: float | None = None
        self._voids, self._is_voiding, self._voided = 0, False, float("-inf")

    @property
    def is_listening(self) -> bool:
        """Whether the worker has subscribers to events, and is not about to end."""
        return self.is_ready and not self.is_gone and self.drain_by is None and self.hello is not None and self.hello.listens

    def lease_granted(self, lease: NewLease, sent: float) -> None:
        """Adopt the lease that the store has opened, and send it to the worker. Its deadlines count from ``sent``, when the call left."""
        self.lease, self.name, self.renewed = lease, lease.worker, sent
        self.ponged = self._answered = self._now()
        self._silence = 0.0
        self.deadline = lease.timing.owner_deadline(sent)
        self._guard_deadline = lease.timing.guard_deadline(sent)
        self._set_guard_deadline(lease)
        self.send(messages.LeaseGranted(lease.id, lease.worker, self.deadline, self.is_isolated))

    def lease_renewed(self, sent: float) -> None:
        """Extend the worker's deadlines, because the store answered its beat. They count from ``sent``, when the beat left."""
        if self.lease is not None:
            self.renewed = sent
            now, timing = self._now(), self.lease.timing
            if now >= self.deadline:
                self._lapsed = now
            self.deadline = timing.owner_deadline(sent)
            self._guard_deadline = timing.guard_deadline(sent)
            self._set_guard_deadline(self.lease)
            self.send(messages.LeaseRenewed(self.deadline))

    def _set_guard_deadline(self, lease: NewLease) -> None:
        """Set the deadline at which the guard kills the worker's code, even if this supervisor is gone by then."""
        is_guarded = self.child.set_deadline(
            min(self._guard_deadline, self.limits.kill_deadline(_kill_delay(lease.timing, lease.grace)))
        )
        if not is_guarded and self._unguarded_since is None:
            self._unguarded_since = self._now()

    def lease_lost(self) -> None:
        """Make the worker stop, because its lease was ended elsewhere; it is killed if it does not stop."""
        if not self.is_gone and self.lease is not None:
            self.is_gone = True
            self.send(messages.LeaseLost())
            self.drain_by = self._now() + self.lease.timing.margin

    def drain(self, grace: float, *, is_free: bool = True, reason: str | None = None) -> None:
        """Ask the worker to end; a shorter grace replaces a longer one.

        ``is_free``: this request explains the end of its lease, even if the process crashes before it is done.
        ``reason``: why this worker has to end while its supervisor goes on; it is reported to operators.
        """
        by = self._now() + grace
        if self.drain_by is None or by < self.drain_by:
            self.drain_by = by
            self._is_end_free = self._is_end_free or is_free
            if reason is not None:
                self._events.emit(EventName.WORKER_DRAINING, worker=self.name, reason=reason)
            self.send(messages.Drain(grace))

    def retire(self, grace: float) -> None:
        """Drain it because an operator wants it to end; no other worker follows it."""
        if not self.is_retired:
            self.is_retired = True
            self.drain(grace, reason="an operator asked for it")

    def kill(self, reason: str, *, is_free: bool = False) -> None:
        """Kill the worker's session; only the first call has an effect. ``is_free``: the kill explains the end of its lease."""
        if self.kill_reason is None:
            self.kill_reason = reason
            self._is_end_free = self._is_end_free or is_free
            self._events.emit(EventName.WORKER_KILLED, worker=self.name, reason=reason)
            self.child.kill()

    def ping(self) -> None:
        """Ask the worker whether its event loop runs, and whether it has nothing to do."""
        self._asked = self._now()
        if self._unresponsive_since is None:
            self._unresponsive_since = self._asked
        self.is_idle = None
        self.send(messages.Ping())

    def send(self, message: messages.Message) -> None:
        """Send a message through the worker's pipe."""
        self.child.channel.send(messages.encode(message))

    def handle(self, message: messages.Message) -> None:
        """Apply a message that the worker sent."""
        # size: one case for each message
        match message:
            case messages.WorkerHello():
                self.hello = message
            case messages.StartRefused(problems=problems):
                self.refused = problems
            case messages.Ready():
                self.is_ready = True
            case messages.Pong(answered=answered, is_idle=is_idle):
                self._answers(answered)
                self.is_idle, self.pong = is_idle, message
            case messages.TalliesSent(delta=delta):
                if self._events.tallies is not None:
                    self._events.tallies.add(delta)
                if self._counted is not None:
                    self._counted(self.name, delta)
            case messages.UndeliveredOutcomes(transitions=transitions):
                self.undelivered = transitions
            case messages.ClaimsLost():
                self._is_voiding = True
            case messages.CodeUnresponsive(jobs=jobs):
                self.charged_jobs = dict.fromkeys(jobs, RescueReason.UNRESPONSIVE) | self.charged_jobs
            case messages.AttemptWaiting(job=job, token=token, progress_within=within):
                self.limits.wait(job, token, within)
            case messages.AttemptStarted(job=job, token=token, at=at):
                self.has_begun = True
                self.limits.begin(job, TimedAttempt(token, message.progress_within, message.timeout, at, at))
            case messages.AttemptProgressed(job=job, at=at):
                self.limits.move(job, at)
            case messages.AttemptStopped(job=job, token=token):
                self.limits.end(job, token)
                self.charged_jobs.pop(job, None)
            case messages.AttemptOverdue():
                self._end_overdue()
            case (
                messages.LeaseGranted()
                | messages.LeaseRenewed()
                | messages.LeaseLost()
                | messages.CancelJobs()
                | messages.ClaimsVoided()
                | messages.DeadlineExceeded()
                | messages.EventForwarded()
                | messages.DumpStacks()
                | messages.Ping()
                | messages.Drain()
            ):
                pass
            case _:
                assert_never(message)

    def _answers(self, store_answered: float) -> None:
        self.ponged = self._now()
        self.lag = self._waited()
        self._lag = max(self._lag, self.lag)
        if (
            self._unresponsive_since is not None
            and self.lease
            and self.ponged - self._unresponsive_since > self.lease.timing.beat
        ):
            store_answered = self.ponged  # its event loop was blocked, so it did not ask the store either
        if store_answered > self._answered:
            self._answered, self._silence = store_answered, 0.0
        if self._unresponsive_since is not None:
            # A report may reach the worker's event loop together with a ping, and be passed on after the pong: two pongs prove it.
            self._reported_until, self._answered_ping = self._answered_ping, self._unresponsive_since
        self._unresponsive_since = None

    def _waited(self) -> float:
        """Return the seconds for which a ping has waited for its answer so far."""
        return 0.0 if self._unresponsive_since is None else self._now() - self._unresponsive_since

    @property
    def since_renewed(self) -> float:
        """Seconds since the last beat left that the store answered for it."""
        return max(0.0, self._now() - self.renewed)

    def seconds_until_void(self, within: float) -> float:
        """Return the seconds until its event loop has answered no ping for this long, 0 while a void of its claims is to be done.

        While it stays blocked, its claims are voided again and again: a claim that was under way may land after a void.
        """
        if self.lease is None or self.is_gone or not self.is_ready:
            return within
        if self._is_voiding or self._unresponsive_since is None:
            return 0.0 if self._is_voiding else within
        return max(0.0, max(self._unresponsive_since, self._voided) + within - self._now())

    def next_void(self) -> int:
        """Return the number of a new void of its claims, which is unanswered until ``claims_voided``."""
        self._voids, self._is_voiding = self._voids + 1, True
        return self._voids

    def claims_voided(self) -> None:
        """Record that the void of its claims is done."""
        self._is_voiding, self._voided = False, self._now()

    def note(self, kept: float, memory: int | None) -> BeatNote:
        """Return what is known about the worker now. Its next note has the lag from here on."""
        assert self.lease is not None
        pong, lag, self._lag = self.pong, max(self._lag, self._waited()), 0.0
        if pong is None:
            return BeatNote(lease=self.lease.id, kept=kept, memory=memory, loop_lag=lag or None)
        return BeatNote(
            lease=self.lease.id,
            kept=kept,
            memory=memory,
            running=pong.running,
            claimed=pong.claimed,
            loop_lag=lag,
            silence=self._now() - self.ponged,
        )

    async def wait_for_exit(self) -> Exit:
        """Return how the worker ended; kill it if it sends no hello for ``START_TIMEOUT`` seconds: no ping checks it before."""
        try:
            async with asyncio.timeout(START_TIMEOUT):
                return await self.child.wait()
        except TimeoutError:
            if self.hello is None:
                self.kill(f"not started within {START_TIMEOUT:g} s", is_free=True)
        return await self.child.wait()

    def watch(self, timing: LeaseTiming, contact: Contact, *, max_block: float, grace: float) -> None:
        """Kill or drain a worker that is stopped, blocked, overdue or cut off from the store; ping it once a beat."""
        now = self._now()
        was_frozen = now - self._watched > timing.beat  # the supervisor was, and may have missed what the worker did
        if was_frozen or self._unresponsive_since is not None or contact.is_silent():
            self.limits.pause(now - self._watched)
        if was_frozen or contact.is_silent():
            self._silence += now - self._watched
        if was_frozen:
            self._unresponsive_since = self._stopped_since = None
        self._watched = now
        self._judge_limits(grace)
        if not self.child.is_stopped():
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        is_in_doubt = self._unresponsive_since is None and self.limits.is_in_doubt()
        if self.is_ready and (is_in_doubt or now - self._asked >= timing.beat):
            self.ping()
        stopped = 0.0 if self._stopped_since is None else now - self._stopped_since
        # A process stopped inside a write blocks every writer of an embedded store, this supervisor included.
        if stopped >= timing.ttl - timing.margin or (contact.is_silent() and stopped >= timing.beat):
            self.kill("stopped")
        elif self._unresponsive_since is not None and now - self._unresponsive_since > max_block:
            self.stacks = self.child.dump_stacks()
            self.kill("its event loop is blocked")
        elif self.drain_by is not None and now > self.drain_by + timing.margin:
            self.stacks = self.child.dump_stacks() if self.charged_jobs else None
            self.kill("it did not end when asked")
        elif hopeless := self.limits.beyond_deadline(_kill_delay(timing, grace)):
            self.charged_jobs |= hopeless  # other supervisors may rescue them soon: none of their code may run then
            self.stacks = self.child.dump_stacks()
            self.kill("its code runs far beyond its limit", is_free=True)
        elif self.charged_jobs:
            self.drain(grace, reason="its code does not stop after its limit")
        elif self._is_cut_off(timing, contact):
            self.drain(grace, reason="its own connection to the store is silent")
        elif self._is_unguarded(timing):
            # Not free: the worker may have crashed too, with an exit that is only seen late.
            self.drain(grace, is_free=False, reason="its guard has ended")

    def _judge_limits(self, grace: float) -> None:
        """Ask code past a limit to stop; code that does not stop within the grace costs the worker process."""
        self._end_overdue()
        self.charged_jobs |= self.limits.unresponsive(grace)
        if (
            self.lease is not None
            and self.limits.kill_deadline(_kill_delay(self.lease.timing, self.lease.grace)) < self._guard_deadline
        ):
            self._set_guard_deadline(self.lease)

    def _end_overdue(self) -> None:
        for job, token, charge in self.limits.exceeded(self._reported_until):
            self._events.emit(EventName.JOB_DEADLINE_EXCEEDED, job=job, worker=self.name, reason=charge.value)
            self.send(messages.DeadlineExceeded(job, token, charge))

    def _is_cut_off(self, timing: LeaseTiming, contact: Contact) -> bool:
        """Return whether the store answers this supervisor but not the worker.

        Only a pong can show this: a worker whose event loop is blocked neither asks the store nor answers pings.
        """
        # Counted across this supervisor's own gaps, less their length: a store that fails now and then would else hide it.
        asked_in_vain = self.ponged - self._answered - self._silence
        return self.is_ready and not contact.is_silent() and asked_in_vain > timing.ttl

    def _is_unguarded(self, timing: LeaseTiming) -> bool:
        """Return whether the guard is gone for longer than it takes to notice that the whole worker is gone."""
        return self._unguarded_since is not None and self._now() - self._unguarded_since > timing.beat / 2

    def lease_end(self, exit: Exit) -> LeaseEnd:
        """Return why the lease ends, and whether its jobs pay a crash for it.

        No job pays if the end is explained (a drain, a deliberate kill), or if the code had to stop before anyway.
        """
        if exit.code == 0 and self.drain_by is not None:
            return LeaseEnd(RescueReason.CLOSED, is_free=True)
        # The guard may have killed it at a deadline that this supervisor, frozen at the same time, renewed too late.
        is_late = self._lapsed is not None and self.lease is not None and self._now() - self._lapsed < self.lease.timing.beat
        is_free = self._is_end_free or is_late or self._now() >= self.deadline
        return LeaseEnd(RescueReason.CRASHED, str(exit), is_free=is_free, charged_jobs=self.charged_jobs, stacks=self.stacks)


def _kill_delay(timing: LeaseTiming, grace: float) -> float:
    """Return the seconds after a limit by which its code is killed: other supervisors rescue the job after ttl and grace."""
    return timing.ttl + grace - timing.margin


def tasks_of(workers: Sequence[WorkerHandle]) -> list[str]:
    """Return the names of the tasks that these workers know, sorted."""
    return sorted({task for worker in workers if worker.hello is not None for task in worker.hello.tasks})


def queues_of(workers: Sequence[WorkerHandle]) -> tuple[str, ...] | None:
    """Return the queues that these workers serve, which are the same for all; ``None`` means every queue."""
    return next((worker.hello.queues for worker in workers if worker.hello is not None), ()) or None


def named_queues_of(workers: Sequence[WorkerHandle]) -> tuple[str, ...]:
    """Return the queues that the code of these workers names."""
    return next((worker.hello.declared.named for worker in workers if worker.hello is not None), ())

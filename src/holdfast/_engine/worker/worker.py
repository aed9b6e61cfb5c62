"""One worker process: claim, run, settle, drain. Its supervisor sends its deadline; it stops there without being asked."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, assert_never
from uuid import UUID

from msgspec import structs

from holdfast._core.job import RescueReason, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import IsolatedJobs
from holdfast._engine import messages
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName, failure_of_store
from holdfast._engine.rows.tables import Tables
from holdfast._engine.runners.current import WORKER
from holdfast._engine.runners.options import Runners
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.runners.running import Stop
from holdfast._engine.runners.threads import ThreadRunner
from holdfast._engine.service import ERRORS, Service, Signal
from holdfast._engine.tasks.lifespan import Lifespan
from holdfast._engine.tasks.registry import Registry, RunnerKind
from holdfast._engine.worker.attempt_calls import AttemptCalls
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.drain import Drain
from holdfast._engine.worker.exchange import Exchange
from holdfast._engine.worker.executor import Executor
from holdfast._engine.worker.inbox import Inbox
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._engine.worker.rescue_hooks import RescueHooks
from holdfast._engine.worker.slots import Slots
from holdfast._engine.worker.startup_checks import require_startup_checks
from holdfast._engine.worker.step_records import StepRecords
from holdfast._engine.worker.undelivered import OutcomeBackup
from holdfast._ports.host import RunnerHost, SupervisorLink
from holdfast._ports.transport import Hint
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings

TALLIES_EVERY = 0.5
"""Seconds between two messages with tallies. A kill loses what was counted since the last one, at most a second on a busy machine."""


class Worker:
    """One incarnation of a worker, from its lease to its end."""

    def __init__(
        self,
        link: SupervisorLink,
        environment: Environment,
        *,
        registry: Registry,
        settings: Settings,
        options: WorkerOptions,
        tables: Tables | None = None,
        runner_host: RunnerHost | None = None,
        runners: Runners | None = None,
        lifespan: Lifespan | None = None,
    ) -> None:
        self._link, self._environment = link, environment
        self._store, self._transport, self._events = environment.store, environment.transport, environment.events
        self._registry, self._settings, self._options = registry, settings, options
        self._tables, self._lifespan = tables, lifespan or Lifespan()
        self.lease = WorkerLease(environment.lease_time)
        self.threads = ThreadRunner(options.threads)
        self.pool = None if runner_host is None else self._open_pool(runner_host, runners or Runners())
        self._drain, self._ending = Drain(self.lease.now), Signal()
        self._is_orphan = self._is_isolated = self.is_damaged = False
        self._reports = AttemptReporter(link, self.lease.now)
        self._backup = OutcomeBackup(self._send)
        self._receiving: Service | None = None
        self._tallies = self._events.tallied().reader() if options.tallies else None

    async def run(self) -> None:
        """Run until drained, orphaned or without a lease; then no code of it runs and all outcomes are delivered."""
        tasks, rows = self._registry.names(), self._registry.rows_tasks()
        queues, slots = self._options.queues or (), self._options.concurrency
        listens = self._events.has_subscribers
        limits, schedules, declared = self._link.limits, self._registry.schedules(), self._registry.declared()
        self._send(messages.WorkerHello(self._settings, tasks, queues, limits, slots, listens, rows, schedules, declared))
        granted = await self._first_message()
        if granted is None:
            return
        WORKER.set(granted.worker)
        self.lease.grant(granted.lease, granted.worker, granted.deadline)
        self._assemble(is_isolated=granted.is_isolated)
        try:
            timeout = self._settings.timing.beat
            await require_startup_checks(self._registry, self._tables, self._store, self._events, timeout=timeout)
            await self._lifespan.enter()
            await self._serve()
        except ConfigurationError as error:
            self._send(messages.StartRefused(tuple(error.problems)))
            await self._end_lease()
        finally:
            await self._transport.close()
            self.threads.close()
            self.hooks.close()
            if self.pool is not None:
                await self.pool.close()
            await self._lifespan.leave()

    def abandon(self) -> None:
        """Stop the code that can be stopped, in a process that must not be killed; the worker's messages no longer count."""
        if self.lease.deadline > float("-inf"):
            self.exchange.close()
            self.executor.stop_all(Stop.LOST)
        self.lease.lose()

    async def _serve(self) -> None:
        self.executor.state = self._lifespan.state
        services = [self._exchanging, self._reporting, self._auditing, self._watching]
        if self.hooks.has_hooks and not self._is_isolated:
            services.append(self._running_hooks)
        if self.exchange.ahead.is_on:
            services.append(self._starting)
        if self._receiving is not None:
            services.append(self._receiving)
        if self._options.tallies:
            services.append(self._telling)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in (*(each.run() for each in services), self._listen())]
            await self._transport.subscribe(self._hinted)
            self._send(messages.Ready())
            self._events.emit(EventName.WORKER_READY, worker=self.lease.worker)
            await self._until_ended()
            for task in tasks:
                task.cancel()

    def _assemble(self, *, is_isolated: bool) -> None:
        self._is_isolated = self._reports.tells_all = is_isolated
        options, settings, beat = self._options, self._settings, self._settings.timing.beat
        if is_isolated:
            options = structs.replace(options, concurrency=1, isolated=IsolatedJobs.ONLY)
        calls = AttemptCalls(self._environment, self._reports, lost=self._lose)
        children, steps = ChildJobs(self._environment, calls), StepRecords(self._store, calls, longest_nap=beat)
        parts = (self._store, self._reports, calls, children, steps)
        progress = ProgressWriter(*parts, now=self.lease.now, idle=settings.timing.margin, every=settings.progress_every)
        threads = options.threads + options.runners
        self.hooks = RescueHooks(
            self._environment, self._registry, settings, self.lease, threads=threads, may_start=self._may_claim
        )
        self.executor = Executor(
            self._environment,
            self._registry,
            progress,
            self.lease,
            self._reports,
            threads=self.threads,
            pool=self.pool,
            hooks=self.hooks,
        )
        self._slots = Slots(self._registry, self.executor, options, self.pool)
        poll, wake = settings.poll_interval, self.executor.finished.wake
        inbox = self._make_inbox(wake)
        own = (self._environment, self.executor, progress, self.lease, self._slots, options)
        self.exchange = Exchange(*own, poll_interval=poll, beat=beat, ask_for_void=self._ask_for_void, inbox=inbox)
        self._exchanging = self._service("exchange", self._exchange, pause=min(poll, beat), wake=wake)
        self._reporting = self._service("report", partial(self._report, progress), pause=min(1.0, beat), wake=progress.wake)
        self._auditing = self._service("audit", self._audit, pause=beat)
        self._starting = self._service("start", self.exchange.ahead.step, pause=beat, wake=self.exchange.ahead.wake)
        self._watching = self._service("watch", self._watch, pause=beat)
        self._running_hooks = self._service("hooks", self._run_hooks, pause=beat)
        self._telling = self._service("tallies", self._tell_tallies, pause=TALLIES_EVERY)

    def _make_inbox(self, wake: Signal) -> Inbox | None:
        """Return no inbox for an isolated worker and for one that ends when nothing is due: they find their jobs by themselves."""
        deliveries = self._transport.deliveries
        if deliveries is None or self._is_isolated or self._options.most is not None:
            return None
        pause, queues = self._settings.poll_interval, self._options.queues
        inbox = Inbox(deliveries, self._transport.publish, queues=queues, free=self._free, wake=wake, pause=pause)
        self._receiving = self._service("receive", inbox.step, pause=pause)
        return inbox

    def _open_pool(self, host: RunnerHost, runners: Runners) -> RunnerPool:
        return RunnerPool(
            host,
            runners,
            size=self._options.runners,
            grace=self._settings.grace,
            margin=self._settings.timing.margin,
            pause=self._settings.poll_interval,
            events=self._events,
            chance=self._environment.chance,
        )

    def _service(
        self, name: str, step: Callable[[], Coroutine[Any, Any, float]], *, pause: float, wake: Signal | None = None
    ) -> Service:
        chance, damaged = self._environment.chance, self._damaged
        return Service(name, step, events=self._events, chance=chance, longest_pause=pause, wake=wake, on_damage=damaged)

    def _damaged(self, problems: Sequence[str]) -> None:
        """End, and leave the outcomes to the supervisor: the store does not answer again before a backup is restored."""
        self._send(messages.StartRefused(tuple(problems)))
        self.is_damaged = True
        self.exchange.close()
        self.executor.stop_all(Stop.LATE)
        self._ending.set()

    async def _exchange(self) -> float:
        try:
            wait = await self.exchange.step()
        except ERRORS:
            self._backup.send(self.exchange.undelivered)  # a kill before the store is back must not cost a result
            raise
        if self._receiving is not None:
            self._receiving.wake.set()
        if self._is_finished() and not self.exchange.is_closed:
            self.exchange.close()
            self._ending.set()
        return wait

    def _is_finished(self) -> bool:
        """Return whether to claim nothing more. An isolated worker claims once, so that its job can hurt no other one."""
        if self._options.most is None:
            return self._is_isolated and self.exchange.has_claimed
        is_settled = self.exchange.is_delivered or self.exchange.has_refused_only
        is_quiet = not self.executor.running and is_settled and self.hooks.is_idle
        return is_quiet and (self.executor.started >= self._options.most or self.exchange.looks.next_due != 0.0)

    async def _report(self, progress: ProgressWriter) -> float:
        lost, pause = await progress.step()
        for job, token in lost:
            self._lose(job, token)
        return pause

    def _lose(self, job: UUID, token: Token) -> None:
        self.executor.stop(job, Stop.LOST, token=token)

    async def _run_hooks(self) -> float:
        pause = await self.hooks.step()
        if self.hooks.is_idle:
            self._exchanging.wake.set()
        return pause

    def _may_claim(self) -> bool:
        return self.lease.may_act() and not self.exchange.is_closed

    def _free(self) -> int:
        """Return the slots for deliveries: none while the worker's own look at the store finds more than it can run."""
        return self._slots.free() - self.exchange.kept if self._may_claim() and not self.exchange.looks.has_backlog else 0

    async def _audit(self) -> float:
        """Request an audit of the jobs that the store records for this worker, and back up old outcomes; runs once a beat."""
        if not self.lease.is_gone:
            self.exchange.request_audit()
        self._backup.send_stale(self.exchange.undelivered)
        return self._settings.timing.beat

    async def _watch(self) -> float:
        """Stop code that has no right to run any more; report code that does not stop."""
        self._reports.tell_latest()
        self.exchange.outcomes.log.flush()
        if not self.lease.may_act():
            if self.executor.running and any(running.stop is None for running in self.executor.running.values()):
                self._events.emit(EventName.LEASE_DEADLINE_PASSED, running=len(self.executor.running))
            self.executor.stop_all(Stop.LOST if self.lease.is_gone else Stop.LATE)
        unresponsive = self.executor.unresponsive(self._settings.grace)
        if unresponsive:
            self._send(messages.CodeUnresponsive(unresponsive))
        beat = self._settings.timing.beat
        return min(beat, self.lease.remaining() + 0.001) if self.lease.may_act() else beat / 4

    def _hinted(self, hint: Hint) -> None:
        if hint.queue and self._options.queues is not None and hint.queue not in self._options.queues:
            return
        if not hint.queue:
            self._running_hooks.wake.set()
        self.exchange.hinted(hint)
        self._exchanging.wake.set()

    async def _first_message(self) -> messages.LeaseGranted | None:
        while (data := await self._link.channel.receive()) is not None:
            message = messages.decode(data)
            if isinstance(message, messages.LeaseGranted):
                return message
            if isinstance(message, messages.Drain):
                return None
        return None

    async def _listen(self) -> None:
        while (data := await self._link.channel.receive()) is not None:
            self._handle(messages.decode(data))
        self._is_orphan = True
        self.exchange.close()
        self.executor.stop_all(Stop.LATE)
        self._ending.set()

    def _handle(self, message: messages.Message) -> None:
        # size: one case for each message
        match message:
            case messages.LeaseRenewed(deadline=deadline):
                self.lease.renew(deadline)
            case messages.Ping():
                running, held = len(self.executor.running), self.exchange.held
                self._send(messages.Pong(self.lease.answered, self._is_idle(), running, held, self._runner_processes()))
            case messages.CancelJobs(jobs=jobs):
                for job in jobs:
                    self.exchange.cancel(job)
            case messages.ClaimsVoided(voids=voids):
                self.exchange.ahead.voided(voids)
            case messages.DeadlineExceeded(job=job, token=token, charge=charge):
                self.executor.stop(job, Stop.STALLED if charge is RescueReason.STALLED else Stop.TIMED_OUT, token=token)
            case messages.LeaseLost():
                self.lease.lose()
                self.exchange.close()
                self._events.emit(EventName.LEASE_LOST, running=len(self.executor.running))
                self.executor.stop_all(Stop.LOST)
                self._ending.set()
            case messages.EventForwarded():
                self._events.pass_on(message.event())
            case messages.DumpStacks():
                self.executor.log_coroutine_stacks()
            case messages.Drain(grace=grace):
                self.exchange.close()
                self.exchange.outcomes.begin_end()
                self.executor.request_drain()
                self._drain.begin(grace)
                self._ending.set()
            case messages.LeaseGranted() | messages.WorkerHello() | messages.StartRefused() | messages.Ready():
                pass
            case (
                messages.Pong()
                | messages.TalliesSent()
                | messages.UndeliveredOutcomes()
                | messages.CodeUnresponsive()
                | messages.ClaimsLost()
                | messages.AttemptWaiting()
                | messages.AttemptStarted()
                | messages.AttemptProgressed()
                | messages.AttemptStopped()
                | messages.AttemptOverdue()
            ):
                pass
            case _:
                assert_never(message)

    def _is_idle(self) -> bool:
        self._running_hooks.wake.set()
        return self.hooks.has_been_idle() and self.exchange.is_idle and self._slots.is_for_all and not self.exchange.undelivered

    async def _until_ended(self) -> None:
        """Wait for a reason to end, then for the code to stop and for its outcomes to be delivered."""
        while not self.exchange.is_closed:
            await self._ending.wait(self._settings.timing.ttl)
        while self.executor.running or not self.exchange.is_delivered:
            if self._drain.is_over:
                self.executor.stop_all(Stop.DRAINED)
            if self._is_orphan and self.lease.remaining() <= 0:
                return
            if (self._may_leave() and not self._is_orphan) or (self.is_damaged and not self.executor.running):
                self._backup.send(self.exchange.undelivered)
                return  # the supervisor sends them to the store again before it ends the lease
            self._exchanging.wake.set()
            await self._ending.wait(self._drain.pause())
        self.exchange.outcomes.log.flush(is_last=True)
        self._send_tallies()
        if not self.lease.is_gone:
            await self._end_lease()
        if self._drain.has_begun:
            left = [str(job) for job in self.exchange.outcomes.left]
            self._events.emit(EventName.WORKER_DRAINED, worker=self.lease.worker, jobs=len(left), left=left)

    def _may_leave(self) -> bool:
        """Return whether refused outcomes may be left to the supervisor: after the grace, or in ``app.run_due``."""
        return (self._drain.is_over or self._options.most is not None) and self.exchange.has_refused_only

    async def _end_lease(self) -> None:
        """End the lease; if that fails, a supervisor ends it, or it expires."""
        try:
            await self._store.end_lease(self.lease.id, LeaseEnd(RescueReason.CLOSED, is_free=True))
        except Exception as error:
            self._events.emit(failure_of_store(error), operation="end_lease", error=type(error).__name__, failures=1)

    async def _tell_tallies(self) -> float:
        self._send_tallies()
        return TALLIES_EVERY

    def _send_tallies(self) -> None:
        """Send what was counted to the supervisor, which keeps it when this process is killed."""
        if self._tallies is not None and (delta := self._tallies.take()) is not None:
            self._send(messages.TalliesSent(delta))

    def _runner_processes(self) -> int:
        return 0 if self.pool is None else self.pool.idle + self.executor.count(RunnerKind.PROCESS)

    def _ask_for_void(self) -> None:
        self._send(messages.ClaimsLost())

    def _send(self, message: messages.Message) -> None:
        self._link.channel.send(messages.encode(message))

"""One process: claim, run, settle, drain. Told by its supervisor until when it may; needs nobody to stop."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.lifecycle import Charge, End, LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import IsolatedJobs
from holdfast._engine import messages
from holdfast._engine.events import EventName, Events, failure_of_store
from holdfast._engine.retry import Retrier
from holdfast._engine.rows.tables import Tables
from holdfast._engine.runners.current import WORKER
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.runners.runners import ThreadRunner
from holdfast._engine.runners.running import Stop
from holdfast._engine.service import ERRORS, Service, Signal
from holdfast._engine.tasks.lifespan import Lifespan
from holdfast._engine.tasks.registry import Registry
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.drain import Drain
from holdfast._engine.worker.exchange import Exchange
from holdfast._engine.worker.executor import Executor, FinishedRun
from holdfast._engine.worker.inbox import Inbox
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._engine.worker.rescue_hooks import RescueHooks
from holdfast._engine.worker.slots import Slots
from holdfast._engine.worker.startup_checks import require_startup_checks
from holdfast._engine.worker.undelivered import OutcomeBackup
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.host import RunnerHost, SupervisorLink
from holdfast._ports.store import Store
from holdfast._ports.transport import Hint, Transport
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings


class Worker:
    """One incarnation, from its lease to its end."""

    def __init__(
        self,
        *,
        cell: SupervisorLink,
        store: Store,
        transport: Transport,
        registry: Registry,
        settings: Settings,
        clock: Clock,
        chance: Randomness,
        events: Events,
        options: WorkerOptions,
        tables: Tables | None = None,
        limits: Sequence[str] = (),
        runner_host: RunnerHost | None = None,
        lifespan: Lifespan | None = None,
    ) -> None:
        self._cell, self._store, self._transport = cell, store, transport
        self._registry, self._settings, self._options = registry, settings, options
        self._clock, self._chance, self._events = clock, chance, events
        self._limits, self._tables = tuple(limits), tables
        self._lifespan = lifespan or Lifespan()
        self._now = clock.monotonic if store.capabilities.lease_clock == "kernel" else clock.boottime
        self.heart = WorkerLease(self._now)
        self.threads = ThreadRunner(options.threads)
        self.pool = None if runner_host is None else self._open_pool(runner_host)
        self._drain = Drain(self._now)
        self._is_orphan = False
        self._ending = Signal()
        self._is_isolated = False
        self._teller = AttemptReporter(self._send, self._now)
        self._deposit = OutcomeBackup(self._send)
        self._receiving: Service | None = None

    async def run(self) -> None:
        """Live until drained, orphaned or out of rights; then nothing of it runs and everything is delivered."""
        tasks, rows = self._registry.names(), self._registry.rows_tasks()
        queues, slots = self._options.queues or (), self._options.concurrency
        listens = self._events.has_subscribers
        self._send(messages.WorkerHello(self._settings, tasks, queues, self._limits, slots, listens, rows))
        first = await self._first_message()
        if first is None:
            return
        WORKER.set(first.worker)
        self.heart.renew(first.deadline)
        self._assemble(first)
        try:
            capabilities, patience = self._store.capabilities, self._settings.timing.beat
            await require_startup_checks(self._registry, self._tables, capabilities, self._events, patience=patience)
            await self._lifespan.enter()
            await self._serve(first)
        except ConfigurationError as error:
            self._send(messages.StartRefused(tuple(error.problems)))
            await self._end_lease(first)
        finally:
            await self._transport.close()
            self.threads.close()
            self.healer.close()
            if self.pool is not None:
                await self.pool.close()
            await self._lifespan.leave()

    def abandon(self) -> None:
        """Stop what can be stopped, where ending the process is not ours to do; nothing it says counts any more."""
        if self.heart.deadline > float("-inf"):
            self.exchange.close()
            self.executor.stop_all(Stop.LOST)
        self.heart.lose()

    async def _serve(self, first: messages.LeaseGranted) -> None:
        self.executor.state = self._lifespan.state
        services = [self._exchanging, self._reporting, self._auditing, self._watching]
        if self.healer.has_hooks and not self._is_isolated:
            services.append(self._healing)
        if self._receiving is not None:
            services.append(self._receiving)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in (*(each.run() for each in services), self._listen())]
            await self._transport.subscribe(self._hinted)
            self._send(messages.Ready())
            self._events.emit(EventName.WORKER_READY, worker=first.worker)
            await self._until_ended(first)
            for task in tasks:
                task.cancel()

    def _assemble(self, leased: messages.LeaseGranted) -> None:
        self._is_isolated = self._teller.tells_all = leased.is_isolated
        reporter = self._make_reporter()
        self.executor = Executor(
            self._registry,
            reporter,
            threads=self.threads,
            processes=self.pool,
            healer=self._make_healer(leased),
            events=self._events,
            chance=self._chance,
            now=self._now,
            may_start=self.heart.may_act,
            on_ended=self._deliver,
            set_code_running=self._cell.set_code_running,
            on_waiting=self._teller.waiting,
            on_begun=self._teller.begun,
        )
        slots = 1 if leased.is_isolated else self._options.concurrency
        self._slots = Slots(self._registry, self.executor, concurrency=slots, threads=self._options.threads, pool=self.pool)
        self.exchange = Exchange(
            self._store,
            self.executor,
            reporter,
            self.heart,
            lease=leased.lease,
            worker=leased.worker,
            wanted=self._wanted,
            slots=slots,
            is_halved=self._store.capabilities.lease_clock == "server",
            inbox=self._make_inbox(),
            queues=self._options.queues,
            isolated=IsolatedJobs.ONLY if leased.is_isolated else self._options.isolated,
            poll_interval=self._settings.poll_interval,
            events=self._events,
            chance=self._chance,
        )
        self._make_services(reporter)

    def _make_services(self, reporter: ProgressWriter) -> None:
        beat = self._settings.timing.beat
        self._exchanging = self._service("exchange", self._exchange, pause=min(self._settings.poll_interval, beat))
        self._reporting = self._service("report", reporter.step, pause=min(1.0, beat))
        self._auditing = self._service("audit", self._audit, pause=beat)
        self._watching = self._service("watch", self._watch, pause=beat)

    def _make_inbox(self) -> Inbox | None:
        """Alone it looks for last tries only, by itself."""
        deliveries = None if self._is_isolated else self._transport.deliveries
        if deliveries is None:
            return None
        pause, queues = self._settings.poll_interval, self._options.queues
        inbox = Inbox(deliveries, self._transport.publish, queues=queues, room=self._room, wake=self._wake, pause=pause)
        self._receiving = self._service("receive", inbox.step, pause=pause)
        return inbox

    def _make_healer(self, leased: messages.LeaseGranted) -> RescueHooks:
        self.healer = RescueHooks(
            self._store,
            self._registry,
            worker=leased.worker,
            timing=self._settings.timing,
            interval=self._settings.recovery_interval,
            threads=self._options.threads + self._options.runners,
            now=self._now,
            may_start=lambda: self.heart.may_act() and not self.exchange.is_closed,
            on_idle=lambda: self._exchanging.wake.set(),
            events=self._events,
        )
        self._healing = self._service("heal", self.healer.step, pause=self._settings.timing.beat)
        return self.healer

    def _make_reporter(self) -> ProgressWriter:
        children = ChildJobs(
            self._store,
            Retrier(self._clock, self._chance, self._events),
            publish=self._transport.publish,
            are_delivered=self._transport.deliveries is not None,
            chance=self._chance,
            events=self._events,
            lost=self._lose,
        )
        return ProgressWriter(
            self._store,
            now=self._now,
            wake=lambda: self._reporting.wake.set(),
            lost=self._lose,
            moved=self._teller.moved,
            children=children,
            idle=self._settings.timing.margin,
        )

    async def _exchange(self) -> float:
        try:
            wait = await self.exchange.step()
        except ERRORS:
            self._deposit.send(self.exchange.undelivered)  # a kill before the store is back must not cost a result
            raise
        if self._receiving is not None:
            self._receiving.wake.set()
        if self._is_finished() and not self.exchange.is_closed:
            self.exchange.close()
            self._ending.set()
        return wait

    def _is_finished(self) -> bool:
        """Alone: one claim, then none any more. Whatever its job does to this process, it does to nobody else."""
        return self._is_isolated and self.exchange.has_claimed

    def _lose(self, job: UUID, token: Token) -> None:
        self.executor.stop(job, Stop.LOST, token=token)

    def _deliver(self, ended: FinishedRun) -> None:
        self._teller.stopped(ended.claim.job)
        self.exchange.add(ended)
        self._exchanging.wake.set()

    def _open_pool(self, host: RunnerHost) -> RunnerPool:
        return RunnerPool(
            host,
            size=self._options.runners,
            grace=self._settings.grace,
            margin=self._settings.timing.margin,
            pause=self._settings.poll_interval,
            events=self._events,
            chance=self._chance,
        )

    def _service(self, name: str, step: Callable[[], Coroutine[Any, Any, float]], *, pause: float) -> Service:
        return Service(name, step, events=self._events, chance=self._chance, longest_pause=pause)

    def _wanted(self, was_full: bool) -> tuple[dict[str, Policy], int, bool]:
        return self._slots.plan(was_full)

    def _wake(self) -> None:
        self._exchanging.wake.set()

    def _room(self) -> int:
        """For how many deliveries: none while looking by ourselves finds more than we can do."""
        is_open = self.heart.may_act() and not self.exchange.is_closed and not self.exchange.has_backlog
        return self._slots.free() - self.exchange.kept if is_open else 0

    async def _audit(self) -> float:
        """Once a beat: the store may think more or less of us than we know. Unanswered outcomes also go up the pipe."""
        if not self.heart.is_gone:
            self.exchange.request_audit()
            self._exchanging.wake.set()
        self._deposit.send_stale(self.exchange.undelivered)
        return self._settings.timing.beat

    async def _watch(self) -> float:
        """Stop code that has no right to run any more; name code that does not stop."""
        self._teller.tell_latest()
        if not self.heart.may_act():
            if self.executor.running and any(running.stop is None for running in self.executor.running.values()):
                self._events.emit(EventName.LEASE_LATE, running=len(self.executor.running))
            self.executor.stop_all(Stop.LOST if self.heart.is_gone else Stop.LATE)
        deaf = self.executor.unresponsive(self._settings.grace)
        if deaf:
            self._send(messages.CodeUnresponsive(deaf))
        beat = self._settings.timing.beat
        return min(beat, self.heart.remaining() + 0.001) if self.heart.may_act() else beat / 4

    def _hinted(self, hint: Hint) -> None:
        if hint.queue and self._options.queues is not None and hint.queue not in self._options.queues:
            return
        if any(job in self.executor.running for job in hint.ids):
            self.exchange.request_audit()
        if not hint.queue:
            self._healing.wake.set()
        self._exchanging.wake.set()

    async def _first_message(self) -> messages.LeaseGranted | None:
        while (data := await self._cell.channel.receive()) is not None:
            message = messages.decode(data)
            if isinstance(message, messages.LeaseGranted):
                return message
            if isinstance(message, messages.Drain):
                return None
        return None

    async def _listen(self) -> None:
        while (data := await self._cell.channel.receive()) is not None:
            self._hear(messages.decode(data))
        self._is_orphan = True
        self.exchange.close()
        self.executor.stop_all(Stop.LATE)
        self._ending.set()

    def _hear(self, message: messages.Message) -> None:
        match message:
            case messages.LeaseRenewed(deadline=deadline):
                self.heart.renew(deadline)
            case messages.Ping():
                self._send(messages.Pong(self.heart.answered, self._is_idle()))
            case messages.CancelJobs(jobs=jobs):
                for job in jobs:
                    self.executor.stop(job, Stop.CANCELLED)
            case messages.DeadlineExceeded(job=job, token=token, charge=charge):
                self.executor.stop(job, Stop.STALLED if charge is Charge.STALLED else Stop.TIMED_OUT, token=token)
            case messages.LeaseLost():
                self.heart.lose()
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
                self.executor.request_drain()
                self._drain.begin(grace)
                self._ending.set()
            case messages.LeaseGranted() | messages.WorkerHello() | messages.StartRefused() | messages.Ready():
                pass
            case (
                messages.Pong()
                | messages.UndeliveredOutcomes()
                | messages.CodeUnresponsive()
                | messages.AttemptWaiting()
                | messages.AttemptStarted()
                | messages.AttemptProgressed()
                | messages.AttemptStopped()
            ):
                pass
            case _:
                assert_never(message)

    def _is_idle(self) -> bool:
        self._healing.wake.set()
        return self.healer.has_been_idle() and self.exchange.is_idle and self._slots.is_for_all and not self.exchange.undelivered

    async def _until_ended(self, leased: messages.LeaseGranted) -> None:
        """Wait for a reason to end, then for the code to stop and for its outcomes to be delivered."""
        while not self.exchange.is_closed:
            await self._ending.wait(self._settings.timing.ttl)
        while self.executor.running or not self.exchange.is_delivered:
            if self._drain.is_over:
                self.executor.stop_all(Stop.DRAINED)
            if self._is_orphan and self.heart.remaining() <= 0:
                return
            if self._may_leave() and not self._is_orphan:
                self._deposit.send(self.exchange.undelivered)
                return  # the supervisor asks the store for them again before it ends the lease
            self._exchanging.wake.set()
            await self._ending.wait(self._drain.pause())
        if not self.heart.is_gone:
            await self._end_lease(leased)

    def _may_leave(self) -> bool:
        """Whether outcomes that the store refuses may be left to the supervisor. Until it asks, they are asked for here."""
        return self._drain.is_over and self.exchange.has_refused_only

    async def _end_lease(self, leased: messages.LeaseGranted) -> None:
        """Best effort: a supervisor, or the lease's own expiry, ends it otherwise."""
        try:
            await self._store.end_lease(leased.lease, LeaseEnd(End.CLOSED, is_free=True))
        except Exception as error:
            self._events.emit(failure_of_store(error), operation="end_lease", error=type(error).__name__, failures=1)

    def _send(self, message: messages.Message) -> None:
        self._cell.channel.send(messages.encode(message))

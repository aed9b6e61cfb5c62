"""The parent of workers: it spawns, renews leases, watches, kills, recovers jobs and shuts down. It never runs user code."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from holdfast._core.identity import rescuer_name
from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.error_text import described
from holdfast._engine.events import EventName, Events, failure_of_store
from holdfast._engine.rows.scheduler import RowsScheduler
from holdfast._engine.rows.tables import OpenTable, Tables, no_tables
from holdfast._engine.service import ERRORS, Service, is_final, is_refusal, require_not_cancelled
from holdfast._engine.store_events import report_store
from holdfast._engine.supervisor.beat_history import BeatHistory
from holdfast._engine.supervisor.clock_check import ClockCheck
from holdfast._engine.supervisor.declared_limits import DeclaredLimits
from holdfast._engine.supervisor.event_relay import EventRelay
from holdfast._engine.supervisor.isolation import Isolation
from holdfast._engine.supervisor.maintenance import maintenance_steps
from holdfast._engine.supervisor.minute_history import MinuteHistory
from holdfast._engine.supervisor.options import SupervisorOptions as SupervisorOptions
from holdfast._engine.supervisor.paused_clocks import report_paused_clocks
from holdfast._engine.supervisor.recovery import MOST_REFUSALS, Contact, Recovery
from holdfast._engine.supervisor.reviver import Reviver
from holdfast._engine.supervisor.scheduler import Scheduler
from holdfast._engine.supervisor.store_warnings import StoreWarnings
from holdfast._engine.supervisor.until_empty import UntilEmpty, has_limited_jobs
from holdfast._engine.supervisor.voiding import Voiding
from holdfast._engine.supervisor.worker_handle import WorkerHandle, named_queues_of, queues_of, tasks_of
from holdfast._engine.supervisor.worker_session import WorkerSession
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.host import Host
from holdfast._ports.store import Store
from holdfast._ports.transport import Transport
from holdfast.errors import ConfigurationError, StoreDamaged
from holdfast.settings import Settings

START_TIMEOUT, LONGEST_RESPAWN_PAUSE, SHORTEST_PAUSE = 30.0, 30.0, 0.1
OK, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 75


class Supervisor:
    """The parent of workers: it keeps them alive, renews their leases, and rescues lost jobs of all workers, also of others'."""

    def __init__(
        self,
        *,
        host: Host,
        clock: Clock,
        chance: Randomness,
        events: Events,
        connect: Callable[[Settings], tuple[Store, Transport]],
        open_table: OpenTable = no_tables,
        options: SupervisorOptions,
        arguments: Sequence[str],
    ) -> None:
        self._host, self._clock, self._chance, self._events = host, clock, chance, events
        self._connect, self._open_table, self._lease_time = connect, open_table, clock.monotonic
        self._options, self._arguments = options, tuple(arguments)
        self.workers: list[WorkerHandle] = []
        self._event_relay, self.problems = EventRelay(events, lambda: self.workers) if options.tells else None, tuple[str, ...]()
        self._recoveries: dict[asyncio.Task[None], WorkerHandle] = {}
        self._settings: Settings | None = None
        self._warnings = StoreWarnings(events)
        self._opening, self._beating_now, self._services = asyncio.Lock(), asyncio.Lock(), list[asyncio.Task[None]]()
        self._isolation: Isolation | None = None
        self.rows_scheduler: RowsScheduler | None = None
        self._until_empty, self._drained, self._minutes = UntilEmpty(), asyncio.Event(), MinuteHistory(lambda: self.workers, host)
        self.slots, self._has_emptied = options.processes, False
        self._clock_check, self._drains, self._exit_code, self._has_worked = ClockCheck(), 0, OK, False

    async def run(self) -> int:
        """Run until drained; return the exit code."""
        await asyncio.gather(*(self._keep_slot_filled() for _ in range(self._options.processes)))
        if self._isolation is not None:
            await self._isolation.end()
        if self._recoveries:
            await asyncio.wait(self._recoveries, timeout=START_TIMEOUT)
        for task in (*self._services, *self._recoveries):
            task.cancel()
        await asyncio.gather(*self._services, *self._recoveries, return_exceptions=True)
        await self._minutes.close()
        if self.rows_scheduler is not None:
            await self.rows_scheduler.end()
        if self._settings is not None:
            try:
                await self._transport.close()
                await self._store.close()
            except ERRORS as error:
                self._report_error("close", error)
        return self._exit_code

    def drain(self) -> None:
        """Stop claiming, give running jobs the grace, and end; a second call stops their code at once."""
        self._drains += 1
        self._drained.set()
        self._events.emit(EventName.WORKER_DRAINING, workers=len(self.workers), is_forced=self._drains > 1 or None)
        for worker in self.workers:
            self._drain(worker)
        if self._isolation is not None:
            self._isolation.is_closed = True
        if self._services:
            self._beating.wake.set()

    def dump_stacks(self) -> dict[str, str]:
        """Return the stacks of all threads, by worker; each worker itself logs where its coroutines wait."""
        for worker in self.workers:
            worker.send(messages.DumpStacks())
        return {worker.name: worker.child.dump_stacks() for worker in self.workers}

    @property
    def environment(self) -> Environment | None:
        """The open store and what works with it; None before the first worker has named the store."""
        return None if self._settings is None else self._environment

    @property
    def _grace(self) -> float:
        given = self._options.grace
        return given if given is not None else 0.0 if self._settings is None else self._settings.grace

    def _drain(self, worker: WorkerHandle) -> None:
        if worker.lease is None:
            worker.kill("the supervisor gives up" if self._exit_code else "drained before it had a lease", is_free=True)
        else:
            worker.drain(self._grace if self._drains == 1 else 0.0)

    async def _keep_slot_filled(self) -> None:
        """Run a worker in one slot, and its successor when it exits; back off only after workers that were never ready.

        The slot of a worker that an operator drained stays empty, and the supervisor ends with its last slot.
        """
        failures = 0
        while not self._drains:
            failures = 0 if await self._run_worker() else failures + 1
            if self._has_emptied:
                self._has_emptied, self.slots = False, self.slots - 1
                break
            if failures and not self._drains:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(LONGEST_RESPAWN_PAUSE, 0.25 * 2.0 ** min(failures, 10))):
                        await self._drained.wait()
        if not (self.slots or self._drains):
            self.drain()

    async def _run_worker(self, *, is_isolated: bool = False) -> bool:
        """Run one worker until it exits; return whether it became ready and, if isolated, started an attempt.

        An error of one worker is reported, and does not end the others.
        """
        try:
            child = await self._host.spawn(self._arguments)
            now, counted = self._now_of_lease, self._minutes.add
            worker = WorkerHandle(child, now=now, events=self._events, is_isolated=is_isolated, counted=counted)
        except Exception as error:
            self._report_error("spawn", error)
            return False
        session = WorkerSession(worker, self._grant_lease, self._worker_ready)
        self.workers.append(worker)
        self._events.emit(EventName.WORKER_STARTED, worker=worker.name)
        try:
            if self._drains:
                self._drain(worker)
            exit = await session.until_exit()
            self._events.emit(EventName.WORKER_ENDED, worker=worker.name, exit=str(exit))
            self._recover_jobs_of(session)
        except ERRORS as error:
            self._report_error("worker", error)
            worker.kill("its end cannot be watched")  # without beats its guard ends it, and its lease runs out
            return False
        finally:
            self.workers.remove(worker)
        self._has_worked, self._has_emptied = self._has_worked or worker.is_ready, worker.is_retired and not is_isolated
        if worker.refused and (worker.is_ready or not self._has_worked):
            self._give_up(FAILED if worker.is_ready else USAGE, worker.refused)
        return worker.is_ready and (worker.has_begun or not is_isolated)

    def _give_up(self, code: int, problems: Sequence[str] = ()) -> None:
        if self._exit_code == OK:
            self._exit_code, self.problems = code, tuple(problems)
            self.drain()

    def _worker_ready(self, worker: WorkerHandle) -> None:
        if self._event_relay is not None:
            self._event_relay.deliver()
        if self.rows_scheduler is not None and worker.hello is not None:
            self.rows_scheduler.watch(worker.hello.rows)
            if worker.hello.schedules:
                self._scheduler.declare(worker.hello.schedules)
                self._scheduling.wake.set()

    async def _grant_lease(self, session: WorkerSession, hello: messages.WorkerHello) -> None:
        """Open the store with the first worker's settings, then this worker's lease.

        The supervisor gives up if the store is unreachable for the first ``START_TIMEOUT`` seconds.
        """
        give_up, failures = self._clock.monotonic() + START_TIMEOUT, 0
        while not self._drains:
            try:
                timing = await self._prepare(hello.settings)  # the first worker's: one beat renews all leases
                await self._declared_limits.declare(hello.declared)
                await session.open_lease(hello, self._environment, self._contact, timing=timing, grace=self._grace)
                self._warnings.log(self._store)
                break
            except ERRORS as error:
                self._report_error("open", error)
                if not self._services and is_final(error):
                    self._give_up(USAGE if isinstance(error, ConfigurationError) else FAILED, str(error).splitlines())
                    break
            if not self._services and self._clock.monotonic() > give_up:
                self._give_up(UNREACHABLE)
                break
            failures += 1
            await self._pause(failures, hello.settings)
        if self._drains:
            self._drain(session.handle)

    async def _prepare(self, settings: Settings) -> LeaseTiming:
        """Open store and transport once, reconcile, start the services; return the timing of all leases."""
        async with self._opening:
            if self._services and self._settings is not None:
                return self._settings.timing
            if self._settings is None:
                self._store, self._transport = self._connect(settings)
                self._environment = Environment(self._store, self._transport, self._clock, self._chance, self._events)
                self._settings, self._lease_time = settings, self._environment.lease_time
                self._history = BeatHistory(self._store, self._host, kept=settings.beat_history)
            self._contact = Contact(settings.timing, self._now_of_lease)
            self._recovery = Recovery(
                self._environment,
                self._contact,
                switches=settings.recovery,
                host=None if settings.reconcile == "off" else self._host,
                own=self._own_leases,
                compare_clocks=self._beat,
                rescued=self._minutes.rescued,
                by=rescuer_name("supervisor", self._host.process()),
            )
            await self._recovery.reconcile(by_host_name=settings.reconcile == "hostname")
            self._beating = self._service("beat", self._beat, pause=settings.timing.beat / 2)
            self._recovering = self._service("recovery", self._recover, pause=settings.recovery_interval)
            watching = self._service("watch", self._watch, pause=settings.timing.beat)
            running = (self._beating, self._recovering, watching, *self._maintenance(settings))
            self._services = [asyncio.create_task(each.run()) for each in running]
            return self._settings.timing

    def _maintenance(self, settings: Settings) -> list[Service]:
        """Return the services that run beside beating, watching and recovering."""
        pause = settings.recovery_interval
        serve = partial(self._service, pause=pause)
        tasks, queues = partial(tasks_of, self.workers), partial(queues_of, self.workers)
        room, live = self._options.processes if self._options.isolates else 0, partial(self._run_worker, is_isolated=True)
        self._isolation = Isolation(
            self._store, self._clock, tasks=tasks, queues=queues, room=room, live=live, interval=pause, serve=serve
        )
        client = Client(self._environment, give_up=0)
        self.rows_scheduler = RowsScheduler(
            Tables(self._open_table), client, serve=serve, chance=self._chance, events=self._events
        )
        limited = partial(has_limited_jobs, self._store, tasks, queues)
        self._until_empty = UntilEmpty(self._isolation.is_needed, self.rows_scheduler.is_needed, limited)
        named = partial(named_queues_of, self.workers)
        steps = maintenance_steps(self._environment, self._recovery, tasks=tasks, queues=queues, named=named, interval=pause)
        self._declared_limits = DeclaredLimits(
            self._store, lambda step: self._services.append(asyncio.create_task(serve("limits", step).run()))
        )
        self._scheduler = Scheduler(self._environment, longest=5.0 * settings.poll_interval)
        self._scheduling = serve("schedules", self._scheduler.step)
        voiding, reviver = Voiding(self._environment, settings, lambda: tuple(self.workers)), Reviver(self._environment, settings)
        if self._options.has_history and settings.beat_history and self._minutes.begin(self._environment):
            steps.append(("history", self._minutes.step))
        if voiding.is_needed:
            steps.append(("void", voiding.step))
        if reviver.is_needed:
            steps.append(("workflows", reviver.step))
        return [self._isolation.service, self._scheduling, *(self._service(name, step, pause=pause) for name, step in steps)]

    def _service(self, name: str, step: Callable[[], Coroutine[Any, Any, float]], *, pause: float) -> Service:
        damaged = partial(self._give_up, FAILED)
        return Service(name, step, events=self._events, chance=self._chance, longest_pause=pause, on_damage=damaged)

    async def _beat(self) -> float:
        """Renew the leases of all workers in one durable write, independent of the number of jobs they run."""
        async with self._beating_now:
            try:
                return await self._beat_all()
            finally:
                report_store(self._store, self._events)

    async def _beat_all(self) -> float:
        assert self._settings is not None
        timing = self._settings.timing
        workers = {worker.lease.id: worker for worker in self.workers if worker.lease is not None and not worker.is_gone}
        sent = self._now_of_lease()
        notes = self._history.notes(workers.values(), sent)
        try:
            # A beat that hangs must leave time for another one before a worker reaches its deadline.
            async with asyncio.timeout((timing.ttl - timing.margin) / 2):
                answer = await self._store.beat(tuple(workers), draining=self._drains > 0, notes=notes)
        except BaseException:
            self._contact.lost()  # also for a lock: a table lock that blocks this beat blocks those of all supervisors
            self._clock_check.forget()
            raise
        self._contact.answered(sent)
        self._events.count_call("beat", self._now_of_lease() - sent)
        if step := self._clock_check.step(answer, timing, leases=frozenset(workers), sent=sent, now=self._now_of_lease()):
            self._events.emit(EventName.STORE_CLOCK_STEPPED, store_seconds=step[0], local_seconds=step[1])
            self._contact.lost()
        for lease, worker in workers.items():
            if lease in answer.alive:
                worker.lease_renewed(sent)
            elif lease in answer.gone:
                worker.lease_lost()
            if lease in answer.draining and not self._drains:
                worker.retire(self._grace)
            if jobs := answer.cancelled.get(lease):
                worker.send(messages.CancelJobs(jobs))
        pause = timing.beat if answer.alive | answer.gone >= workers.keys() else timing.beat / 4  # a lease was locked
        return max(0.001, sent + pause - self._now_of_lease())

    async def _recover(self) -> float:
        assert self._settings is not None
        try:
            # Without the timeout, one call that hangs would stop recovery by this supervisor for good.
            async with asyncio.timeout(max(self._settings.timing.ttl, START_TIMEOUT)):
                await report_paused_clocks(self._store, self.workers)
                if await self._recovery.step():
                    self._wake_isolation()
        except BaseException as error:
            self._contact.failed(error)
            raise
        return min(self._settings.recovery_interval, self._recovery.pause, self._recovery.pause_of_locked)

    async def _watch(self) -> float:
        assert self._settings is not None
        timing = self._settings.timing
        for worker in tuple(self.workers):
            worker.watch(timing, self._contact, max_block=self._settings.max_block, grace=self._grace)
        if self._options.until_empty and not self._drains:
            async with asyncio.timeout(timing.beat):  # it asks the store, and a call that hangs must not stop the watch
                if await self._until_empty.is_empty(self.workers, is_recovering=bool(self._recoveries)):
                    self.drain()
            return min(timing.beat / 4, 0.1)
        return min(timing.beat, timing.margin) / 4

    def _recover_jobs_of(self, session: WorkerSession) -> None:
        if session.handle.lease is not None:
            self._recoveries[task := asyncio.create_task(self._recover_until_answered(session))] = session.handle
            task.add_done_callback(self._recovered)

    def _recovered(self, task: asyncio.Task[None]) -> None:
        del self._recoveries[task]
        if self._recovery.has_locked:  # perhaps by the exited worker's last write, which the server still carries out
            self._recovering.wake.set()

    async def _recover_until_answered(self, session: WorkerSession) -> None:
        """Recover the jobs of an exited worker, and retry until the store answers.

        It retries often enough to end the lease with its true reason before other supervisors may judge it as expired.
        """
        assert self._settings is not None
        failures = 0
        while True:
            try:
                if await session.recover(self._recovery):
                    self._wake_isolation()
                return
            except ERRORS as error:
                self._report_error("end_lease", error)
                self._contact.failed(error)
                failures += 1
                if self._drains and (is_refusal(error) or isinstance(error, StoreDamaged)) and failures > MOST_REFUSALS:
                    return  # another supervisor recovers these jobs
                await self._pause(failures, self._settings)

    async def _pause(self, failures: int, settings: Settings) -> None:
        """Wait longer after each failure, at most half a beat: after an outage this supervisor must act before others may judge."""
        longest = min(settings.timing.beat / 2, SHORTEST_PAUSE * 2.0 ** min(failures, 16))
        await self._clock.sleep(longest * (0.75 + 0.25 * self._chance.jitter()))

    def _wake_isolation(self) -> None:
        if self._isolation is not None:
            self._isolation.service.wake.set()

    def _own_leases(self) -> frozenset[UUID]:
        return frozenset(worker.lease.id for worker in (*self.workers, *self._recoveries.values()) if worker.lease is not None)

    def _now_of_lease(self) -> float:
        """Return the time on the lease's clock; until a store is open, that is the monotonic clock."""
        return self._lease_time()

    def _report_error(self, operation: str, error: BaseException) -> None:
        require_not_cancelled()
        self._events.emit(failure_of_store(error), operation=operation, error=described(error))

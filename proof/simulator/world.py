"""A simulated world: machines, one store, supervisors that are started again, clients, an operator."""

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from holdfast._core.book.book import Book
from holdfast._core.job import PLACE_OF, NewJob, Place, State
from holdfast._core.record import JobRecord
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.supervisor.supervisor import Supervisor, SupervisorOptions
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._ports.host import Exit, SupervisorLink
from holdfast._ports.store import Store
from holdfast._ports.transport import Hint, Transport
from holdfast._system.clock import compose_uuid7
from holdfast.errors import StoreUnavailable, UniqueConflict
from proof.checker.history import IN_CARE, Event, History, Phase
from proof.search.decisions import Birth, Decision, Lookup, Mishap, Operation, births_of
from proof.simulator.apps import App
from proof.simulator.backlog import backlog, left_of
from proof.simulator.brokers import WorldBrokers
from proof.simulator.call_outcomes import ODD_ERRORS, Fault, Faults, Luck, Mix, is_odd
from proof.simulator.connections import Connections
from proof.simulator.event_listeners import Ears
from proof.simulator.fault_schedule import operations_of
from proof.simulator.faults import faulty
from proof.simulator.flow_calls import attempt
from proof.simulator.flows import WorldFlows
from proof.simulator.hosts import Machine, SimChance, SimClock, SimHost, SimStoreClock
from proof.simulator.key_terms import with_terms
from proof.simulator.laned import WorldLanes
from proof.simulator.loop import Process, VirtualLoop
from proof.simulator.own_rows import tasks_beside
from proof.simulator.plans import Plan
from proof.simulator.profiles import Entrance
from proof.simulator.programs import old_tasks, tasks
from proof.simulator.queue import FaultyTransport
from proof.simulator.scheduled import WorldSchedules
from proof.simulator.transport import Bus, queue_of
from proof.simulator.watched import WatchedRows
from proof.simulator.workers import worker_of
from proof.simulator.world_store import open_store
from proof.stores.objects import BucketWorld
from proof.stores.recording_commits import archived_in
from proof.stores.statement_recorder import Known

STRANGER = "stranger"  # a task that no worker knows


class Slot:
    """The slot of one supervisor on a machine: when it dies, another one is started there, as a service manager does."""

    def __init__(self, machine: Machine, number: int, plan: Plan) -> None:
        self.machine = machine
        self.number = number
        self.lives: Counter[str] = Counter()
        self.process: Process | None = None
        self.supervisor: Supervisor | None = None
        self.hosts: list[SimHost] = []
        self.is_core = False
        self.is_new = plan.is_new(number)
        self.is_broken = False

    def title(self, role: str) -> str:
        """Return the title of the next process of a role that is started here."""
        self.lives[role] += 1
        return f"{role} {self.number}.{self.lives[role]}"

    def members(self) -> list[Process]:
        """Return the living processes that it has started, guards and orphans included."""
        started = [each for host in self.hosts for pair in host.workers for each in (pair[0], pair[1].process)]
        return [each for each in (self.process, *started) if each is not None and not each.is_dead]


class World:
    """The world of one seed."""

    def __init__(self, plan: Plan, seed: int, kind: type[Book] = Book, loop: VirtualLoop | None = None) -> None:
        self.plan = plan
        self.loop = loop or VirtualLoop(seed)
        self.decisions: list[Decision] = []
        self.history = History()
        self.is_over = False
        self.is_calm = False
        self.standstill_over = 0.0
        self._backlog: list[UUID] = []
        self._caretakers = 0
        self.faults: dict[str, Faults] = {}
        self.subscribers: list[tuple[Process, contextvars.Context, Callable[[Hint], None], random.Random]] = []
        self._started = self.loop.time()
        self.true_clock = SimClock(self.loop)
        self._numbers = self.loop.stream("clocks")
        self._births = births_of(plan.script)
        self.machines = [self._machine(f"m{number}") for number in range(1 if plan.lease_clock == "kernel" else plan.supervisors)]
        self.store_clock = SimStoreClock(self.loop, rate=self._rate()) if plan.lease_clock == "server" else None
        self.store = open_store(self, kind)
        self.store.clock_of = lambda process: next(each.clock for each in self.machines if process.startswith(f"{each.name}-"))
        self.entrance = Entrance(
            plan.profile, self.loop, self.store, self.true_clock, timeout=plan.mix.timeout, longest=plan.longest_write
        )
        self.slots = [Slot(self.machines[number % len(self.machines)], number, plan) for number in range(plan.supervisors)]
        self.slots[0].is_core = plan.is_live
        self.queue = queue_of(plan) if plan.has_queue else None
        self.clients: list[Process] = []
        self.on_connect: Callable[[Process], None] = lambda process: None
        self.core: set[str] = set()
        self.runs: Counter[str] = Counter()
        self.watched = WatchedRows(self, self.carry)
        self.schedules, self.lanes, self.flows = WorldSchedules(self), WorldLanes(self), WorldFlows(self)
        self.apps = [App(self, number) for number in range(plan.apps)]
        self.brokers = WorldBrokers(self)

    # used by all processes

    def now(self) -> float:
        """Return the seconds since the start."""
        return self.loop.now - self._started

    def write(self, what: str, process: str, note: str = "") -> None:
        """Record an event in the life of a process."""
        self.history.add(Event(time=self.now(), process=process, what=what, phase=Phase.LIFE, note=note))

    async def pause(self, seconds: float) -> None:
        """Wait while the world goes on."""
        await self.true_clock.sleep(seconds)

    def connect(self, process: Process, *, is_healthy: bool = False) -> Store:
        """Return the store as this process reaches it."""
        self.faults[process.name] = faults = self.faults.get(process.name) or self.faults_of(process, is_healthy=is_healthy)
        self.on_connect(process)
        return faulty(
            self.gateway(process),
            process=process.name,
            # Where each process writes to a bucket itself, the faults are those of its calls to the bucket.
            faults=Faults(self.loop.stream(f"port of {process.title}"), Mix(latency=0.0))
            if isinstance(self.store, BucketWorld)
            else faults,
            clock=self.true_clock,
            history=self.history,
            now=self.now,
            carry=partial(self.carry, process),
            crash=lambda: process.end(Exit(signal="SIGKILL")),
            connections=Connections(self.loop, self.plan.connections, timeout=self.plan.mix.timeout)
            if self.plan.connections
            else None,
        )

    def faults_of(self, process: Process, *, is_healthy: bool, title: str = "") -> Faults:
        """Return the source of faults for the calls of a process."""
        title = title or process.title
        is_well = is_healthy or (self.is_calm and not self.plan.is_live)
        return Faults(
            self.loop.stream(f"calls of {title}"),
            Mix(latency=self.plan.mix.latency) if is_well else self.plan.mix,
            script=None if is_well or self.plan.script is None else Lookup(self.plan.script, title, self.now),
            note=partial(self._note_fault, title),
            standstill=lambda: self.standstill_over - self.now(),
        )

    def gateway(self, process: Process) -> Store:
        """Return the gateway at which the calls of a process arrive."""
        return self.entrance.gateway(process, lambda: self._introduce(process.name), partial(self.carry, process))

    def _note_fault(self, process: str, verb: str, nth: int, fault: Fault, luck: Luck) -> None:
        self.decisions.append(Mishap(process, verb, nth, fault, luck, self.now()))

    def transport(self, process: Process) -> Transport:
        """Return the transport of this process."""
        if self.queue is None:
            return Bus(self, process)
        return FaultyTransport(self.queue, self.true_clock.sleep, lambda: process.is_dead)

    def _introduce(self, process: str) -> None:
        self.store.caller = process

    def carry(self, process: Process, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a call that was sent, also after the end of its sender, unless the sender's own thread writes to a file."""
        is_beside = self.entrance.write_lock is not None
        task = self.loop.create_task(
            coroutine, context=self.loop.context_of(process.thread) if is_beside else self.loop.outside.copy()
        )
        task.add_done_callback(lambda done: done.cancelled() or done.exception(), context=self.loop.outside)
        return task

    def _machine(self, name: str) -> Machine:
        numbers = self._numbers
        clock = SimClock(self.loop, rate=self._rate(), origin=numbers.uniform(0, 1e5), wall_error=numbers.uniform(-3600, 3600))
        machine = Machine(self.loop, name, clock)
        machine.on_process = self._born
        return machine

    def _rate(self) -> float:
        return 1.0 + self._numbers.uniform(-1, 1) * self.plan.rate_error

    def _born(self, process: Process, role: str) -> None:
        self.write("process.start", process.name, role)
        process.on_exit.append(lambda how: self._died(process, how))

    def _died(self, process: Process, how: Exit) -> None:
        if not self.is_over:
            self.write("process.end", process.name, f"{how}, {IN_CARE}" if process.name in self.core else str(how))

    # supervisors and their workers

    def start(self, slot: Slot) -> None:
        """Start a supervisor, and another one whenever it has ended."""
        process = slot.machine.process("supervisor", slot.title("supervisor"))
        host = SimHost(slot.machine, process, lambda *given: self._run_worker(slot, *given), slot.title)
        store = self.connect(process, is_healthy=slot.is_core)
        supervisor = Supervisor(
            host=host,
            clock=slot.machine.clock,
            chance=SimChance(process.numbers, slot.machine.clock),
            events=Ears(self, process),
            connect=lambda settings: (store, self.transport(process)),
            open_table=self.watched.opener(process, is_healthy=slot.is_core),
            options=SupervisorOptions(processes=self.plan.processes),
            arguments=(),
        )
        slot.process, slot.supervisor = process, supervisor
        slot.hosts = [each for each in slot.hosts if any(not worker.is_dead for worker, _ in each.workers)] + [host]
        process.on_exit.append(lambda _: self._restart(slot, process.numbers.random()))
        self.loop.start(process, supervisor.run())

    def _restart(self, slot: Slot, share: float) -> None:
        if not self.is_over and not slot.is_broken:
            pause = share**2 * self.plan.settings.timing.ttl
            self.loop.call_later(0.1 + (0.0 if self.is_calm else pause), self._start_again, slot, context=self.loop.outside)

    def _start_again(self, slot: Slot) -> None:
        if not self.is_over and not slot.is_broken and (slot.process is None or slot.process.is_dead):
            self.start(slot)

    async def _run_worker(self, slot: Slot, cell: SupervisorLink, process: Process, arguments: Sequence[str]) -> None:
        del arguments
        if slot.is_core:
            self.core.add(process.name)
        settings = self.plan.settings_of(slot.number)
        known = self.known(settings.timing.ttl, is_new=slot.is_new)
        await worker_of(self, cell, process, slot.machine.clock, settings, known, is_healthy=slot.is_core).run()

    def known(self, ttl: float, *, is_new: bool = True) -> dict[str, TaskDefinition]:
        """Return the tasks of a release, by name, for leases of ``ttl`` seconds."""
        known = (tasks if is_new else old_tasks)(ttl, has_hooks=self.plan.has_hooks) | tasks_beside(ttl, self.plan)
        return known | self.flows.tasks()

    # clients

    def start_clients(self) -> None:
        """Start the clients that enqueue, and the operator."""
        if self.plan.backlog:
            self.start_client("owner of the backlog", self._pile_up, is_healthy=True)
        jobs = self.plan.jobs if self.plan.lanes is None else self.plan.lanes.jobs
        share = max(1, jobs // self.plan.clients)
        for number in range(self.plan.clients):
            self.start_client(f"client {number}", partial(self._enqueue, number=number, jobs=share))
        if operations := operations_of(self.plan, self.loop.stream("operations")):
            self.decisions += operations
            self.start_client("operator", lambda client, clock: self._operate(client, operations))
        self.schedules.start()
        self.lanes.start()
        self.flows.start()

    async def _pile_up(self, client: Client, clock: SimClock) -> None:
        known = self.known(self.plan.settings.timing.ttl)
        jobs = backlog(self.plan.backlog, self.loop.stream("backlog"), known, int(clock.wall() * 1000))
        self._backlog = [job.id for job in jobs]
        await attempt(client.enqueue([self.lanes.placed(job, f"backlog {number}") for number, job in enumerate(jobs)]))

    def start_client(
        self, title: str, main: Callable[[Client, SimClock], Coroutine[Any, Any, None]], *, is_healthy: bool = False
    ) -> Process:
        """Start a process that does what ``main`` does, and ends."""
        machine = self.loop.stream(f"place of {title}").choice(self.machines)
        process = machine.process(title.partition(" ")[0], title)
        chance = SimChance(process.numbers, machine.clock)
        bus, store = self.transport(process), self.connect(process, is_healthy=is_healthy)
        environment = Environment(store, bus, machine.clock, chance, Ears(self, process))
        client = Client(environment, give_up=self.plan.settings.timing.ttl)
        self.clients.append(process)
        self.loop.start(process, main(client, machine.clock))
        return process

    async def _enqueue(self, client: Client, clock: SimClock, *, number: int, jobs: int) -> None:
        pace, first = self.loop.stream(f"pace of client {number}"), 0
        while first < jobs:
            last = min(jobs, first + pace.choice([1, 1, 2, 5]))
            batch = [self._new_job(clock, number, job) for job in range(first, last) if self._is_born(number, job)]
            first = last
            try:
                if batch:
                    await client.enqueue(batch)
            except (StoreUnavailable, UniqueConflict):
                pass
            except ODD_ERRORS as error:
                _require_odd(error)
            await self.pause(pace.random() * self.plan.chaos / 10)

    def _is_born(self, client: int, job: int) -> bool:
        return self._births is None or (client, job) in self._births

    def _new_job(self, clock: SimClock, client: int, job: int) -> NewJob:
        numbers, plan = self.loop.stream(f"job {client}.{job}"), self.plan
        drawn, ttl = numbers.choice(plan.tasks), plan.settings.timing.ttl
        name = (self._births or {}).get((client, job)) or drawn
        is_old = plan.has_releases and client == 1 and name in (old := self.known(ttl, is_new=False))
        task = (old if is_old else self.known(ttl))[name]
        self.decisions.append(Birth(client, job, task.name, self.now()))
        new = NewJob(
            id=compose_uuid7(int(clock.wall() * 1000), job << 32 | numbers.getrandbits(32)),
            task=STRANGER if plan.has_strangers and numbers.random() < 0.4 else task.name,
            payload=b"{}" if numbers.random() < 0.95 else b'{"job": 1}' if is_old else b'{"job": 1, "new": true}',
            policy=task.policy,
            queue=task.queue,
            priority=numbers.choice([0, 0, 0, -1, 5]),
            delay=numbers.choice([0.0, 0.0, 0.0, numbers.random() * ttl]),
            expires_in=numbers.random() * 1.5 * ttl if plan.expires and numbers.random() < 0.4 else None,
            unique_key=f"key {numbers.randrange(plan.keys)}" if plan.keys and numbers.random() < 0.6 else None,
        )
        return self.lanes.placed(with_terms(new, plan), f"{client}.{job}")

    async def _operate(self, client: Client, operations: Sequence[Operation]) -> None:
        for operation in operations:
            await self.pause(max(0.0, operation.time - self.now()))
            ids = [*(known := self.store.snapshot()).jobs, *archived_in(known)]
            if ids and not self.is_calm:
                try:
                    await self._interfere(client, operation, ids[int(operation.pick * len(ids))])
                except StoreUnavailable:
                    pass
                except ODD_ERRORS as error:
                    _require_odd(error)

    async def _interfere(self, client: Client, operation: Operation, job: UUID) -> None:
        match operation.name:
            case "cancel":
                await client.cancel([job])
            case "retry":
                await client.retry([job])
            case "reschedule":
                await client.reschedule([job], delay=operation.delay, run_at=None)
            case "delete":
                await client.delete([job])
            case "purge":
                await client.purge([operation.queue])
            case "prune":
                await client.prune()
            case _:
                await client.pause([operation.queue], is_paused=operation.name == "pause")

    def resume_queues(self) -> None:
        """Start a client that resumes the queues that an operator has paused, and deletes the rest of the backlog."""

        async def resume(client: Client) -> None:
            while paused := sorted(self.store.snapshot().paused_queues):
                with suppress(StoreUnavailable):  # the fail-over of a broker takes longer than a call waits
                    await client.pause(paused, is_paused=False)
            with suppress(StoreUnavailable):
                await client.delete(left_of(self._backlog, self.store.snapshot()))

        title = f"caretaker {self._caretakers}" if self._caretakers else "caretaker"
        self._caretakers += 1
        self.start_client(title, lambda client, clock: resume(client), is_healthy=True)

    def resume_late_pauses(self) -> None:
        """Resume queues again if a pause arrived late: a call from the time of the faults may have been under way for long."""
        if self.clients[-1].is_dead and self.store.snapshot().paused_queues:
            self.resume_queues()

    # the end

    def unfinished(self) -> list[JobRecord | Known]:
        """Return the jobs of known tasks that have not ended."""
        rows = self.store.snapshot().jobs.values()
        return [row for row in rows if PLACE_OF[row.state] is not Place.FINISHED and row.task != STRANGER]

    def is_done(self) -> bool:
        """Return whether every job has ended, and no client enqueues any more."""
        known = self.store.snapshot()
        is_settled = all(
            row.state is State.HELD or (row.state is State.AVAILABLE and row.queue in known.paused_queues)
            for row in self.unfinished()
        )
        owed = [row for row in known.jobs.values() if row.hook_due_at is not None and row.state is not State.AVAILABLE]
        is_settled = is_settled and self.schedules.is_done() and self.lanes.is_done()
        return is_settled and not owed and self.watched.is_done() and all(client.is_dead for client in self.clients)


def _require_odd(error: BaseException) -> None:
    """Raise the error again unless it is one of a driver: a client passes on only these to its user."""
    if not is_odd(error):
        raise error

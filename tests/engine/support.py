"""A worker's engine, a supervisor's environment and an unreliable store, all in memory; a test moves the time."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.flow_changes import FlowChange
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, Claim, NewJob, State, Token
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import IsolatedJobs, NewLease
from holdfast._core.store_notices import StoreNotice
from holdfast._core.timing import LeaseTiming
from holdfast._engine.environment import Environment
from holdfast._engine.events import Event, Events
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.runners.running import Stop
from holdfast._engine.runners.threads import ThreadRunner
from holdfast._engine.tasks.registry import Registry, TaskDefinition, define
from holdfast._engine.worker.attempt_calls import AttemptCalls
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.exchange import Exchange
from holdfast._engine.worker.executor import Executor
from holdfast._engine.worker.finished_runs import FinishedRun, FinishedRuns
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._engine.worker.slots import Slots
from holdfast._engine.worker.step_records import StepRecords
from holdfast._ports.transport import Hint
from holdfast.errors import StoreUnavailable
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import PROCESS as PROCESS
from tests.engine.machines import MemoryTransport
from tests.event_loops import THE_END

TIMING = LeaseTiming(ttl=30.0, beat=6.0, margin=5.0)
SETTINGS = Settings(url="memory://", timing=TIMING)
LEASE = NewLease(UUID(int=1), "worker-1", PROCESS, TIMING)
OTHER = NewLease(UUID(int=2), "worker-2", ProcessIdentity("host", 8, 800, "boot", "pid:1", "time:1"), TIMING)


class LoopClock:
    """The clocks of a virtual loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    boottime = monotonic

    def wall(self) -> float:
        return 1_700_000_000.0 + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        waiter = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds, lambda: waiter.done() or waiter.set_result(None))
        await waiter


async def turns(count: int = 20) -> None:
    """Let all tasks run that are ready."""
    for _ in range(count):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


async def until(is_so: Callable[[], object]) -> None:
    """Let other tasks run until the condition holds; if it never does, pytest's time limit fails the test."""
    loop = asyncio.get_running_loop()
    while not is_so():
        waiter = loop.create_future()
        loop.call_later(0.001, waiter.set_result, None)
        await waiter


class Gate:
    """One call that waits before or after it is applied: it sets ``entered``, and goes on once ``opened`` is set."""

    def __init__(self, *, is_back: bool) -> None:
        self.is_back = is_back
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.entered.set()
        await self.opened.wait()


class Flaky:
    """A store whose calls a test makes fail, lose their answer, arrive late or wait; it records every call."""

    def __init__(self, store: MemoryStore, lease_clock: str = "kernel", *, prefetch: bool = False) -> None:
        self.store = store
        self._differs = {"lease_clock": lease_clock, "prefetch": prefetch}
        self.calls: list[str] = []
        self.late: list[Callable[[], Awaitable[Any]]] = []
        self.is_out = False
        self.notices = deque[StoreNotice]()
        self._plans: dict[str, deque[str | Gate]] = defaultdict(deque)

    @property
    def capabilities(self) -> Any:
        return structs.replace(self.store.capabilities, **self._differs)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self.store.take_flow_changes()

    def take_notices(self) -> tuple[StoreNotice, ...]:
        return tuple(self.notices.popleft() for _ in range(len(self.notices)))

    def fail(self, verb: str, times: int = 1) -> None:
        """Make the next calls fail before they arrive."""
        self._plans[verb].extend(["before"] * times)

    def cancel(self, verb: str) -> None:
        """Make the next call raise a cancellation that no task requested."""
        self._plans[verb].append("cancelled")

    def clear_faults(self) -> None:
        """Remove all planned faults."""
        self._plans.clear()

    def lose_answer(self, verb: str) -> None:
        """Apply the next call and lose its answer."""
        self._plans[verb].append("after")

    def delay(self, verb: str) -> None:
        """Make the next call fail, and apply it when ``arrive`` is called."""
        self._plans[verb].append("late")

    def hold(self, verb: str, *, is_back: bool = False) -> Gate:
        """Make the next call wait before it is applied or, with ``is_back``, before its answer arrives."""
        gate = Gate(is_back=is_back)
        self._plans[verb].append(gate)
        return gate

    async def arrive(self) -> None:
        """Apply the calls that were delayed."""
        late, self.late = self.late, []
        for call in late:
            await call()

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append(verb)
            plan = self._plans[verb].popleft() if self._plans[verb] else None
            if self.is_out or plan == "before":
                raise StoreUnavailable(f"{verb}: not reached")
            if plan == "cancelled":
                raise asyncio.CancelledError
            if plan == "late":
                self.late.append(lambda: getattr(self.store, verb)(*arguments, **keywords))
                raise StoreUnavailable(f"{verb}: no answer in time")
            if isinstance(plan, Gate) and not plan.is_back:
                await plan.pass_through()
            answer = await getattr(self.store, verb)(*arguments, **keywords)
            if isinstance(plan, Gate) and plan.is_back:
                await plan.pass_through()
            if plan == "after":
                raise StoreUnavailable(f"{verb}: the answer was lost")
            return answer

        return call


class Log:
    """Every event that was emitted."""

    def __init__(self) -> None:
        self.events = Events()
        self.all: list[Event] = []
        self.events.on("*", self.all.append)

    def names(self) -> list[str]:
        return [event.name.value for event in self.all]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event.fields for event in self.all if event.name == name]


class RecordedReports(AttemptReporter):
    """The reports of a worker to its supervisor, recorded."""

    def __init__(self) -> None:
        self.code_running: list[bool] = []
        self.moves: list[UUID] = []
        self.begins: list[UUID] = []
        self.overdues = 0
        self._unreported = {}
        self._waits = []

    def set_code_running(self, is_running: bool) -> None:
        self.code_running.append(is_running)

    def waiting(self, active: ActiveJob) -> None: ...

    def begun(self, active: ActiveJob, at: float) -> None:
        self.begins.append(active.id)

    def overdue(self) -> None:
        self.overdues += 1

    def moved(self, active: ActiveJob) -> None:
        self.moves.append(active.id)

    def stopped(self, active: ActiveJob) -> None: ...


class RecordedRuns(FinishedRuns):
    """Finished runs, of which ``all`` keeps every one that was added."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[FinishedRun] = []

    def add(self, run: FinishedRun) -> None:
        self.all.append(run)
        super().add(run)


class Bench:
    """A worker's engine without its services: a test makes every step itself."""

    def __init__(
        self,
        *tasks: Callable[..., Any] | TaskDefinition,
        slots: int = 10,
        threads: int = 4,
        is_halved: bool = False,
        prefetch: bool = False,
    ) -> None:
        self.clock, self.chance, self.log = FakeClock(), FakeChance(), Log()
        self.memory = MemoryStore(self.clock)
        self.store = Flaky(self.memory, lease_clock="server" if is_halved else "kernel", prefetch=prefetch)
        self.registry = registry(*tasks)
        self.transport = MemoryTransport()
        self.environment = Environment(self.store, self.transport, self.clock, self.chance, self.log.events)  # type: ignore[arg-type]
        self.lease = WorkerLease(self.clock.monotonic)
        self.reports = RecordedReports()
        calls = AttemptCalls(self.environment, self.reports, lost=self._lose)
        self.writer = ProgressWriter(
            self.store,  # type: ignore[arg-type]
            self.reports,
            calls,
            ChildJobs(self.environment, calls),
            StepRecords(self.store, calls, longest_nap=TIMING.beat),  # type: ignore[arg-type]
            now=self.clock.monotonic,
        )
        self.executor = Executor(
            self.environment, self.registry, self.writer, self.lease, self.reports, threads=ThreadRunner(threads)
        )
        self.executor.finished = finished = RecordedRuns()
        self.ended, self.slots, self.threads = finished.all, slots, min(slots, threads)
        self.asked_for_voids: list[UUID] = []
        self.pool: RunnerPool | None = None
        self.exchange = self.open_exchange(LEASE)
        self.beat()

    @property
    def hints(self) -> list[Hint]:
        return self.transport.published

    def open_exchange(self, lease: NewLease, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE) -> Exchange:
        self.lease.id, self.lease.worker = lease.id, lease.worker
        options = WorkerOptions(concurrency=self.slots, threads=self.threads, isolated=isolated)
        slots = Slots(self.registry, self.executor, options, self.pool)
        own = self.environment, self.executor, self.writer, self.lease, slots, options
        return Exchange(*own, poll_interval=1.0, beat=6.0, ask_for_void=lambda: self.asked_for_voids.append(self.lease.id))

    async def open(self, *payloads: tuple[str, bytes]) -> list[UUID]:
        """Open a lease and enqueue jobs, each given by its task's name and its payload; return their ids."""
        await self.memory.open_lease(LEASE)
        self.beat()
        return await enqueue(self.memory, self.chance, *payloads, policies=self.registry.policies())

    def _lose(self, job: UUID, token: Token) -> None:
        self.executor.stop(job, Stop.LOST, token=token)

    def beat(self) -> None:
        """Renew the lease, as an answered beat of the supervisor does."""
        self.lease.renew(TIMING.owner_deadline(self.clock.monotonic()))

    async def until_ended(self, count: int = 1) -> None:
        """Wait until the code of N handlers has stopped, counted from the start."""
        await until(lambda: len(self.ended) >= count)

    async def settle(self) -> None:
        """Step until there is nothing to deliver, without claiming."""
        self.exchange.is_closed = True
        while not self.exchange.is_delivered:
            await self.exchange.step()
        self.exchange.is_closed = False

    async def row(self, job: UUID) -> JobRecord:
        row = await self.memory.get(job)
        assert row is not None
        return row


def registry(*tasks: Callable[..., Any] | TaskDefinition) -> Registry:
    """Return a registry of tasks, named after their functions."""
    made = Registry()
    for task in tasks:
        made.add(task if isinstance(task, TaskDefinition) else define(task))
    return made


async def enqueue(
    store: Any, chance: FakeChance, *payloads: tuple[str, bytes], policies: dict[str, Policy] | None = None
) -> list[UUID]:
    """Enqueue jobs in the store and return their ids."""
    jobs = [
        NewJob(id=chance.uuid7(), task=task, payload=payload, policy=(policies or {}).get(task, Policy()))
        for task, payload in payloads
    ]
    await store.enqueue(chance.uuid4(), jobs)
    return [job.id for job in jobs]


JOB = UUID(int=77)


def claim(task: TaskDefinition, payload: bytes = b"{}", *, job: UUID = JOB, number: int = 1, failures: int = 0) -> Claim:
    """Return the claim of one job of this task."""
    active = ActiveJob(
        id=job,
        token=Token(UUID(int=5), number),
        lease=LEASE.id,
        task=task.name,
        state=State.RUNNING,
        attempt=1 + failures,
        failures=failures,
        crashes=0,
        policy=task.policy,
    )
    return Claim(job=active, payload=payload)


async def forever() -> None:
    """Wait without end, as a handler that stops only when it is cancelled."""
    await asyncio.get_running_loop().create_future()


async def stubborn() -> None:
    """Ignore every cancellation, as an unresponsive handler does."""
    while True:
        try:
            await forever()
        except asyncio.CancelledError as error:
            if error.args == (THE_END,):
                raise


class AlwaysDueHooks:
    """Rescue hooks that are due for every claim."""

    interval = 7.0

    def __init__(self, run: Callable[[Claim], Any]) -> None:
        self.run_before_attempt = run

    def is_owed(self, claim: Claim) -> bool:
        return True

    def unresponsive(self, seconds: float) -> tuple[UUID, ...]:
        return ()


class Held(threading.Event):
    """An event for which a handler in a thread waits; ``come`` is set once it waits, so that tests need no clock."""

    def __init__(self) -> None:
        super().__init__()
        self.come = threading.Event()

    def wait_here(self) -> None:
        self.come.set()
        assert self.wait(30)

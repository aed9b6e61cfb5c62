"""A worker's inside, a supervisor's surroundings and an unreliable store, all in memory; time moves only when told to."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, Claim, NewJob, State, Token
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import IsolatedJobs, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine.environment import Environment
from holdfast._engine.events import Event, Events
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.runners.runners import ThreadRunner
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks.registry import Registry, TaskDefinition, define
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.exchange import Exchange
from holdfast._engine.worker.executor import Executor, FinishedRun, FinishedRuns
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._engine.worker.slots import Slots
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
    """Let everything that is ready run."""
    for _ in range(count):
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


async def until(is_so: Callable[[], object]) -> None:
    """Let others run until it is so; pytest's time limit says when it never is."""
    loop = asyncio.get_running_loop()
    while not is_so():
        moment = loop.create_future()
        loop.call_later(0.001, moment.set_result, None)
        await moment


class Gate:
    """One call held up on its way there or back: ``entered`` when it came, and it goes on when ``opened``."""

    def __init__(self, *, is_back: bool) -> None:
        self.is_back = is_back
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.entered.set()
        await self.opened.wait()


class Flaky:
    """A store whose calls can fail before they arrive, lose their answer, come late or be held up. Notes every call."""

    def __init__(self, store: MemoryStore, lease_clock: str = "kernel") -> None:
        self.store = store
        self._lease_clock = lease_clock
        self.calls: list[str] = []
        self.late: list[Callable[[], Awaitable[Any]]] = []
        self.is_out = False
        self._plans: dict[str, deque[str | Gate]] = defaultdict(deque)

    @property
    def capabilities(self) -> Any:
        return structs.replace(self.store.capabilities, lease_clock=self._lease_clock)

    def fail(self, verb: str, times: int = 1) -> None:
        """The next calls never arrive."""
        self._plans[verb].extend(["before"] * times)

    def cancel(self, verb: str) -> None:
        """Out of the next call's inside a cancellation strays that nobody asked for."""
        self._plans[verb].append("stray")

    def mend(self) -> None:
        """Everything that was planned to go wrong goes well."""
        self._plans.clear()

    def lose_answer(self, verb: str) -> None:
        """The next call is applied, and its caller never hears of it."""
        self._plans[verb].append("after")

    def delay(self, verb: str) -> None:
        """The next call fails, and arrives nevertheless when ``arrive`` is called."""
        self._plans[verb].append("late")

    def hold(self, verb: str, *, is_back: bool = False) -> Gate:
        """The next call waits before it is applied or, with ``is_back``, before its answer arrives."""
        gate = Gate(is_back=is_back)
        self._plans[verb].append(gate)
        return gate

    async def arrive(self) -> None:
        """Whatever was delayed is applied now."""
        late, self.late = self.late, []
        for call in late:
            await call()

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append(verb)
            plan = self._plans[verb].popleft() if self._plans[verb] else None
            if self.is_out or plan == "before":
                raise StoreUnavailable(f"{verb}: not reached")
            if plan == "stray":
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
    """What a worker would report to its supervisor."""

    def __init__(self) -> None:
        self.code_running: list[bool] = []
        self.moves: list[UUID] = []
        self.begins: list[UUID] = []

    def set_code_running(self, is_running: bool) -> None:
        self.code_running.append(is_running)

    def waiting(self, hold: ActiveJob) -> None: ...

    def begun(self, hold: ActiveJob) -> None:
        self.begins.append(hold.id)

    def moved(self, hold: ActiveJob) -> None:
        self.moves.append(hold.id)

    def stopped(self, hold: ActiveJob) -> None: ...


class RecordedRuns(FinishedRuns):
    """Remembers all runs that were ever added."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[FinishedRun] = []

    def add(self, run: FinishedRun) -> None:
        self.all.append(run)
        super().add(run)


class Bench:
    """A worker's engine without its services: a test makes every step itself."""

    def __init__(
        self, *tasks: Callable[..., Any] | TaskDefinition, slots: int = 10, threads: int = 4, is_halved: bool = False
    ) -> None:
        self.clock, self.chance, self.log = FakeClock(), FakeChance(), Log()
        self.memory = MemoryStore(self.clock)
        self.store = Flaky(self.memory, lease_clock="server" if is_halved else "kernel")
        self.registry = registry(*tasks)
        self.transport = MemoryTransport()
        self.environment = Environment(self.store, self.transport, self.clock, self.chance, self.log.events)  # type: ignore[arg-type]
        self.lease = WorkerLease(self.clock.monotonic)
        self.reports = RecordedReports()
        children = ChildJobs(self.environment, lost=self._lose)
        self.writer = ProgressWriter(
            self.store,  # type: ignore[arg-type]
            self.reports,
            children,
            now=self.clock.monotonic,
        )
        self.executor = Executor(
            self.environment, self.registry, self.writer, self.lease, self.reports, threads=ThreadRunner(threads)
        )
        self.executor.finished = finished = RecordedRuns()
        self.ended, self.slots = finished.all, slots
        self.pool: RunnerPool | None = None
        self.exchange = self.open_exchange(LEASE)
        self.beat()

    @property
    def hints(self) -> list[Hint]:
        return self.transport.published

    def open_exchange(self, lease: NewLease, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE) -> Exchange:
        self.lease.id, self.lease.worker = lease.id, lease.worker
        options = WorkerOptions(concurrency=self.slots, threads=self.slots, isolated=isolated)
        slots = Slots(self.registry, self.executor, options, self.pool)
        return Exchange(self.environment, self.executor, self.writer, self.lease, slots, options, poll_interval=1.0, beat=6.0)

    async def open(self, *payloads: tuple[str, bytes]) -> list[UUID]:
        """A lease that is alive, and jobs, each a task's name and a payload."""
        await self.memory.open_lease(LEASE)
        self.beat()
        return await enqueue(self.memory, self.chance, *payloads, policies=self.registry.policies())

    def _lose(self, job: UUID, token: Token) -> None:
        self.executor.stop(job, Stop.LOST, token=token)

    def beat(self) -> None:
        """The supervisor's beat was answered just now."""
        self.lease.renew(TIMING.owner_deadline(self.clock.monotonic()))

    async def until_ended(self, count: int = 1) -> None:
        """Wait for that many handlers' code to have stopped, counted from the start."""
        await until(lambda: len(self.ended) >= count)

    async def settle(self) -> None:
        """Step until there is nothing to deliver; nothing is claimed meanwhile."""
        self.exchange.is_closed = True
        while not self.exchange.is_delivered:
            await self.exchange.step()
        self.exchange.is_closed = False

    async def row(self, job: UUID) -> JobRecord:
        row = await self.memory.get(job)
        assert row is not None
        return row


def registry(*tasks: Callable[..., Any] | TaskDefinition) -> Registry:
    """Tasks by the names of their functions."""
    made = Registry()
    for task in tasks:
        made.add(task if isinstance(task, TaskDefinition) else define(task))
    return made


async def enqueue(
    store: Any, chance: FakeChance, *payloads: tuple[str, bytes], policies: dict[str, Policy] | None = None
) -> list[UUID]:
    """Put jobs into the store; their ids."""
    jobs = [
        NewJob(id=chance.uuid7(), task=task, payload=payload, policy=(policies or {}).get(task, Policy()))
        for task, payload in payloads
    ]
    await store.enqueue(chance.uuid4(), jobs)
    return [job.id for job in jobs]


JOB = UUID(int=77)


def claim(task: TaskDefinition, payload: bytes = b"{}", *, job: UUID = JOB, number: int = 1, failures: int = 0) -> Claim:
    """What a claim of one job of this task hands over."""
    hold = ActiveJob(
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
    return Claim(job=hold, payload=payload)


async def forever() -> None:
    """What a handler does that never ends by itself."""
    await asyncio.get_running_loop().create_future()


async def stubborn() -> None:
    """What a handler does that takes no notice of being cancelled."""
    while True:
        try:
            await forever()
        except asyncio.CancelledError as error:
            if error.args == (THE_END,):
                raise


class Doctor:
    """Stands in for a healer; every claim owes."""

    interval = 7.0

    def __init__(self, run: Callable[[Claim], Any]) -> None:
        self.run_before_attempt = run

    def is_owed(self, claim: Claim) -> bool:
        return True

    def unresponsive(self, patience: float) -> tuple[UUID, ...]:
        return ()


class Held(threading.Event):
    """What a handler in a thread waits for; tests wait for its coming without a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.come = threading.Event()

    def wait_here(self) -> None:
        self.come.set()
        assert self.wait(30)

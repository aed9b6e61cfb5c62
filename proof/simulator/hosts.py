"""Simulated machines: clocks, chance, processes, pipes, and the guard that ends code at its deadline."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from uuid import UUID

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.host import Exit, SupervisorLink
from holdfast._system.clock import compose_uuid7
from proof.checker.history import label
from proof.simulator.loop import Process, VirtualLoop

EPOCH = 1_750_000_000.0
REAPING = (0.001, 0.02)  # from the death of a worker to the moment its supervisor can know
IMPORTING = (0.05, 0.4)  # from the spawn of a worker to its first line


class SimClock:
    """The clocks of one machine: they run at their own rate, and its wall clock is wrong."""

    def __init__(self, loop: VirtualLoop, *, rate: float = 1.0, origin: float = 0.0, wall_error: float = 0.0) -> None:
        self._loop = loop
        self._rate = rate
        self._origin = origin
        self.wall_error = wall_error

    def monotonic(self) -> float:
        """Return the seconds since this machine's boot, at this machine's rate."""
        return self._origin + self._loop.now * self._rate

    def boottime(self) -> float:
        """Return the monotonic time: these machines are never suspended, only stopped."""
        return self.monotonic()

    def wall(self) -> float:
        """Return the wall clock's time, wrong by ``wall_error``."""
        return EPOCH + self._loop.now * self._rate + self.wall_error

    def moment(self, reading: float) -> float:
        """Return the loop's time at which this machine's monotonic clock shows ``reading``."""
        return (reading - self._origin) / self._rate

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time, by this machine's rate."""
        waiter = self._loop.create_future()
        timer = self._loop.call_later(max(seconds, 0.0) / self._rate, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class SimStoreClock(SimClock):
    """A store's own clock, which may step."""

    def __init__(self, loop: VirtualLoop, *, rate: float = 1.0) -> None:
        super().__init__(loop, rate=rate)
        self.stepped = 0.0

    def monotonic(self) -> float:
        """Return the time with all steps so far."""
        return super().monotonic() + self.stepped

    def wall(self) -> float:
        """Return the time with all steps so far."""
        return super().wall() + self.stepped


class SimChance:
    """Ids and jitter, drawn from the seed."""

    def __init__(self, numbers: random.Random, clock: SimClock) -> None:
        self._numbers = numbers
        self._clock = clock
        self._count = 0

    def uuid4(self) -> UUID:
        return UUID(int=self._numbers.getrandbits(128))

    def uuid7(self) -> UUID:
        """Return an id; ids of one process sort by creation."""
        self._count += 1
        return compose_uuid7(int(self._clock.wall() * 1000), self._count << 32 | self._numbers.getrandbits(32))

    def uuid7s(self, count: int) -> list[UUID]:
        """Return ids in ascending order."""
        return [self.uuid7() for _ in range(count)]

    def jitter(self) -> float:
        """Return a number, uniform in [-1, 1]."""
        return self._numbers.uniform(-1.0, 1.0)


class SimChannel:
    """One end of a pipe: whole messages, in order, until either end is closed."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._inbox: deque[bytes | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self.other: SimChannel = self

    @classmethod
    def pair(cls, loop: VirtualLoop) -> "tuple[SimChannel, SimChannel]":
        """Return both ends of a new channel."""
        left, right = cls(loop), cls(loop)
        left.other, right.other = right, left
        return left, right

    def send(self, message: bytes) -> None:
        """Queue a message for the other end."""
        if not self._is_closed:
            self.other._put(message)

    async def receive(self) -> bytes | None:
        """Return the next message, or ``None`` at the end."""
        while not self._inbox:
            if self._is_closed:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        message = self._inbox.popleft()
        if message is None:
            self._inbox.append(None)
        return message

    def close(self) -> None:
        """Close this end; the other one reads what was sent, then the end."""
        if not self._is_closed:
            self._is_closed = True
            self.other._put(None)
            self._ring()

    def _put(self, message: bytes | None) -> None:
        self._inbox.append(message)
        self._ring()

    def _ring(self) -> None:
        if self._waiter is not None:
            _wake(self._waiter)
            self._waiter = None


class Machine:
    """A machine on which processes run. Its name stays when it boots again; process ids are soon reused."""

    def __init__(self, loop: VirtualLoop, name: str, clock: SimClock) -> None:
        self.loop = loop
        self.name = name
        self.clock = clock
        self.processes: list[Process] = []
        self.on_process: Callable[[Process, str], None] = lambda process, role: None
        self._boots = 1

    def process(self, role: str, title: str = "") -> Process:
        """Create a process that does not run anything yet."""
        taken = {each.identity.pid for each in self.processes if not each.is_dead}
        pid = 100
        while pid in taken:
            pid += 1
        start = int(self.loop.time() * 100) + len(self.processes)
        identity = ProcessIdentity(
            host=self.name, pid=pid, start=start, boot=f"{self.name}-boot-{self._boots}", pid_namespace="1", clock="1"
        )
        made = Process(self.loop, label(identity), identity, title or role)
        self.processes.append(made)
        self.on_process(made, role)
        return made

    def find(self, wanted: ProcessIdentity) -> Process | None:
        """Return the living process with that id and start time."""
        for each in self.processes:
            if not each.is_dead and (each.identity.pid, each.identity.start) == (wanted.pid, wanted.start):
                return each
        return None

    def lose_power(self) -> None:
        """End every process on it at once; the machine comes back under the same name, as another boot."""
        self._boots += 1
        for each in self.processes:
            each.end(Exit(signal="SIGKILL"))


class Guard:
    """The small process in a worker's session that ends its code at the deadline its supervisor last sent."""

    def __init__(self, loop: VirtualLoop, clock: SimClock, process: Process, worker: Process) -> None:
        self.process = process
        self._loop = loop
        self._clock = clock
        self._worker = worker
        self._context = loop.context_of(process)
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_code_running = False
        worker.on_exit.append(process.end)

    def tell(self, deadline: float) -> None:
        """Receive a new deadline from the supervisor's pipe."""
        self._deadline = deadline
        self._watch()

    def set_code_running(self, is_running: bool) -> None:
        """Record whether code runs: the flag that the worker sets."""
        self._is_code_running = is_running
        if is_running:
            self._watch()

    def lose_supervisor(self) -> None:
        """Receive the end of the pipe: a worker that never had a lease ends now, any other one by its last deadline."""
        if self._deadline is None:
            self._worker.end(Exit(signal="SIGKILL"))

    def _watch(self) -> None:
        if self._deadline is not None:
            moment = max(self._clock.moment(self._deadline), self._loop.time())
            # In the guard's own context: a frozen guard checks when it is thawed, a dead one never.
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(moment, self._look, context=self._context)

    def _look(self) -> None:
        is_over = self._deadline is not None and self._clock.monotonic() >= self._deadline - 1e-6
        if self._is_code_running and is_over:
            self._worker.end(Exit(signal="SIGKILL"))


class SimCell:
    """A worker process, as the worker itself uses it."""

    limits: tuple[str, ...] = ()

    def __init__(self, process: Process, channel: SimChannel, guard: Guard) -> None:
        self._process = process
        self._channel = channel
        self._guard = guard

    @property
    def channel(self) -> SimChannel:
        """The worker's end of the pipe."""
        return self._channel

    def process(self) -> ProcessIdentity:
        return self._process.identity

    def set_code_running(self, is_running: bool) -> None:
        self._guard.set_code_running(is_running)


class SimChild:
    """A supervisor's view of a worker process."""

    def __init__(self, loop: VirtualLoop, process: Process, channel: SimChannel, guard: Guard) -> None:
        self._loop = loop
        self._process = process
        self._channel = channel
        self._guard = guard
        self._reaping = process.numbers.uniform(*REAPING)
        self._reaped: asyncio.Future[Exit] = loop.create_future()
        process.on_exit.append(self._die)

    @property
    def process(self) -> ProcessIdentity:
        return self._process.identity

    @property
    def channel(self) -> SimChannel:
        """The supervisor's end of the pipe."""
        return self._channel

    def set_deadline(self, guard_deadline: float) -> bool:
        """Send the deadline down the guard's own pipe."""
        self._guard.tell(guard_deadline)
        return True

    def is_stopped(self) -> bool:
        """Return whether the process is stopped; one that only computes for long is not."""
        return self._process.is_frozen_by("stopped")

    def dump_stacks(self) -> str:
        """Do nothing: there are no stacks here."""
        return "stacks of " + self._process.name

    def kill(self) -> None:
        """Kill the worker, and with it its guard."""
        self._process.end(Exit(signal="SIGKILL"))

    async def wait(self) -> Exit:
        """Wait until the process is dead and reaped."""
        return await asyncio.shield(self._reaped)

    def _die(self, how: Exit) -> None:
        self._loop.call_later(self._reaping, self._reap, how, context=self._loop.outside)

    def _reap(self, how: Exit) -> None:
        if not self._reaped.done():
            self._reaped.set_result(how)


class SimHost:
    """The machine as one supervisor on it sees it."""

    def __init__(
        self,
        machine: Machine,
        supervisor: Process,
        run_worker: Callable[[SupervisorLink, Process, Sequence[str]], Coroutine[object, object, object]],
        title: Callable[[str], str] = str,
    ) -> None:
        self._title = title
        self._machine = machine
        self._supervisor = supervisor
        self._run_worker = run_worker
        self.workers: list[tuple[Process, Guard]] = []

    def process(self) -> ProcessIdentity:
        return self._supervisor.identity

    def is_running(self, process: ProcessIdentity) -> bool:
        """Return whether a living process has that id and start time."""
        return self._machine.find(process) is not None

    def memory(self, process: ProcessIdentity) -> int | None:
        """Do nothing: nothing here occupies memory."""
        del process
        return None

    def kill_orphans(self, process: ProcessIdentity) -> int:
        """Do nothing: sessions die as a whole here."""
        del process
        return 0

    async def spawn(self, arguments: Sequence[str]) -> SimChild:
        """Start a worker with a pipe and a guard; its first line runs when its imports are done."""
        loop = self._machine.loop
        title = self._title("worker")
        worker, watcher = self._machine.process("worker", title), self._machine.process("guard", f"the guard of {title}")
        ours, theirs = SimChannel.pair(loop)
        guard = Guard(loop, self._machine.clock, watcher, worker)
        child = SimChild(loop, worker, ours, guard)
        importing = worker.numbers.uniform(*IMPORTING)
        worker.on_exit.append(lambda _: theirs.close())
        self._supervisor.on_exit += [lambda _: ours.close(), lambda _: guard.lose_supervisor()]
        self.workers = [(each, its) for each, its in self.workers if not each.is_dead]
        self.workers.append((worker, guard))

        async def main() -> None:
            await self._machine.clock.sleep(importing)
            await self._run_worker(SimCell(worker, theirs, guard), worker, arguments)

        loop.start(worker, main())
        return child

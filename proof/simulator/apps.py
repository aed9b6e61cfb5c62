"""Users' processes in a world: each runs a worker in its event loop, and that worker's supervisor in a thread beside it.

Such a worker can be killed only with its whole process, and no guard watches it. Threads are processes beside it here, which
go on while its event loop is busy. The engine provides the host, the pipes and the in-process workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

from holdfast._core.requests import IsolatedJobs
from holdfast._engine.embedded.in_process import InProcessChild, InProcessHost
from holdfast._engine.supervisor.supervisor import OK, UNREACHABLE, Supervisor, SupervisorOptions
from proof.checker.history import EMBEDDED
from proof.simulator.event_listeners import Ears
from proof.simulator.hosts import Machine, SimChance, SimHost
from proof.simulator.workers import worker_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast._engine.worker.worker import Worker
    from holdfast._ports.host import SupervisorLink
    from proof.simulator.loop import Process, VirtualLoop
    from proof.simulator.world import World

STAYS = 0.5  # the share of processes that leave their worker and enter another one


class App:
    """One slot of such a process: when it ends, another one is started there, as a service manager does."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self._number, self._lives = world, number, 0
        self._machine: Machine = world.loop.stream(f"place of app {number}").choice(world.machines)
        self._stay: _Stay | None = None
        self.process: Process | None = None
        self.is_broken = False

    def start(self) -> None:
        """Start a process, and another one whenever it has ended."""
        self._lives += 1
        process = self._machine.process(EMBEDDED, f"{EMBEDDED} {self._number}.{self._lives}")
        self.process = process
        process.on_exit.append(lambda _: self._restart(process.numbers.random()))
        self._world.loop.start(process, self._live(process))

    def start_again(self) -> None:
        """Start a process if none lives here."""
        if not self._world.is_over and not self.is_broken and (self.process is None or self.process.is_dead):
            self.start()

    def leave(self) -> list[str]:
        """Make the user's code leave its worker, which drains; return the title of the process."""
        if self.process is None or self._stay is None:
            return []
        self._stay.drain()
        return [self.process.title]

    def _restart(self, share: float) -> None:
        world = self._world
        if not world.is_over and not self.is_broken:
            pause = 0.0 if world.is_calm else share**2 * world.plan.settings.timing.ttl
            world.loop.call_later(0.1 + pause, self.start_again, context=world.loop.outside)

    async def _live(self, process: Process) -> None:
        """Enter a worker and leave it; perhaps another one in the same process, beside code of the first that still runs."""
        stays, is_staying = 0, True
        while is_staying:
            stays += 1
            self._stay = _Stay(self._world, self._machine, process, stays)
            is_staying = await self._stay.run() and process.numbers.random() < STAYS
            self._stay = None
            await self._machine.clock.sleep(0.1)


class _Stay:
    """One worker of a process, from entry to exit: what ``async with app.worker()`` does."""

    def __init__(self, world: World, machine: Machine, process: Process, number: int) -> None:
        self._world, self._process, self._machine = world, process, machine
        self._thread = process.beside(f"supervisor {number} of {process.title}")
        self._over, self._code = asyncio.Event(), OK
        context = world.loop.context_of(process)
        self._host = _Host(
            SimHost(machine, process, _refuse_process),
            cast("asyncio.AbstractEventLoop", _Home(world.loop, process)),
            context,
            self._worker,
            on_ready=lambda: None,
            on_homeless=lambda: None,
        )
        store = world.connect(process)
        self._supervisor = Supervisor(
            host=self._host,
            clock=machine.clock,
            chance=SimChance(self._thread.numbers, machine.clock),
            events=Ears(world, process),
            connect=lambda settings: (store, world.transport(self._thread)),
            open_table=world.watched.opener(process, is_healthy=False),
            options=SupervisorOptions(isolates=False, tells=False),
            arguments=(),
        )

    async def run(self) -> bool:
        """Run until the user's code has left the worker and it has drained; return whether it ever ran."""
        loop = self._world.loop
        loop.create_task(self._supervise(), context=loop.context_of(self._thread))
        await self._over.wait()
        left = [each.task for each in self._host.inside if each.task is not None and not each.task.done()]
        if left:
            await asyncio.wait(left, timeout=self._world.plan.settings.timing.margin)
        if self._code not in (OK, UNREACHABLE):
            loop.complaints.append(f"{self._process.name}: its worker ended with {self._code}: {self._supervisor.problems}")
        return self._code == OK

    def drain(self) -> None:
        """Send the drain from the user's event loop to the thread."""
        loop = self._world.loop
        loop.call_soon_threadsafe(self._supervisor.drain, context=loop.context_of(self._thread))

    async def _supervise(self) -> None:
        loop = self._world.loop
        try:
            self._code = await self._supervisor.run()
        except Exception as error:
            loop.complaints.append(f"{self._process.name}: its supervisor ended with {error!r}")
        self._host.close()
        loop.call_soon_threadsafe(self._over.set, context=loop.context_of(self._process))
        for task in self._thread.tasks:
            task.cancel()  # as the end of an event loop does

    def _worker(self, cell: SupervisorLink) -> Worker:
        world, settings = self._world, self._world.plan.settings
        known = world.known(settings.timing.ttl)
        return worker_of(world, cell, self._process, self._machine.clock, settings, known, isolated=IsolatedJobs.INCLUDE)


class _Home:
    """The user's event loop, as a thread beside it reaches it: its callbacks run when that loop is not busy."""

    def __init__(self, loop: VirtualLoop, process: Process) -> None:
        self._loop, self._process = loop, process

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule the callback as asyncio does, unless the process has ended."""
        context = self._loop.context_of(self._process) if context is None else context
        handle: asyncio.Handle = self._loop.call_soon_threadsafe(callback, *arguments, context=context)
        return handle

    def is_closed(self) -> bool:
        """Return False: only the end of the process closes the loop, and no code runs there any more."""
        return False


class _Host(InProcessHost):
    """A host whose workers report no stacks: those of the simulator itself would differ from run to run."""

    async def spawn(self, arguments: Sequence[str]) -> InProcessChild:
        """Start another worker in the user's loop."""
        child = await super().spawn(arguments)
        setattr(child, "dump_stacks", lambda: f"stacks of {child.process.pid}")  # noqa: B010 - a method of one object only
        return child


def _refuse_process(*_: object) -> Coroutine[object, object, object]:
    raise AssertionError("such a worker is not a process")

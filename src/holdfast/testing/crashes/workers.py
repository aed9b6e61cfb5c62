"""A real supervisor, in a thread of the test's process, and its worker processes."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast._engine.events import Events
from holdfast._engine.supervisor.supervisor import Supervisor, SupervisorOptions
from holdfast._engine.worker.options import WorkerOptions
from holdfast._system import guard
from holdfast._system.clock import SystemClock, SystemRandomness, blocking_sleep
from holdfast._system.host import WORKER_COMMAND, SystemHost
from holdfast.opening import connect, open_table
from holdfast.testing.crashes.plan import TARGET, VARIABLE

GENTLE = 2.0
"""Seconds for workers to end by themselves; after that they are killed."""
PAUSE = 0.005
OPTIONS = {"worker": WorkerOptions(), "log_level": "warning", "log_format": "text"}


class Crew:
    """A supervisor in a thread, and its workers, from the start until ``end``.

    ``freeze`` stops the supervisor only: the test stops the workers' processes separately.
    """

    def __init__(self, plan: Path, processes: int) -> None:
        clock = SystemClock()
        self._plan = plan
        self._supervisor = Supervisor(
            host=SystemHost(clock, ("env", f"{VARIABLE}={plan}", *WORKER_COMMAND)),
            clock=clock,
            chance=SystemRandomness(),
            events=Events(),
            connect=connect,
            open_table=open_table,
            options=SupervisorOptions(processes=processes),
            arguments=(TARGET, msgspec.json.encode(OPTIONS).decode()),
        )
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[object]] = []
        self._stands, self._goes = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-crash-test", daemon=True)
        self._thread.start()

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons why the workers refuse to start."""
        return self._supervisor.problems

    def freeze(self) -> None:
        """Stop the supervisor; return when it stands still."""
        self._goes.clear()
        self._loop.call_soon_threadsafe(self._stand)
        self._stands.wait()

    def thaw(self) -> None:
        """Let the supervisor go on."""
        self._stands.clear()
        self._goes.set()

    def end(self) -> None:
        """End the supervisor, its workers, and all processes that these have started."""
        self.thaw()
        for action in (self._supervisor.drain, self._supervisor.drain):
            self._ask(action)
        self._thread.join(GENTLE)
        if self._thread.is_alive():
            self._ask(lambda: self._tasks.append(self._loop.create_task(self._cut())))
            self._thread.join()
        _sweep(f"{VARIABLE}={self._plan}".encode())

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop):
            self._tasks.append(self._loop.create_task(self._supervisor.run()))
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._tasks[0])

    def _stand(self) -> None:
        self._stands.set()
        self._goes.wait()

    async def _cut(self) -> None:
        """Kill the workers, without waiting for code that does not stop or for a store that does not answer."""
        workers = tuple(self._supervisor.workers)
        for worker in workers:
            worker.kill("the test is over", is_free=True)
        await asyncio.gather(*(worker.child.wait() for worker in workers))
        self._tasks[0].cancel()

    def _ask(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            pass  # it has ended


def _sweep(mark: bytes) -> None:
    """Kill all processes with this entry in their environment.

    Handlers may have started them in separate sessions. They outlive their worker, but must not outlive the test.
    """
    swept = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc") if guard.sees_processes() else ())):
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                guard.kill_member(pid, os.getsid(pid))
                swept.append(pid)
        except OSError:
            pass  # gone, or of another user
    for _ in range(round(GENTLE / PAUSE)):  # on a busy machine it takes a killed one its turn to die
        if not any((stat := guard.read_stat(pid)) and stat.is_alive for pid in swept):
            break
        blocking_sleep(PAUSE)

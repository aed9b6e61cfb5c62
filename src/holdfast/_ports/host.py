"""The machine as the supervisor sees it: processes, their channels and their exits."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity


class Exit(Struct, frozen=True):
    """How a process ended: an exit code, or the name of the signal that killed it, such as ``SIGKILL``."""

    code: int | None = None
    signal: str | None = None
    is_out_of_memory: bool = False

    def __str__(self) -> str:
        return f"{self.signal or f'exit code {self.code}'}{' (out of memory)' if self.is_out_of_memory else ''}"


class Channel(Protocol):
    """One end of the pipe between a supervisor and a worker. Carries whole messages in order."""

    def send(self, message: bytes) -> None:
        """Queue a message; never block, never raise: the reader notices a closed or clogged pipe."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, or ``None`` when the other end is closed."""
        ...

    def close(self) -> None: ...


class WorkerChild(Protocol):
    """A worker process: a direct child, the leader of a new session, with a separate guard process."""

    @property
    def process(self) -> ProcessIdentity:
        """The identity of the worker process."""
        ...

    @property
    def channel(self) -> Channel:
        """The supervisor's end of the pipe."""
        ...

    def set_deadline(self, guard_deadline: float) -> bool:
        """Set until when the worker's code may run, on the lease's clock; its guard, if it has one, kills it then.

        Return ``False`` if the guard is gone. Never blocks.
        """
        ...

    def is_stopped(self) -> bool:
        """Return whether the process is stopped (state T): it computes nothing, answers nothing, and may hold a lock."""
        ...

    def dump_stacks(self) -> str:
        """Return the stacks of its threads, as far as they can be read; empty if they cannot."""
        ...

    def kill(self) -> None:
        """SIGKILL every process of its session."""
        ...

    async def wait(self) -> Exit:
        """Return how the worker ended, once it has been reaped and no process of its session is left."""
        ...


class Host(Protocol):
    """This machine, as the place where worker processes start."""

    def process(self) -> ProcessIdentity:
        """Return the identity of this process."""
        ...

    def is_running(self, process: ProcessIdentity) -> bool:
        """Return whether a process with that pid and start time exists here; a zombie does not count."""
        ...

    def memory(self, process: ProcessIdentity) -> int | None:
        """Return the bytes of memory that a process of this machine occupies; ``None`` where the system does not show it."""
        ...

    def kill_orphans(self, process: ProcessIdentity) -> int:
        """Kill what is left of a dead worker's session; return the number of processes that were killed."""
        ...

    async def spawn(self, arguments: Sequence[str]) -> WorkerChild:
        """Start a worker process from the main thread."""
        ...


class SupervisorLink(Protocol):
    """A worker process as the worker itself sees it: its end of the pipe, and the flag that its guard watches."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What this machine cannot do for the worker, such as ending its code at the deadline."""
        ...

    @property
    def channel(self) -> Channel:
        """This end of the pipe to the supervisor."""
        ...

    def process(self) -> ProcessIdentity:
        """Return the identity of this process."""
        ...

    def set_code_running(self, is_running: bool) -> None:
        """Set the flag that user code runs; the guard kills only running code at its deadline."""
        ...


class RunnerChild(Protocol):
    """A process that runs handlers for its worker, one after the other: leader of a group in the worker's session."""

    @property
    def channel(self) -> Channel:
        """The worker's end of the pipe."""
        ...

    async def dump_stacks(self) -> str:
        """Return the stacks of its threads, as far as they can be read; empty if they cannot."""
        ...

    def last_stacks(self) -> str:
        """Return the stacks that the runner wrote when it died of an error in native code; empty if it did not."""
        ...

    def kill(self) -> None:
        """SIGKILL every process of its group."""
        ...

    async def wait(self) -> Exit:
        """Return how the runner ended, once it has been reaped and no process of its group is left."""
        ...


class RunnerHost(Protocol):
    """The place from which a worker gets its runners."""

    async def spawn(self) -> RunnerChild:
        """Start a runner; it dies with the thread that calls this."""
        ...

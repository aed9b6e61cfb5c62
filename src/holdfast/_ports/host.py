"""The machine as the supervisor sees it: processes, their channels and their death."""

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
        """Queue a message; never blocks, never raises: a closed or clogged pipe is noticed by reading."""
        ...

    async def receive(self) -> bytes | None:
        """The next message, or ``None`` when the other end is closed."""
        ...

    def close(self) -> None:
        """Close this end."""
        ...


class WorkerChild(Protocol):
    """A worker process: a direct child, leader of its own session, guarded by a process of its own."""

    @property
    def process(self) -> ProcessIdentity:
        """Who it is."""
        ...

    @property
    def channel(self) -> Channel:
        """Our end of its pipe."""
        ...

    def set_deadline(self, guard_deadline: float) -> bool:
        """Tell its guard, if it has one, until when its code may run, on the lease's clock. ``False``: its guard is gone.

        Never blocks.
        """
        ...

    def is_stopped(self) -> bool:
        """Whether it is stopped (state T): it computes nothing, answers nothing, and may hold a lock."""
        ...

    def dump_stacks(self) -> str:
        """Stacks of its threads, as well as they can be had; empty if not."""
        ...

    def kill(self) -> None:
        """SIGKILL every process of its session."""
        ...

    async def wait(self) -> Exit:
        """How it ended, once it has been reaped and nothing of its session is left."""
        ...


class Host(Protocol):
    """This machine."""

    def process(self) -> ProcessIdentity:
        """Who we are."""
        ...

    def is_running(self, process: ProcessIdentity) -> bool:
        """Whether a process with that pid and start time exists here; a zombie does not count."""
        ...

    def kill_orphans(self, process: ProcessIdentity) -> int:
        """Kill what is left of a dead worker's session; how many processes that were."""
        ...

    async def spawn(self, arguments: Sequence[str]) -> WorkerChild:
        """Start a worker process from the main thread."""
        ...


class SupervisorLink(Protocol):
    """A worker process from inside: its end of the pipe, and the flag its guard watches."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What this machine cannot do for the worker, such as ending its code at the deadline."""
        ...

    @property
    def channel(self) -> Channel:
        """This end of the pipe to the supervisor."""
        ...

    def process(self) -> ProcessIdentity:
        """Who this process is."""
        ...

    def set_code_running(self, is_running: bool) -> None:
        """Tell the guard whether user code runs; only running code is killed at the guard's deadline."""
        ...


class RunnerChild(Protocol):
    """A process that runs handlers for its worker, one after the other: leader of a group in the worker's session."""

    @property
    def channel(self) -> Channel:
        """Our end of its pipe."""
        ...

    async def dump_stacks(self) -> str:
        """Stacks of its threads, as well as they can be had; empty if not."""
        ...

    def last_stacks(self) -> str:
        """Those it wrote itself when it died of an error in native code; empty if it did not."""
        ...

    def kill(self) -> None:
        """SIGKILL every process of its group."""
        ...

    async def wait(self) -> Exit:
        """How it ended, once it has been reaped and nothing of its group is left."""
        ...


class RunnerHost(Protocol):
    """Where a worker gets its runners from."""

    async def spawn(self) -> RunnerChild:
        """Start a runner; it dies with the thread that calls this."""
        ...

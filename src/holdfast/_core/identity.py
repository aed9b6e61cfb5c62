"""Names of workers, and what proves a process dead.

A host name prefix proves nothing (``web-`` matches ``web-2``), and a pid alone is reused. Proof needs the
same kernel boot and pid namespace, where nobody has that pid *and* start time any more.
"""

from uuid import UUID

from msgspec import Struct


class ProcessIdentity(Struct, frozen=True):
    """One process incarnation. Empty strings and ``start=0`` mean unknown: then nothing can be proven.

    ``start`` is the process' start time in kernel ticks since boot; ``clock`` names the time namespace.
    """

    host: str
    pid: int
    start: int = 0
    boot: str = ""
    pid_namespace: str = ""
    clock: str = ""

    def shares_processes_with(self, other: "ProcessIdentity") -> bool:
        """Whether both live where one can see the other's process table."""
        mine = (self.host, self.boot, self.pid_namespace)
        return all(mine) and mine == (other.host, other.boot, other.pid_namespace)

    def shares_clock_with(self, other: "ProcessIdentity") -> bool:
        """Whether monotonic readings of both can be compared."""
        return bool(self.boot) and (self.boot, self.clock) == (other.boot, other.clock)


def is_provably_dead(theirs: ProcessIdentity, ours: ProcessIdentity, *, is_running: bool) -> bool:
    """Whether the process is gone for certain; ``is_running``: a process with its pid and start time exists here."""
    return ours.shares_processes_with(theirs) and theirs.start > 0 and not is_running


def worker_name(host: str, pid: int, incarnation: UUID) -> str:
    """``hostname-pid-8hex``: readable at a glance, never used as proof.

    >>> worker_name("web-1", 42, UUID(int=0xabc << 96))
    'web-1-42-00000abc'
    """
    return f"{host}-{pid}-{incarnation.hex[:8]}"

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


class Look(Struct, frozen=True):
    """What the system told of a pid. ``start`` and ``is_alive``: of an entry of /proc that could be read, a zombie is not alive.

    ``has_no_entry``: there certainly is none. ``has_no_process``: a signal found nothing (``ESRCH``).
    """

    start: int | None = None
    is_alive: bool = True
    has_no_entry: bool = False
    has_no_process: bool = False


def may_run(process: ProcessIdentity, look: Look, *, are_starts_comparable: bool = True) -> bool:
    """Whether the process may still be there. An entry that is hidden or could not be read proves nothing.

    >>> may_run(ProcessIdentity("web-1", 42, 1000), Look(has_no_entry=True))  # hidepid=2: a signal would have found it
    True
    """
    if look.start is None:
        return not (look.has_no_entry and look.has_no_process)
    return look.is_alive and (look.start == process.start or not are_starts_comparable)


def is_provably_dead(theirs: ProcessIdentity, ours: ProcessIdentity, *, is_running: bool) -> bool:
    """Whether the process is gone for certain; ``is_running``: a process with its pid and start time may exist here.

    One that does not see its own start time does not see the process table either, and proves nothing.
    """
    return ours.shares_processes_with(theirs) and theirs.start > 0 and ours.start > 0 and not is_running


def worker_name(host: str, pid: int, incarnation: UUID) -> str:
    """``hostname-pid-8hex``: readable at a glance, never used as proof.

    >>> worker_name("web-1", 42, UUID(int=0xabc << 96))
    'web-1-42-00000abc'
    """
    return f"{host}-{pid}-{incarnation.hex[:8]}"


def enqueue_call_id(first: UUID, lot: UUID) -> UUID:
    """The id of a call of enqueue: the time of its first job's id, then 64 random bits.

    Stores keep a receipt of each call, and append those whose ids grow: beside a million others, wholly random ones cost
    a fifth of the rate.

    >>> call_id(UUID(int=1 << 64 | 2), UUID(int=3 << 64 | 4)) == UUID(int=1 << 64 | 4)
    True
    """
    return UUID(int=first.int >> 64 << 64 | lot.int & (2**64 - 1))

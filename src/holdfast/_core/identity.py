"""Names of workers, and the proof that a process has ended.

A host name prefix proves nothing (``web-`` matches ``web-2``), and a pid alone is reused. Proof needs the same kernel boot and pid
namespace, in which no process has that pid *and* start time any more.
"""

from uuid import UUID

from msgspec import Struct


class ProcessIdentity(Struct, frozen=True):
    """One process incarnation. Empty strings and ``start=0`` mean unknown: then nothing can be proven.

    ``start`` is the start time of the process in kernel ticks since boot; ``clock`` names the time namespace.
    """

    host: str
    pid: int
    start: int = 0
    boot: str = ""
    pid_namespace: str = ""
    clock: str = ""

    def shares_processes_with(self, other: "ProcessIdentity") -> bool:
        """Return whether both are in one pid namespace, so that each sees the other's process table."""
        mine = (self.host, self.boot, self.pid_namespace)
        return all(mine) and mine == (other.host, other.boot, other.pid_namespace)


class Look(Struct, frozen=True):
    """The system's findings about a pid. ``start`` and ``is_alive``: read from its entry in /proc; a zombie is not alive.

    ``has_no_entry``: /proc certainly has no entry. ``has_no_process``: a signal found no process (``ESRCH``).
    """

    start: int | None = None
    is_alive: bool = True
    has_no_entry: bool = False
    has_no_process: bool = False


def may_run(process: ProcessIdentity, look: Look, *, are_starts_comparable: bool = True) -> bool:
    """Return whether the process may still exist. A hidden or unreadable entry in /proc proves nothing.

    >>> may_run(ProcessIdentity("web-1", 42, 1000), Look(has_no_entry=True))  # hidepid=2: a signal would have found it
    True
    """
    if look.start is None:
        return not (look.has_no_entry and look.has_no_process)
    return look.is_alive and (look.start == process.start or not are_starts_comparable)


def is_provably_dead(theirs: ProcessIdentity, ours: ProcessIdentity, *, is_running: bool) -> bool:
    """Return whether the process has certainly ended; ``is_running``: a process with its pid and start time may exist here.

    A process that does not see its own start time does not see the process table either, and proves nothing.
    """
    return ours.shares_processes_with(theirs) and theirs.start > 0 and ours.start > 0 and not is_running


def worker_name(host: str, pid: int, incarnation: UUID) -> str:
    """Return the name of a worker, ``hostname-pid-8hex``, which is for people and never used as proof.

    >>> worker_name("web-1", 42, UUID(int=0xabc << 96))
    'web-1-42-00000abc'
    """
    return f"{host}-{pid}-{incarnation.hex[:8]}"


def rescuer_name(role: str, process: ProcessIdentity) -> str:
    """Return the name of what takes jobs from workers, for people to read.

    >>> rescuer_name("supervisor", ProcessIdentity("web-1", 42))
    'supervisor web-1-42'
    """
    return f"{role} {process.host}-{process.pid}"


def host_of_rescuer(name: str) -> str:
    """Return the machine in the name of a rescuer, or the whole name if it has none.

    >>> host_of_rescuer("supervisor web-1-42")
    'web-1'
    """
    return name.rpartition(" ")[2].rpartition("-")[0] or name


def enqueue_call_id(first: UUID, lot: UUID) -> UUID:
    """Return the id of an enqueue call: the time of its first job's id, then 64 random bits.

    Stores keep a receipt of each call, and append receipts whose ids grow. Beside a million others, entirely random ids cost a fifth
    of the rate.

    >>> enqueue_call_id(UUID(int=1 << 64 | 2), UUID(int=3 << 64 | 4)) == UUID(int=1 << 64 | 4)
    True
    """
    return UUID(int=first.int >> 64 << 64 | lot.int & (2**64 - 1))

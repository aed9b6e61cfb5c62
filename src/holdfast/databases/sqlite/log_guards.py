"""Locks that keep other processes from removing the write-ahead log of a database that this process has open.

POSIX drops all locks that a process has on a file as soon as the process closes any descriptor of that file. Copying the file in
the process is enough. The next process that closes the database then finds no lock and removes the log, as the last user does.
This process goes on writing to a log that no other process can find: 51 jobs were acknowledged and 50 lost.

A lock of an open file description ends only with that description. This module puts one on SQLite's own descriptors, on the bytes
that SQLite itself has locked for reading. So it never hinders a reader or a writer.
"""

import os
import stat
import struct
import threading
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from holdfast._forks import Forked, register

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

Identity = tuple[int, int]

_DESCRIPTORS = Path("/proc/self/fd")
_FORM = "hhqqi0q"  # struct flock
_READING = (0x4000_0002, 510)  # in the database: locked by each connection that has the log open
_CONNECTED = (128, 1)  # in the -shm: locked by each process that has it open
_WRITING = (120, 1)  # in the -shm: locked by the one connection that writes
_IS_POSSIBLE = hasattr(fcntl, "F_OFD_SETLK")


class _Guard(Struct):
    users: int
    database: list[int]
    memory: list[int]


class Guards(Forked):
    """The guards of a process: one for each database, for as long as any of its connections is open."""

    def __init__(self) -> None:
        self._guards: dict[tuple[Identity, Identity], _Guard] = {}
        self._inherited: set[int] = set()
        self._lock = threading.Lock()
        register(self)

    def take(self, database: Identity, memory: Identity) -> None:
        """Guard the database for one more connection; do nothing on systems without locks of open file descriptions."""
        with self._lock:
            guard = self._guards.get((database, memory))
            if guard is None:
                guard = self._guards[database, memory] = _Guard(0, *self._descriptors(database, memory))
                if guard.database and guard.memory:  # else the database has no log, and the lock would hinder writers
                    _lock(guard.database, _READING)
                    _lock(guard.memory, _CONNECTED)
            guard.users += 1

    def give(self, database: Identity, memory: Identity, *, is_lost: bool) -> None:
        """End the guard for one connection, right before it is closed. ``is_lost``: its log is not the database's any more. Then the
        locks stay on its descriptors, so that SQLite does not copy that log into the database."""
        with self._lock:
            guard = self._guards.get((database, memory))
            if guard is None:
                return  # a guard of the process that forked this one
            guard.users -= 1
            if guard.users == 0:
                del self._guards[database, memory]
                if not is_lost:  # else SQLite would not remove the log
                    _unlock(guard.database, database, _READING)
                    _unlock(guard.memory, memory, _CONNECTED)

    def has_write_lock(self, database: Identity, memory: Identity) -> bool:
        """Return whether this process has the write lock; true on systems that do not report it."""
        guard = self._guards.get((database, memory))
        if guard is None or not guard.memory:
            return True
        try:
            kind, *_, process = struct.unpack(
                _FORM, fcntl.fcntl(guard.memory[0], fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, _WRITING))
            )
        except OSError:
            return True
        return kind != fcntl.F_UNLCK and process in (os.getpid(), 0)

    def after_fork_in_child(self) -> None:
        """Forget the guards in the child: its inherited descriptors share their locks with the parent."""
        self._inherited |= {each for guard in self._guards.values() for each in (*guard.database, *guard.memory)}
        self._guards, self._lock = {}, threading.Lock()

    def _descriptors(self, *identities: Identity) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in identities]
        with suppress(OSError):
            for name in os.listdir(_DESCRIPTORS) if _IS_POSSIBLE else ():
                if (each := int(name)) not in self._inherited and (identity := _identity_of(each)) in identities:
                    found[identities.index(identity)].append(each)
        return found


def _identity_of(descriptor: int) -> Identity | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _lock(descriptors: list[int], place: tuple[int, int]) -> None:
    for each in descriptors:
        with suppress(OSError):
            fcntl.fcntl(each, fcntl.F_OFD_SETLK, _flock(fcntl.F_RDLCK, place))


def _unlock(descriptors: list[int], identity: Identity, place: tuple[int, int]) -> None:
    for each in descriptors:
        if _identity_of(each) == identity:
            with suppress(OSError):
                fcntl.fcntl(each, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, place))


def _flock(kind: int, place: tuple[int, int]) -> bytes:
    return struct.pack(_FORM, kind, os.SEEK_SET, *place, 0)


GUARDS = Guards()

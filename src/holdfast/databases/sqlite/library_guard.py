"""Keeps Python's own SQLite away from the files that this process has open by apsw: used on one file, both would damage it.

Each library records only its own locks, and POSIX drops all locks of a process on a file with the first close. A file opened by both
was damaged within seconds. The hook is installed with the first connection of apsw: without apsw nothing is watched.
"""

import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast._forks import Forked, register
from holdfast.databases.sqlite.file_location import identity_of
from holdfast.errors import ConfigurationError, Unsupported

Identity = tuple[int, int]

_DESCRIPTORS = Path("/proc/self/fd")
REMEDY = "unset HOLDFAST_SQLITE, or keep the jobs in another file"


class LibraryGuard(Forked):
    """The files that this process has open by apsw. No lock: each change of a dict is one step, and the hook may run in any thread."""

    def __init__(self) -> None:
        self._open: dict[int, Identity] = {}
        self._inherited: frozenset[Identity] = frozenset()
        self._is_installed = False
        register(self)

    def open(self, path: Path, connect: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        """Open a file by apsw; return the connection and what to call after its close.

        ``ConfigurationError`` if other code has the file open already.
        """
        self._install()
        found = identity_of(path)
        if found is not None and found not in self._open.values() and found not in self._inherited and _has_open(found):
            why = "HOLDFAST_SQLITE=apsw, and other code of this process has the file open, for example by sqlite3"
            raise ConfigurationError([f"{path}: {why}: two SQLite libraries in one process damage it: {REMEDY}"])
        connection = connect()
        key, identity = id(connection), identity_of(path)
        if identity is not None:
            self._open[key] = identity
        weakref.finalize(connection, self._open.pop, key, None).atexit = False
        return connection, lambda: self._open.pop(key, None)

    def after_fork_in_child(self) -> None:
        """Forget the parent's connections in the child, which neither uses nor closes them."""
        self._inherited |= frozenset(self._open.values())
        self._open.clear()

    def _install(self) -> None:
        if not self._is_installed:
            self._is_installed = True
            sys.addaudithook(self._refuse)

    def _refuse(self, event: str, values: tuple[Any, ...]) -> None:
        if event != "sqlite3.connect" or not self._open:
            return
        identity = identity_of(path) if (path := path_of(values[0])) else None
        if identity in self._open.copy().values():
            raise Unsupported(
                f"{path}: Holdfast has this file open by apsw (HOLDFAST_SQLITE=apsw), and this code connects to it by sqlite3: "
                f"two SQLite libraries in one process damage a file. Connect by apsw here, {REMEDY}"
            )


def path_of(database: Any) -> str:
    """Return the path that ``sqlite3.connect`` is given, also as a URI; empty if it names no file.

    >>> path_of("file:///srv/my%20jobs.db?mode=ro")
    '/srv/my jobs.db'
    >>> path_of(b"jobs.db")
    'jobs.db'
    """
    try:
        name = os.fsdecode(database)
    except TypeError:
        return ""
    if not name.startswith("file:"):
        return name
    name = name.removeprefix("file:").partition("#")[0].partition("?")[0]
    if name.startswith("//"):  # an authority, which is empty or localhost
        name = f"/{name[2:].partition('/')[2]}"
    return unquote(name)


def _has_open(identity: Identity) -> bool:
    """Return whether this process has the file open by anything but apsw. False where the system does not list descriptors."""
    import apsw

    with suppress(apsw.Error):  # closed in the meantime
        if any(identity_of(each.filename) == identity for each in apsw.connections()):
            return False
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return False
    return any(identity_of(_DESCRIPTORS / name) == identity for name in names)


GUARD = LibraryGuard()

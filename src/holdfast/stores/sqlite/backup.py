"""A copy of the file, made by SQLite's backup API while other processes write to it.

The copy is one step and one snapshot: a copy in several steps begins again after each write of another process.
"""

import os
import sqlite3
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

from holdfast._ports.backup import Backup
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import remedy_of
from holdfast.databases.sqlite.file_location import create_private, require_local_disk
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.sqlite import schema

_BUSY_TIMEOUT = "PRAGMA busy_timeout = 5000"
_COUNT = "SELECT count(*) FROM holdfast_jobs"


def copy(source: Path, target: Path, *, use_apsw: bool) -> Backup:
    """Copy the file, verify the copy, and only then give it its name."""
    target = target.absolute()
    _require_new(target)
    # SQLite would take the copy for a part of the store, block other processes by it, and remove it.
    if any(os.path.realpath(target) == name for name in map(str, _beside(Path(os.path.realpath(source))))):
        raise ConfigurationError([f"{target} is a name that SQLite uses for a part of {source}: name another file"])
    if not source.exists():
        raise ConfigurationError([f"{source}: there is no file to copy; name the store by --app or --url"])
    partial = _unused(target)
    try:
        create_private(partial)
    except OSError as error:
        raise ConfigurationError([f"{target}: {error.strerror}: name a file in a folder that may be written"]) from error
    try:
        jobs = _fill(source, partial, use_apsw=use_apsw)
        _publish(partial, target)
    except sqlite3.Error as error:
        if remedy := remedy_of(error):
            raise ConfigurationError([f"{source}: {error}: {remedy}"]) from error
        raise StoreUnavailable(f"backup: {source}: {error}") from error
    finally:
        for name in (partial, *_beside(partial)):
            name.unlink(missing_ok=True)
    return Backup(str(target), jobs, target.stat().st_size)


def _unused(target: Path) -> Path:
    """Return an unused name beside the target; a killed backup of the same process id may have left a partial file."""
    names = (target.with_name(f".{target.name}.{os.getpid()}-{number}.partial") for number in count())
    return next(name for name in names if not os.path.lexists(name))


def _fill(source: Path, partial: Path, *, use_apsw: bool) -> int:
    with closing(driver.connect(source, use_apsw=use_apsw)) as connection:
        connection.execute(_BUSY_TIMEOUT)
        if schema.version_of(connection) == 0:
            raise ConfigurationError([f"{source}: it has no jobs; name the store by --app or --url"])
        connection.execute("BEGIN")
        ((expected,),) = connection.execute(_COUNT).fetchall()  # counted in the snapshot that is copied
        with closing(driver.connect(partial, use_apsw=use_apsw)) as copied:
            driver.back_up(connection, copied)
        connection.execute("COMMIT")
    with closing(driver.connect(partial, use_apsw=use_apsw)) as copied:
        ((health,), *_) = copied.execute("PRAGMA integrity_check(1)").fetchall()
        ((jobs,),) = copied.execute(_COUNT).fetchall() if health == "ok" else ((None,),)
    if health != "ok" or jobs != expected:
        raise StoreUnavailable(
            f"backup: the copy of {source} is damaged ({health}; {jobs} of {expected} jobs) and was removed: run `holdfast check`"
        )
    return int(expected)


def _publish(partial: Path, target: Path) -> None:
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    try:
        os.link(partial, target)  # unlike a rename it replaces no file
    except FileExistsError:
        _require_new(target)
        raise
    except OSError:  # a file system without links
        _require_new(target)
        partial.rename(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that cannot sync folders
            os.fsync(folder)
    finally:
        os.close(folder)


def _require_new(target: Path) -> None:
    require_local_disk(target)
    for name in (target, *_beside(target)):
        if os.path.lexists(name):
            raise ConfigurationError([f"{name} exists, and a backup replaces nothing: name another file, or remove that one"])


def _beside(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "-journal"))

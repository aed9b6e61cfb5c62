"""The checks of a SQLite store: library, schema, files, disk, contents."""

from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast._core.answers import Check
from holdfast._core.policy import RETENTION_FLOOR
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import FIRST_WITHOUT_RESET_RACE
from holdfast.databases.sqlite.file_location import require_local_disk
from holdfast.databases.sqlite.rights import lacking_right
from holdfast.databases.sqlite.values import micros
from holdfast.errors import HoldfastError, StoreDamaged
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.schema import VERSION

REMEDY = (
    "use a Python with SQLite 3.51.3 or later; or, for a file that no other code of the process opens, `pip install apsw` and "
    "`export HOLDFAST_SQLITE=apsw`"
)
MEGABYTE = 1 << 20
READ_IN_FULL = 512 * MEGABYTE  # takes a second or two
LARGE_LOG = 256 * MEGABYTE  # SQLite empties it at 4 MB
SCARCE, TOO_SCARCE = 256 * MEGABYTE, 16 * MEGABYTE
LAG = 3600.0
MOST = 10_001
STEP = 60.0


def check(database: StoreDatabase, rehearse: Callable[[], Check]) -> tuple[Check, ...]:
    """Return all findings; a file that cannot be opened is one of them, and a missing file is not created.

    ``rehearse`` moves a job in a transaction that is rolled back.
    """
    library = library_of(driver.version(use_apsw=database.use_apsw))
    try:
        if (lacking := lacking_right(database.path)) is not None:
            return library, lacking
        if not database.path.exists():
            require_local_disk(database.path)
            return library, _schema(0), *_disk(database.path)
        found = database.version()
        if found < VERSION:
            return library, _schema(found), *_disk(database.path)
        ((mode,),) = database.pragma("journal_mode")
        facts = _schema(found), _journal(mode), _integrity(database), *_disk(database.path), *_objects(database)
        if any(fact.level == "error" and fact.name == "schema" for fact in facts):
            return library, *facts
        return library, *facts, *_contents(database), rehearse()
    except HoldfastError as error:
        found_file = Check("error", "file", str(error), "restore a backup" if isinstance(error, StoreDamaged) else "")
        return library, found_file, *(_disk(database.path) if database.path.parent.exists() else ())


def notices(version: tuple[int, ...]) -> tuple[str, ...]:
    """Return what the first worker on a file logs about its SQLite, in one line."""
    found = library_of(version)
    bug = "a rare bug of old releases can damage the file; `holdfast check` says what to do"
    return () if found.level == "ok" else (f"SQLite {'.'.join(map(str, version))}: {bug}",)


def library_of(version: tuple[int, ...]) -> Check:
    """Return the finding about a version of the SQLite library."""
    name = ".".join(map(str, version))
    if version >= FIRST_WITHOUT_RESET_RACE:
        return Check("ok", "sqlite", f"SQLite {name}")
    message = f"SQLite {name} has a rare race between a write and the reset of the write-ahead log that can damage the file"
    return Check("warning", "sqlite", message, REMEDY)


def _schema(version: int) -> Check:
    if version == VERSION:
        return Check("ok", "schema", f"version {version} of {VERSION}")
    message = "there is none yet" if version == 0 else f"version {version} of {VERSION}"
    return Check("warning", "schema", message, "the first worker or enqueue makes it, or `holdfast migrate`")


def _journal(mode: str) -> Check:
    if mode == "wal":
        return Check("ok", "journal", "write-ahead log, synchronous: a commit survives a power failure")
    return Check("error", "journal", f"journal mode {mode}", "the file system must support shared memory")


def _integrity(database: StoreDatabase) -> Check:
    path, is_small = database.path, database.path.stat().st_size <= READ_IN_FULL
    ((health,), *_) = database.pragma("quick_check(1)" if is_small else "quick_check('holdfast_leases')")
    if health != "ok":
        return Check("error", "file", f"{path} is damaged: {health}", "restore a backup")
    return Check("ok", "file", f"{path} is intact" if is_small else f"{path} is too large to be read in full here")


def _disk(path: Path) -> Iterator[Check]:
    from shutil import disk_usage  # with all of its compressors

    free = disk_usage(path.parent).free
    level = "error" if free < TOO_SCARCE else "warning" if free < SCARCE else "ok"
    remedy = "" if level == "ok" else "make room: on a full disk nothing can be enqueued or completed"
    yield Check(level, "disk", f"{free // MEGABYTE} MB free", remedy)  # type: ignore[arg-type] # a literal, by the line above
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LARGE_LOG:
        remedy = "end what has been reading the file for long: a backup, a shell, a transaction of the application"
        yield Check("warning", "log", f"the write-ahead log has {size // MEGABYTE} MB and cannot be emptied", remedy)


def _objects(database: StoreDatabase) -> Iterator[Check]:
    found = {str(name): sql for name, sql in database.read("objects")}
    for name, (kind, sql) in schema.expected_objects().items():
        if name in found and found[name] == sql:
            continue
        what = "is missing" if name not in found else "is not the one that this release makes"
        if kind == "table":
            yield Check("error", "schema", f"table {name} {what}", "restore a backup")
            continue
        drop = f"DROP {kind.upper()} {name}; " if name in found else ""
        yield Check("error", "indexes", f"{kind} {name} {what}: statements read whole tables without it", f"{drop}{sql}")


def _contents(database: StoreDatabase) -> Iterator[Check]:
    bounds = {"lag": micros(LAG), "most": MOST, "floor": micros(RETENTION_FLOOR)}
    ((ahead, forgettable, has_old_receipts),) = database.read("facts", **bounds)
    if ahead is not None and ahead > micros(STEP):
        message = f"the file speaks of a time {ahead / 1e6:.0f} s from now: the wall clock was set back, or was wrong"
        yield Check("warning", "clock", message, "keep the clock in step (NTP); delays, expiries and retention go by it")
    if forgettable or has_old_receipts:
        many = f"{MOST - 1:,} or more" if forgettable == MOST else f"{forgettable}"
        what = f"{many} finished jobs" if forgettable else "receipts of calls"
        message = f"{what} should have been forgotten for more than {LAG / 3600:.0f} h"
        yield Check("warning", "pruning", message, "keep a worker running, or run `holdfast prune`")

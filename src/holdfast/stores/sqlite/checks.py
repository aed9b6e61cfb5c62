"""What is right and wrong with a SQLite store."""

from holdfast._ports.store import Check
from holdfast.errors import HoldfastError
from holdfast.stores.sqlite import driver
from holdfast.stores.sqlite.database import FIRST_WITHOUT_RESET_RACE, Database
from holdfast.stores.sqlite.schema import VERSION

REMEDY = "pip install 'holdfast[apsw]', and set HOLDFAST_SQLITE=apsw if no other code of the process opens the file by sqlite3"


def check(database: Database) -> tuple[Check, ...]:
    """All findings; a file that cannot be opened is one of them."""
    library = library_of(driver.version(use_apsw=database.use_apsw))
    try:
        (version,) = database.migrate()[1:]
        ((mode,),) = database.pragma("journal_mode")
        ((health,), *_) = database.pragma("quick_check(1)")
    except HoldfastError as error:
        return library, Check("error", "file", str(error))
    return (
        library,
        Check("ok", "schema", f"version {version} of {VERSION}"),
        Check("ok", "journal", "write-ahead log, synchronous: a commit survives a power failure")
        if mode == "wal"
        else Check("error", "journal", f"journal mode {mode}", "the file system must support shared memory"),
        Check("ok", "file", f"{database.path} is sound")
        if health == "ok"
        else Check("error", "file", f"{database.path} is damaged: {health}", "restore a backup"),
    )


def warnings(version: tuple[int, ...]) -> tuple[str, ...]:
    """What a worker says about its SQLite when it starts."""
    found = library_of(version)
    return () if found.level == "ok" else (f"{found.message}: {found.remedy}",)


def library_of(version: tuple[int, ...]) -> Check:
    """The finding about a version of the SQLite library."""
    name = ".".join(map(str, version))
    if version >= FIRST_WITHOUT_RESET_RACE:
        return Check("ok", "sqlite", f"SQLite {name}")
    message = f"SQLite {name} has a rare race between a write and the reset of the write-ahead log that can damage the file"
    return Check("warning", "sqlite", message, REMEDY)

"""What is right and wrong with a SQLite store."""

import sqlite3

from holdfast._ports.store import Check
from holdfast.errors import HoldfastError
from holdfast.stores.sqlite.database import FIRST_WITHOUT_RESET_RACE, Database
from holdfast.stores.sqlite.schema import VERSION

LIBRARY = sqlite3.sqlite_version_info


def check(database: Database) -> tuple[Check, ...]:
    """All findings; a file that cannot be opened is one of them."""
    library = _library(LIBRARY)
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


def _library(version: tuple[int, ...]) -> Check:
    name = ".".join(map(str, version))
    if version >= FIRST_WITHOUT_RESET_RACE:
        return Check("ok", "sqlite", f"SQLite {name}")
    message = f"SQLite {name} has a rare race between a write and the reset of the write-ahead log that can damage the file"
    return Check("warning", "sqlite", message, "pip install 'holdfast[apsw]', which brings a current SQLite")

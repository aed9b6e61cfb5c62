"""The schema and its versions: numbered files, applied in one transaction, never undone."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import ConfigurationError, SchemaTooNew
from holdfast.stores.sqlite.driver import Connection

_MIGRATIONS = sorted((Path(__file__).parent / "migrations").glob("[0-9]*.sql"))
_APPLICATION = 0x484F4C44  # "HOLD": this file is ours
VERSION = len(_MIGRATIONS)


def version_of(connection: Connection) -> int:
    """The version of the file's schema, 0 for a new one; refuses a newer one and a file that is not ours."""
    # The tables first: another process may make them in between, and commits its mark with them.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and application != _APPLICATION:
        raise ConfigurationError(["the file is the database of another application; name a file of its own for jobs"])
    if version > VERSION:
        raise SchemaTooNew(f"the file has schema version {version}, this release knows {VERSION}: upgrade holdfast")
    return int(version)


def migrate(connection: Connection) -> tuple[int, int]:
    """Versions before and after. One of several processes that start at once does it, the others find it done."""
    version = version_of(connection)
    if version == VERSION:
        return version, version
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)
        for number in range(version + 1, VERSION + 1):
            for statement in statements(_MIGRATIONS[number - 1].read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number:d}")
        connection.execute(f"PRAGMA application_id = {_APPLICATION:d}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return version, VERSION


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one, because sqlite3's own ``executescript`` commits before it starts."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

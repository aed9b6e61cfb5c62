"""The schema and its versions: numbered files, applied in one transaction, never undone.

The file may be an application's own, so that its rows and its jobs commit together. All names begin with ``holdfast_``, and nothing
else in the file is changed.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast._core.release import UPGRADE
from holdfast.databases.sqlite.driver import Connection, Speaker
from holdfast.databases.sqlite.sql import statements
from holdfast.errors import SchemaTooNew

_MIGRATIONS = sorted((Path(__file__).parent / "migrations").glob("[0-9]*.sql"))
VERSION = len(_MIGRATIONS)


def version_of(connection: Speaker) -> int:
    """Return the version of the schema in the connection's own file, 0 if it has none; refuse a newer one."""
    found = connection.execute("SELECT 1 FROM main.sqlite_schema WHERE name = 'holdfast_schema'").fetchone()
    if found is None:
        return 0
    (version,) = connection.execute("SELECT version + 0 FROM main.holdfast_schema").fetchone()
    if version > VERSION:
        raise SchemaTooNew(f"the file has schema version {version}, this release knows {VERSION}: {UPGRADE}")
    return int(version)


def migrate(connection: Connection) -> tuple[int, int]:
    """Upgrade the schema and return its versions before and after. Of several processes that start at once, one does the work."""
    version = version_of(connection)
    if version == VERSION:
        return version, version
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)
        upgrade(connection, version)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return version, VERSION


def upgrade(connection: Speaker, version: int) -> None:
    """Apply the migrations after that version, in the transaction that is open."""
    for number in range(version + 1, VERSION + 1):
        script = _MIGRATIONS[number - 1].read_text(encoding="utf-8")
        for statement in statements(script):
            connection.execute(statement)
        connection.execute(f"UPDATE main.holdfast_schema SET version = {number:d}")  # noqa: S608 - a number


def expected_objects() -> dict[str, tuple[str, str]]:
    """Return the objects that the migrations create: by name the kind and the statement."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade(connection, 0)
        found = connection.execute("SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return {name: (kind, sql) for name, kind, sql in found}

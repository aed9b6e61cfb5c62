"""The schema and its versions: numbered files, each applied in one transaction, never undone.

Old code runs on a newer schema until it is restarted, so a file only adds objects. Objects that no release uses any more are dropped in
a later release.
"""

from collections.abc import Callable
from pathlib import Path

from asyncpg import Connection

from holdfast._core.release import UPGRADE
from holdfast.databases.postgres.errors import MIGRATE
from holdfast.errors import SchemaMissing, SchemaTooNew

MIGRATIONS = sorted((Path(__file__).parent / "migrations").glob("[0-9]*.sql"))
VERSION = len(MIGRATIONS)

PATIENT = {"statement_timeout": "0", "lock_timeout": "60s", "idle_in_transaction_session_timeout": "0"}
"""Settings of a session that changes the schema: another one may be changing it, too."""

_LOCK = 0x484F4C44
"""The first half of the key of Holdfast's advisory locks; the second half is the hash of the schema's name."""


async def migrate(connection: Connection, schema: str, public: str, placed: Callable[[str], str]) -> tuple[int, int]:
    """Upgrade the schema and return its versions before and after. Of several processes that start at once, one does the work."""
    before = None
    for number in range(VERSION + 1):
        async with connection.transaction(isolation="read_committed"):
            await lock(connection, schema)
            version = await version_of(connection, schema)
            before = version if before is None else before
            if version > VERSION:
                raise too_new(version, public)
            if version == number < VERSION:
                await _upgrade(connection, schema, version, placed)
    return before or 0, VERSION


async def lock(connection: Connection, schema: str) -> None:
    """Keep other sessions from changing the schema until the end of the transaction."""
    await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", _LOCK, schema)


async def version_of(connection: Connection, schema: str) -> int:
    """Return the version of the schema, 0 if it is missing. Create nothing; a 0 needs no right to use the schema."""
    found = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = 'versions'", schema)
    if not found:
        return 0
    return await connection.fetchval(f'SELECT max(version) FROM "{schema}".versions') or 0  # noqa: S608 - a checked name


def require(version: int, schema: str, public: str) -> None:
    """Raise ``SchemaMissing`` or ``SchemaTooNew``, each with its remedy, unless this release can use the version."""
    if version > VERSION:
        raise too_new(version, public)
    if version == 0:
        raise SchemaMissing(f"{public} has no schema {schema!r} of holdfast yet: {MIGRATE}")
    if version < VERSION:
        raise SchemaMissing(f"{public} has schema version {version}, this release needs {VERSION}: {MIGRATE}")


def too_new(version: int, public: str) -> SchemaTooNew:
    """Return the error for a schema that a newer release has migrated."""
    return SchemaTooNew(f"{public} has schema version {version}, this release knows {VERSION}: {UPGRADE}")


async def _upgrade(connection: Connection, schema: str, version: int, placed: Callable[[str], str]) -> None:
    found = await connection.fetchrow(
        "SELECT nspowner::regrole::text, pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = $1", schema
    )
    if found is None:
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    elif found[1]:
        # One role owns all objects, even if several users create them: only the owner can drop a partition or change a table.
        await connection.execute(f"SET LOCAL ROLE {found[0]}")
    await connection.execute(placed(MIGRATIONS[version].read_text(encoding="utf-8")))
    await connection.execute(f'INSERT INTO "{schema}".versions (version) VALUES ({version + 1:d})')  # noqa: S608 - a checked name

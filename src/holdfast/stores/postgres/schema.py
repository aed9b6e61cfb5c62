"""The schema and its versions: numbered files, each applied in one transaction, never undone.

Old code runs on a newer schema until it is restarted, so a file only adds; what nobody needs any more goes in a later release.
"""

from collections.abc import Callable
from pathlib import Path

from asyncpg import Connection

from holdfast.databases.postgres.errors import MIGRATE
from holdfast.errors import SchemaMissing, SchemaTooNew

MIGRATIONS = sorted((Path(__file__).parent / "migrations").glob("[0-9]*.sql"))
VERSION = len(MIGRATIONS)

PATIENT = {"statement_timeout": "0", "lock_timeout": "60s", "idle_in_transaction_session_timeout": "0"}
"""Settings of a session that changes the schema: others may be at it, too."""

_LOCK = 0x484F4C44
"""Of our advisory locks; the second half of the key is the schema's name."""


async def migrate(connection: Connection, schema: str, public: str, placed: Callable[[str], str]) -> tuple[int, int]:
    """Versions before and after. One of several that start at once does it, the others wait and find it done."""
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
    """Until the end of the transaction nobody else changes the schema."""
    await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", _LOCK, schema)


async def version_of(connection: Connection, schema: str) -> int:
    """The version of the schema, 0 if there is none. Nothing is created, and no right to use it is needed for a 0."""
    found = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = 'versions'", schema)
    if not found:
        return 0
    return await connection.fetchval(f'SELECT max(version) FROM "{schema}".versions') or 0  # noqa: S608 - a checked name


def require(version: int, schema: str, public: str) -> None:
    """``SchemaMissing`` and ``SchemaTooNew``, each with its remedy."""
    if version > VERSION:
        raise too_new(version, public)
    if version == 0:
        raise SchemaMissing(f"{public} has no schema {schema!r} of holdfast yet: {MIGRATE}")
    if version < VERSION:
        raise SchemaMissing(f"{public} has schema version {version}, this release needs {VERSION}: {MIGRATE}")


def too_new(version: int, public: str) -> SchemaTooNew:
    """A newer release has migrated it."""
    return SchemaTooNew(f"{public} has schema version {version}, this release knows {VERSION}: upgrade holdfast")


async def _upgrade(connection: Connection, schema: str, version: int, placed: Callable[[str], str]) -> None:
    found = await connection.fetchrow(
        "SELECT nspowner::regrole::text, pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = $1", schema
    )
    if found is None:
        await connection.execute(f'CREATE SCHEMA "{schema}"')
    elif found[1]:
        # All of it has one owner, whoever makes it: only that one can drop a partition, or change a table.
        await connection.execute(f"SET LOCAL ROLE {found[0]}")
    await connection.execute(placed(MIGRATIONS[version].read_text(encoding="utf-8")))
    await connection.execute(f'INSERT INTO "{schema}".versions (version) VALUES ({version + 1:d})')  # noqa: S608 - a checked name

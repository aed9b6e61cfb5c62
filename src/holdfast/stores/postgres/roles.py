"""SQL roles for users that need less than all rights: ``…_enqueue``, ``…_work``, ``…_read`` and ``…_own``, named after the schema.

They cannot log in: grant them to users that can. The owner of the schema is a role, too. So the user that migrates and prunes need not
be the one that migrated first.
"""

import re
from typing import Final

from asyncpg import Connection

from holdfast.errors import ConfigurationError
from holdfast.stores.postgres import schema as schemas
from holdfast.stores.postgres.database import StoreDatabase

KINDS: Final = ("enqueue", "work", "read", "own")
LONGEST: Final = 63

_NAME: Final = re.compile(r"\bholdfast_(enqueue|work|read|own)\b")
_SCHEMA: Final = re.compile(r"\bSCHEMA holdfast\b")


class Roles(StoreDatabase):
    """The part of the store that creates roles, as ``_ports.store.HasRoles`` defines it."""

    async def create_roles(self) -> tuple[str, ...]:
        names = {kind: f"{self._schema}_{kind}" for kind in KINDS}
        if any(len(name) > LONGEST for name in names.values()):
            raise ConfigurationError([f"schema={self._schema!r}: too long for names of roles; use at most {LONGEST - 8} letters"])
        async with self._own_connection(is_checked=True, **schemas.PATIENT) as connection, connection.transaction():
            await schemas.lock(connection, self._schema)
            missing = await self._missing(connection, list(names.values()))
            if missing and not await connection.fetchval(
                "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
            ):
                words = "; ".join(f"CREATE ROLE {name}" for name in missing)
                raise ConfigurationError(
                    [
                        f"{self._location.public}: this user may not create roles: run it as one with CREATEROLE, or have one say: {words}"
                    ]
                )
            for name in missing:
                await connection.execute(f'CREATE ROLE "{name}" NOLOGIN')
            await self._own(connection, names["own"])
            await connection.execute(self._for_roles(self._sql("roles")))
        return tuple(names.values())

    async def _missing(self, connection: Connection, names: list[str]) -> list[str]:
        known = {name for (name,) in await connection.fetch("SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)", names)}
        return [name for name in names if name not in known]

    async def _own(self, connection: Connection, owner: str) -> None:
        if not await connection.fetchval("SELECT pg_has_role($1, 'USAGE')", owner):
            await connection.execute(f'GRANT "{owner}" TO CURRENT_USER')
        for statement, _ in await connection.fetch(self._sql("objects_to_reassign"), self._schema, owner):
            await connection.execute(statement)

    def _for_roles(self, text: str) -> str:
        text = _SCHEMA.sub(f'SCHEMA "{self._schema}"', text)
        return _NAME.sub(lambda found: f'"{self._schema}_{found[1]}"', text)

"""The schema that holds jobs: its statements, its version, and which ids may exist there already."""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from holdfast._core.answers import Capabilities
from holdfast._core.audit import AuditNote
from holdfast._core.flow_changes import FlowChanges
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob
from holdfast._core.postgres_url import problems_of_location
from holdfast._core.schema_name import problems_of_schema
from holdfast._ports.clock import Clock, Randomness
from holdfast.databases import queries
from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres import session_settings as sessions
from holdfast.databases.postgres.database import CONNECTIONS, SEARCH_LIMIT, Database
from holdfast.databases.postgres.pool import Connection
from holdfast.errors import ConfigurationError, HoldfastError, StoreUnavailable
from holdfast.stores.postgres import schema as schemas
from holdfast.stores.postgres.audited import action

_FOLDER = Path(__file__).parent / "queries"
_OURS = re.compile(r"\bholdfast\.")


class StoreDatabase(Database):
    """A database with the statements of ``queries``, each of them for one schema."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "holdfast",
        clock: Clock,
        chance: Randomness,
        process: ProcessIdentity,
        pooler: str | None = None,
        server_settings: Mapping[str, str] | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        if problems := [*problems_of_location(url, pooler), *problems_of_schema(schema)]:
            raise ConfigurationError(problems)
        more: dict[str, Any] = {"pooler": pooler, "server_settings": server_settings, "connections": connections}
        super().__init__(url, clock=clock, chance=chance, process=process, **more)
        self._schema = schema
        self._newest = 0  # the largest id enqueued here, as a number
        self._texts: dict[str, str] = {}
        self._flow_changes = FlowChanges()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("postgres", "server", caller_transaction=True, prefetch=True)

    def _sql(self, name: str) -> str:
        """Return the text of a file of ``queries`` for this schema, with its parts, and with ``$1`` for its first parameter."""
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self._placed(queries.numbered(self._text(name)))
        return text

    def _text(self, name: str) -> str:
        return queries.read(_FOLDER / f"{name}.sql")

    def _placed(self, text: str) -> str:
        return _OURS.sub(f'"{self._schema}".', text)

    def _fetch(self, name: str, *arguments: Any) -> Coroutine[Any, Any, list[asyncpg.Record]]:
        """Return all rows of a query, run in a separate transaction."""
        pool, sql = self._here().shared, self._sql(name)
        return self._retrying(lambda: self._run(pool, sql, arguments, self._answer_limit), name)

    async def _beat_fetch(self, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Return all rows of a query, run on the connection that is reserved for beats."""
        run = partial(self._run, self._here().beats, self._sql(name), arguments, self._beat_limit)
        return await self._retrying(run, name)

    async def _fetch_by(
        self, by: AuditNote | None, count: Callable[[list[asyncpg.Record]], int | None], name: str, *arguments: Any
    ) -> list[asyncpg.Record]:
        """Return all rows of a query; record the action that it belongs to in its transaction, unless its count is ``None``."""
        if by is None:
            return await self._fetch(name, *arguments)
        note = by

        async def write() -> list[asyncpg.Record]:
            async with self._transaction() as connection:
                rows = await self._fetch_on(connection, name, *arguments)
                if (changed := count(rows)) is not None:
                    await self._record(connection, note, changed)
                return rows

        return await self._retrying(write, name)

    async def _record(self, connection: Connection, by: AuditNote, changed: int) -> None:
        """Record a write of an operator's action in the open transaction of this connection."""
        await self._fetch_on(connection, "audit", *action(by, changed))

    async def _search(self, name: str, *arguments: Any, by: AuditNote | None = None) -> list[asyncpg.Record]:
        """Return all rows of a query that reads many rows: planned for its values. ``by``: the action to which it belongs as one change."""

        async def search() -> list[asyncpg.Record]:
            async with self._transaction(SEARCH_LIMIT, sessions.SEARCHING) as connection:
                rows = await connection.fetch(self._sql(name), *arguments)
                if by is not None:
                    await self._record(connection, by, 1)
                return rows

        return await self._retrying(search, name)

    async def _check_schema(self, link: Connection) -> None:
        """Refuse a standby, and a schema that is missing, too old or too new: each error names its remedy."""
        public = self._location.public
        async with link.transaction(isolation="read_committed"):  # behind a pooler, this keeps to one server
            if await link.fetchval("SELECT pg_is_in_recovery()"):
                raise StoreUnavailable(f"{public} {failures.STANDBY}")
            version = await schemas.version_of(link, self._schema)
        schemas.require(version, self._schema, public)

    async def _fetch_on(self, connection: Connection, name: str, *arguments: Any) -> list[asyncpg.Record]:
        """Return all rows of a query, run in the open transaction of this connection."""
        return await connection.fetch(self._sql(name), *arguments)

    def _may_be_known(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether an id may exist already. Ids grow within a process: only one that does not can have been enqueued before."""
        ids = {job.id.int for job in jobs}
        if len(ids) < len(jobs):
            raise HoldfastError("enqueue: two jobs of one id; each job needs its own id")
        newest, self._newest = self._newest, max([self._newest, *ids])
        return bool(ids) and min(ids) <= newest

"""Access to a user's database: in the time zone of the user's sessions, and without looking for tables of Holdfast."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import asyncpg

from holdfast._core.identity import ProcessIdentity
from holdfast._core.table_spec import Key
from holdfast._ports.clock import Clock, Randomness
from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres import session_settings as sessions
from holdfast.databases.postgres.database import SEARCH_LIMIT, Database
from holdfast.databases.postgres.pool import Connection
from holdfast.databases.postgres.session_settings import KEPT_ALIVE
from holdfast.databases.postgres.transactions import CONNECTIONS as TRANSACTIONS
from holdfast.databases.postgres.transactions import TransactionTurns, UserTransaction
from holdfast.errors import ConfigurationError, HoldfastError, StoreBusy, StoreUnavailable
from holdfast.rows.postgres.grants import granting
from holdfast.rows.postgres.sessions import Sessions
from holdfast.rows.refusals import Parts
from holdfast.rows.sql import quoted

CONNECTIONS = 4
"""At most in one event loop: each is used for one statement at a time, never while user code runs."""

# Conditions of users compare with now(); its value in a column without time zone depends on the session's zone.
_ZONE = "timezone"
# Statements carry the values of the status and are planned for the present number of rows. A bitmap would be made of all
# rows that are due, for the few that are taken.
_PLANNED = {"plan_cache_mode": "force_custom_plan", "enable_bitmapscan": "off"}

Answer = TypeVar("Answer")
Change = Callable[[Sequence[Key]], tuple[Any, ...]]
"""The statement and its values, for a part of a batch."""
Check = Callable[[list[asyncpg.Record]], None]
"""A check that raises if nothing of a statement may stay."""


class RowsDatabase(Database):
    """Statements, each in a separate transaction, from any number of event loops; and transactions of the user's."""

    def __init__(self, url: str, *, pooler: str | None, clock: Clock, chance: Randomness, process: ProcessIdentity) -> None:
        super().__init__(url, pooler=pooler, clock=clock, chance=chance, process=process, connections=CONNECTIONS)
        held: dict[str, Any] = {"connections": TRANSACTIONS, "server_settings": self._kept_alive}
        self._sessions = Sessions(url, pooler=pooler, clock=clock, chance=chance, process=process, **held)
        if self._location.is_pooled:
            local = "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _PLANNED.items())
            self._begin = f"{self._begin}; SET LOCAL {_ZONE} TO DEFAULT{local}"

    @property
    def public(self) -> str:
        """The URL, for people."""
        return self._location.public

    def ask(self, name: str, sql: str, *values: Any) -> Coroutine[Any, Any, list[asyncpg.Record]]:
        """Run a statement and return all its rows."""
        pool = self._here().shared
        return self._retrying(lambda: self._run(pool, sql, values, self._answer_limit), name)

    async def ask_unless(self, name: str, refuse: Check, sql: str, *values: Any) -> list[asyncpg.Record]:
        """Run a statement, and revert it if ``refuse`` raises."""

        async def ask() -> list[asyncpg.Record]:
            async with self._transaction() as connection:
                rows = await connection.fetch(sql, *values)
                refuse(rows)
                return rows

        return await self._retrying(ask, name)

    async def ask_in_parts(
        self, name: str, candidates: tuple[Any, ...], divide: Callable[[list[Key]], Parts], change: Change, require: Check
    ) -> tuple[list[asyncpg.Record], Parts]:
        """Return all rows of a statement for as many of the candidates as the server lets it change, in one transaction.

        A constraint that would be looked at when it commits is looked at with each part. ``require``: as ``refuse`` above.
        """

        async def ask() -> tuple[list[asyncpg.Record], Parts]:
            async with self._transaction(SEARCH_LIMIT) as connection:
                await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                parts, found = divide([tuple(row) for row in await connection.fetch(*candidates)]), list[asyncpg.Record]()
                for part in parts:
                    await connection.execute("SAVEPOINT part")
                    try:
                        found += await connection.fetch(*change(part))
                    except asyncpg.PostgresError as error:
                        if not failures.is_refusal(error):
                            raise
                        await connection.execute("ROLLBACK TO part")
                        parts.refuse(part, failures.first_line(error))
                    else:
                        await connection.execute("RELEASE part")
                require(found)
                return found, parts

        return await self._retrying(ask, name)

    async def search(self, name: str, *questions: tuple[Any, ...]) -> list[list[asyncpg.Record]]:
        """Run several questions that each read the whole table, and return all their rows."""

        async def search() -> list[list[asyncpg.Record]]:
            async with self._transaction(SEARCH_LIMIT) as connection:
                await connection.execute(sessions.SEARCHING)
                return [await connection.fetch(*question) for question in questions]

        return await self._retrying(search, name)

    async def try_out(self, sql: str, *values: Any) -> list[asyncpg.Record] | asyncpg.PostgresError:
        """Run a statement that may be wrong, and revert it; return its rows, or the server's error."""
        try:
            return await self.ask("inspect", sql, *values)
        except HoldfastError as error:
            cause = error.__cause__
            if isinstance(cause, asyncpg.InterfaceError) and "argument" in str(cause):  # the driver's own: nothing was asked
                return asyncpg.UndefinedParameterError("$1 stands for a value, and none is given")
            if isinstance(cause, asyncpg.PostgresError) and not isinstance(error, StoreUnavailable):
                return cause
            raise

    def dedicated(self) -> AbstractAsyncContextManager[Connection]:
        """Open a dedicated connection, outside of transactions, for what takes long."""
        return self._own_connection(is_checked=False, statement_timeout="0", lock_timeout="0")

    @asynccontextmanager
    async def transaction(self, block: UserTransaction) -> AsyncIterator[Connection]:
        """Open a session like any of the user's."""
        async with self._turns.of_loop(), self._sessions.run(block) as link:
            yield link

    @contextmanager
    def blocking_transaction(self, block: UserTransaction) -> Iterator[Any]:
        """Open such a session through psycopg."""
        with self._turns.of_threads, self._sessions.run_blocking(block) as connection:
            yield connection

    @property
    def now(self) -> Callable[[], float]:
        """Return the clock by which a transaction's idle time is measured."""
        return self._clock.monotonic

    async def close(self) -> None:
        await self._sessions.close()
        await super().close()

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self.__dict__.pop("_turns", None)

    @cached_property
    def _turns(self) -> TransactionTurns:
        return TransactionTurns()

    @property
    def _user(self) -> str:
        user = urlsplit(self._location.url).username
        return quoted(unquote(user)) if user else "this user"

    @property
    def _kept_alive(self) -> dict[str, str]:
        return {} if self._location.is_pooled else KEPT_ALIVE

    async def _connect(self, *, is_checked: bool = False, **more: str) -> Connection:
        return await super()._connect(is_checked=False, **more)

    async def _dial(self, settings: dict[str, str]) -> Connection:
        if not self._location.is_pooled:
            settings = {**{name: value for name, value in settings.items() if name != _ZONE}, **_PLANNED}
        return await super()._dial(settings)

    async def _retrying(self, action: Callable[[], Awaitable[Answer]], name: str = "rows") -> Answer:
        try:
            return await super()._retrying(action, name)
        except HoldfastError as error:
            cause, remedy = error.__cause__, _remedy(error.__cause__, self._user)
            if cause is None or (remedy is None and not _is_raised(cause)):
                raise
            text = f"{name}: {self.public}: {failures.first_line(cause)}"
            raise (ConfigurationError([f"{text}: {remedy}"]) if remedy else HoldfastError(text)) from cause


def is_refusal(error: HoldfastError) -> bool:
    """Return whether the server refused a statement because of a row, by a constraint or a trigger: other rows may be taken."""
    cause = error.__cause__
    is_of_rows = isinstance(cause, asyncpg.PostgresError) and failures.is_refusal(cause)
    return is_of_rows and not isinstance(error, ConfigurationError | StoreBusy)


def _is_raised(error: BaseException) -> bool:
    """Return whether a trigger or a function of the user's raised it: waiting does not help then."""
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith("P0")


def _remedy(error: BaseException | None, user: str) -> str | None:
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedColumnError():
            return "the table has changed since it was inspected: `holdfast check` reports what does not fit"
        case asyncpg.ObjectNotInPrerequisiteStateError() if "replica identity" in str(error):
            return "`holdfast check` names the statement that ends this"
        case asyncpg.InsufficientPrivilegeError():
            return (
                f"{granting(failures.first_line(error), user, on_tables='SELECT, INSERT, UPDATE, DELETE')}, or name another user"
            )
        case _:
            return None

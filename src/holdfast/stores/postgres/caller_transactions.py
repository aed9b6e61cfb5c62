"""Enqueue inside the transaction of a caller's own connection, by its driver or its wrapper, in the caller's thread or loop.

This module opens no connection. No statement it sends fails because of rows that exist already: an error would abort the caller's
transaction. So it first checks that the schema exists, once for each connection.
"""

import re
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit
from weakref import WeakSet

from msgspec import Struct

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.postgres_url import PostgresUrl
from holdfast.databases.caller_blocks import Block, wrapped_block_of
from holdfast.databases.postgres.caller_blocks import AsyncpgBlock, AwaitedPsycopgBlock, PsycopgBlock
from holdfast.databases.wrapped import OpenedConnection, is_a, wrapper_of
from holdfast.errors import Unsupported
from holdfast.stores.postgres import schema

Rows = list[tuple[Any, ...]]
Question = tuple[str, *tuple[str | None, ...]]
Answer = TypeVar("Answer")
Dialogue = Generator[Question, Rows, Answer]
"""A generator that yields statements with their values, receives the rows of each, and returns an answer."""

_SAMPLE = 200
"""Characters of a parameter that a setting of the transaction holds: it is gone in the next one."""
_PARAMETER = re.compile(r"\$(\d)")
_PSYCOPG, _AWAITED_PSYCOPG = "psycopg.Connection", "psycopg.AsyncConnection"
_ASYNCPG = ("asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy")


class CallerEnqueue(Struct, frozen=True):
    """The statement for a connection, the function that reads its answer, and the checks of a connection not known yet.

    ``then``: another statement with its values, all of them text.
    """

    place: str
    version: str
    statement: str
    parameter: str
    read: Callable[[Sequence[tuple[Any, ...]]], EnqueueAnswer]
    then: Question | None = None


class KnownConnections:
    """The connections known to lead to the App's database, with a schema that this release can write to."""

    def __init__(self, location: PostgresUrl, schema: str) -> None:
        self._location, self._schema = location, schema
        self._database = None if location.is_pooled else _database_of(location.url)
        self._known: WeakSet[object] = WeakSet()

    def look(self, place: str, version: str, source: object) -> Dialogue[None]:
        """Check once where the connection leads. ``place`` and ``version``: the statements that ask."""
        if source not in self._known:
            ((database, has_schema),) = yield place, self._schema
            self._require(database)
            found = (yield (version,))[0][0] if has_schema else 0
            schema.require(found or 0, self._schema, f"the database {database} of this connection")
            try:
                self._known.add(source)
            except TypeError:
                pass  # it allows no weak reference, so it is checked each time

    def talk(self, order: CallerEnqueue, source: object) -> Dialogue[EnqueueAnswer]:
        """Check the connection, once, then send the statement."""
        yield from self.look(order.place, order.version, source)
        if order.then is not None:
            yield "SELECT set_config('holdfast.within', $1, true)", order.parameter[:_SAMPLE]
            if (yield ("SELECT current_setting('holdfast.within', true)",)) != [(order.parameter[:_SAMPLE],)]:
                raise Unsupported(
                    "within: the connection commits each statement by itself, and a workflow takes two: open a transaction around the call"
                )
        answer = order.read((yield order.statement, order.parameter))
        if order.then is not None:
            yield order.then
        return answer

    def _require(self, database: str) -> None:
        if self._database not in (None, database):
            raise Unsupported(
                f"the jobs are in {self._location.public}, and this connection is to the database {database}: rows and jobs "
                f"commit together only in one database. Connect to {self._database}, or name {database} in the URL of the App; "
                "if a pooler calls one database by two names, add ?pooler=transaction to that URL"
            )


def run_dialogue(connection: Any, talk: Callable[[object], Dialogue[Answer]]) -> Answer | Coroutine[Any, Any, Answer]:
    """Run the statements of a dialogue on the caller's connection, of any driver, and return the dialogue's answer.

    On an async driver the result is a coroutine. Raises ``Unsupported`` if it is not a PostgreSQL connection.
    """
    if (wrapper := wrapper_of(connection)) is not None:
        return wrapper.run(partial(_hold_through, talk))
    if is_a(connection, _PSYCOPG):
        return _hold(talk(connection), partial(_ask_psycopg, connection))
    if is_a(connection, _AWAITED_PSYCOPG):
        return _hold_awaited(talk(connection), partial(_ask_awaited_psycopg, connection))
    if is_a(connection, *_ASYNCPG):
        return _hold_awaited(talk(getattr(connection, "_con", connection)), partial(_ask_asyncpg, connection))
    raise _unknown(connection, "to enqueue in")


def block_of(connection: Any) -> Block:
    """Return the block of a caller's connection, of any driver. Raises ``Unsupported`` if it is not a PostgreSQL connection."""
    if (block := wrapped_block_of(connection)) is not None:
        return block
    if is_a(connection, _PSYCOPG):
        return PsycopgBlock(connection)
    if is_a(connection, _AWAITED_PSYCOPG):
        return AwaitedPsycopgBlock(connection)
    if is_a(connection, *_ASYNCPG):
        return AsyncpgBlock(connection)
    raise _unknown(connection, "for job.transaction(within=)")


def as_text(question: tuple[str, tuple[Any, ...]]) -> Question:
    """Return a statement of the store with its values as text, which the statement casts to their types."""
    statement, values = question
    for place, value in enumerate(values, 1):
        if not isinstance(value, str):
            kind = "bigint" if isinstance(value, int) else "uuid"
            statement = statement.replace(f"${place}", f"CAST(${place} AS {kind})")
    return statement, *(None if value is None else str(value) for value in values)


def _unknown(connection: Any, use: str) -> Unsupported:
    return Unsupported(
        f"the postgresql store needs a connection of asyncpg, psycopg 3, SQLAlchemy or Django {use}, "
        f"not {type(connection).__module__}.{type(connection).__qualname__}"
    )


def _hold_through(talk: Callable[[object], Dialogue[Answer]], opened: OpenedConnection) -> Answer:
    if opened.dialect != "postgresql":
        raise Unsupported(
            f"the jobs are in PostgreSQL, and this is a connection to {opened.dialect}: use one to the App's database"
        )
    return _hold(talk(opened.source), partial(_ask_wrapper, opened))


def _hold(talk: Dialogue[Answer], ask: Callable[..., Rows]) -> Answer:
    try:
        question = next(talk)
        while True:
            question = talk.send(ask(*question))
    except StopIteration as end:
        answer: Answer = end.value
        return answer


async def _hold_awaited(talk: Dialogue[Answer], ask: Callable[..., Coroutine[Any, Any, Rows]]) -> Answer:
    try:
        question = next(talk)
        while True:
            question = talk.send(await ask(*question))
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def _ask_psycopg(connection: Any, statement: str, *values: str | None) -> Rows:
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    with Cursor(connection, row_factory=tuple_row) as cursor:  # neither the caller's cursor class nor its rows
        cursor.execute(*_spelt(statement, "%s", values))
        return cursor.fetchall()  # in a pipeline, only fetching waits for the answer


async def _ask_awaited_psycopg(connection: Any, statement: str, *values: str | None) -> Rows:
    from psycopg import AsyncCursor
    from psycopg.rows import tuple_row

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(*_spelt(statement, "%s", values))
        return await cursor.fetchall()


async def _ask_asyncpg(connection: Any, statement: str, *values: str | None) -> Rows:
    text, _ = _spelt(statement, "$1", values)
    return [tuple(row) for row in await connection.fetch(text, *values)]


def _ask_wrapper(opened: OpenedConnection, statement: str, *values: str | None) -> Rows:
    text, given = _spelt(statement, opened.placeholder, values)
    return opened.fetch(text, *(given or ()))


def _spelt(statement: str, placeholder: str, values: tuple[str | None, ...]) -> tuple[Any, tuple[str | None, ...] | None]:
    """Return the statement with the driver's placeholders, and the values for them, if any, in their order.

    Each is cast to text, so that no codec of the caller changes it.
    """
    if not values:
        return statement, None
    if placeholder != "%s":
        return _PARAMETER.sub(r"CAST($\1 AS text)", statement), values
    places = [int(place) - 1 for place in _PARAMETER.findall(statement)]
    return _PARAMETER.sub("CAST(%s AS text)", statement.replace("%", "%%")), tuple(values[place] for place in places)


def _database_of(url: str) -> str | None:
    """Return the database that a URL names; None if it names none, because the user and the environment decide then."""
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    return (asked.get("dbname") or asked.get("database") or [unquote(parts.path[1:])])[0] or None

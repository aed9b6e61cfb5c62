"""Enqueue inside the transaction of a caller's own connection, in the thread that has it.

The statements of ``enqueue.sql`` run one by one here, not as a trigger: no trigger may stay on a caller's connection. That
connection may also have tables of the same names in a file that it has attached.
"""

import re
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast._core.answers import EnqueueAnswer
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.file_location import identity_of
from holdfast.databases.sqlite.sql import statements
from holdfast.databases.sqlite.values import Values
from holdfast.databases.wrapped import OpenedConnection, is_a, wrapper_of
from holdfast.errors import HoldfastError, Unsupported
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.database import QUERIES

_TABLE = re.compile(r"\bholdfast_(jobs|payloads|receipts|queues|flows|members|edges)\b")
_BODY = QUERIES["enqueue"].programs[-1].partition("\nBEGIN\n")[2].rpartition("END;")[0]
_STATEMENTS = [_TABLE.sub(r"main.\g<0>", re.sub(r"\bNEW\.", ":", statement)) for statement in statements(_BODY)]
_RECEIPT = _TABLE.sub(r"main.\g<0>", QUERIES["receipt"].statement)

Answer = TypeVar("Answer")
Write = Callable[[Any], EnqueueAnswer]
"""Enqueues by the statements of a cursor."""


def enqueue(connection: Any, path: Path, write: Write, *, use_apsw: bool) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
    """Enqueue inside the caller's transaction; await the result of an asynchronous connection."""
    return on_driver(connection, partial(_insert, path=path, write=write, use_apsw=use_apsw))


def on_driver(connection: Any, work: Callable[[Any], Answer]) -> Answer | Coroutine[Any, Any, Answer]:
    """Run ``work`` with the driver's connection, in the thread that has it; await the result of an asynchronous connection."""
    if (wrapper := wrapper_of(connection)) is not None:
        return wrapper.run(partial(_through, work))
    if is_awaited(connection):
        return _in_its_thread(connection, work)
    return work(connection)


def _through(work: Callable[[Any], Answer], opened: OpenedConnection) -> Answer:
    if opened.dialect != "sqlite":
        raise Unsupported(f"the jobs are in a file of sqlite, and this is a connection to {opened.dialect}: use one to that file")
    connection = opened.driver_connection()
    if is_awaited(connection):
        return opened.waited_for(_in_its_thread(connection, work))
    return work(connection)


def is_awaited(connection: Any) -> bool:
    """Return whether it is a driver's connection that is awaited."""
    return is_a(connection, "aiosqlite.core.Connection")


async def _in_its_thread(connection: Any, work: Callable[[Any], Answer]) -> Answer:
    answer: Answer = await connection._execute(
        lambda: work(connection._conn)
    )  # in one call, so that no other task's statements come between
    return answer


def _insert(connection: Any, *, path: Path, write: Write, use_apsw: bool) -> EnqueueAnswer:
    require_kind(connection, use_apsw=use_apsw)
    with driver.plain_cursor(connection) as cursor:
        require_main(cursor, path)
        _prepare(connection, cursor)
        driver.begin_implicitly(connection)
        cursor.execute("SAVEPOINT holdfast_enqueue")
        try:
            lock(cursor)
            answer = write(cursor)
        except BaseException as error:
            if connection.in_transaction:  # else the error has ended the transaction
                cursor.execute("ROLLBACK TO holdfast_enqueue")
                cursor.execute("RELEASE holdfast_enqueue")
            if driver.is_constraint(error):
                raise HoldfastError(f"enqueue: {error}; each job needs its own id") from error
            raise
        cursor.execute("RELEASE holdfast_enqueue")
        return answer


def require_kind(connection: Any, *, use_apsw: bool) -> None:
    """Raise ``Unsupported`` for a connection of another library: two libraries in one process would damage the file."""
    kind = driver.kind_of(connection)
    if kind is None:
        raise Unsupported(
            f"the sqlite store needs a sqlite3.Connection for within=, or one of aiosqlite, SQLAlchemy or Django that has one, "
            f"not {type(connection).__module__}.{type(connection).__qualname__}"
        )
    if (kind == "apsw") is not use_apsw:
        own, remedy = ("apsw", "unset HOLDFAST_SQLITE") if use_apsw else ("sqlite3", "set HOLDFAST_SQLITE=apsw")
        raise Unsupported(
            f"this is a connection of {kind}, and the sqlite store uses {own} here: one process must not open a file by both, "
            f"it would be damaged. Connect by {own}, or {remedy}"
        )


def lock(cursor: Any) -> None:
    """Take the write lock, with the caller's own busy timeout; writes nothing. A connection that has read already is refused."""
    cursor.execute("UPDATE main.holdfast_sequence SET claim_number = claim_number WHERE false")


def require_main(cursor: Any, path: Path) -> None:
    """Raise ``Unsupported`` unless the store's file is the connection's main database.

    In an attached file the job would not commit together with the rows of the main database. With a write-ahead log SQLite commits
    each file by itself, and a crash between them keeps one commit of the two.
    """
    found = cursor.execute("PRAGMA database_list").fetchall()
    own = identity_of(path)
    places = {name: file for _, name, file in found if file and own is not None and identity_of(file) == own}
    if "main" in places:
        return
    if places:
        raise Unsupported(
            f"the jobs are in {path}, which this connection has attached as {min(places)!r}: with a write-ahead log SQLite commits "
            f"each file by itself, so a crash could keep your rows without the job. Connect to {path}, and attach the other file"
        )
    files = ", ".join(file for *_, file in found if file) or "memory"
    raise Unsupported(
        f"the jobs are in {path}, and this connection is to {files}: rows and jobs commit together only in one file. "
        f"Connect to {path}, or name your file in the URL of the App"
    )


def _prepare(connection: Any, cursor: Any) -> None:
    """Create or upgrade the schema, in the caller's transaction if one is open."""
    version = schema.version_of(cursor)
    if version == schema.VERSION:
        return
    if connection.in_transaction:
        schema.upgrade(cursor, version)
        return
    cursor.execute("BEGIN IMMEDIATE")
    try:
        schema.upgrade(cursor, schema.version_of(cursor))
        cursor.execute("COMMIT")
    finally:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")


def execute(cursor: Any, name: str, values: Values) -> Any:
    """Execute a query of the store that needs no program on the connection, or an enqueue; return its cursor."""
    if name == "enqueue":
        for statement in _STATEMENTS:
            cursor.execute(statement, values)
        return cursor
    return cursor.execute(_TABLE.sub(r"main.\g<0>", QUERIES[name].statement), values)


def enqueue_jobs(values: Values, cursor: Any) -> EnqueueAnswer:
    """Enqueue jobs as the store does."""
    found = cursor.execute(_RECEIPT, values).fetchall()
    if not found:
        execute(cursor, "enqueue", values)
        found = cursor.execute(_RECEIPT, values).fetchall()
    return answers.enqueued(found)

"""A handler's transaction for code without an event loop: see ``transactions.py``. Only this module needs psycopg."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.rows import tuple_row

from holdfast._core.postgres_url import PostgresUrl
from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres.transactions import Question, UserTransaction

_ALIVE = {"keepalives_idle": "10", "keepalives_interval": "3", "keepalives_count": "3", "tcp_user_timeout": "15000"}


class TrackedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A psycopg connection that calls ``spoke`` after each answer of the server: the transaction's idle time restarts then."""

    spoke: Callable[[], None] = staticmethod(lambda: None)

    def wait(self, *arguments: Any, **keywords: Any) -> Any:
        """Wait for the server, then call ``spoke``: every answer passes through this method."""
        answer = super().wait(*arguments, **keywords)
        self.spoke()
        return answer


def connect(location: PostgresUrl, name: str, settings: Mapping[str, str]) -> TrackedConnection:
    """Open a connection with this application name and these settings of the server."""
    parts = urlsplit(location.url)
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    asked = dict(parse_qsl(parts.query))
    given = {**_ALIVE, **{key: value for key, value in asked.items() if key in known}, "application_name": name}
    # asyncpg takes any unknown option as a setting of the server; libpq needs those under `options`.
    apart = {**{key: value for key, value in asked.items() if key not in known}, **settings}
    if apart:
        given["options"] = " ".join([asked.get("options", ""), *(f"-c {key}={_escaped(value)}" for key, value in apart.items())])
    url = f"postgresql://{parts.netloc}{parts.path}?{urlencode(given, quote_via=quote)}"
    try:
        connection = TrackedConnection.connect(url, connect_timeout=round(location.connect_timeout), prepare_threshold=None)
    except psycopg.Error as error:
        raise failures.connect_error(location.public, error) from error
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # a stricter one fails at the end if a report is written
    return connection


@contextmanager
def blocking(
    transaction: UserTransaction, connection: TrackedConnection, *, is_kept: bool = False
) -> Iterator[TrackedConnection]:
    """Run the transaction on this connection; then close the connection, unless it ``is_kept`` and nothing failed."""
    is_ending = is_over = False
    connection.spoke = transaction.spoke
    try:
        with connection.transaction():
            try:
                transaction.begun(*_asked(connection, transaction.begins))
            except psycopg.Error as error:
                raise transaction.refused(error) from error
            yield connection
            transaction.ended(*_asked(connection, transaction.ends))
            is_ending = True
        is_over = True
    except psycopg.Error as error:
        if connection.closed:
            raise transaction.lost(error, is_ending) from error
        raise
    finally:
        if not (is_kept and is_over):
            connection.close()


def reset_session(connection: TrackedConnection, statements: LiteralString) -> None:
    """Reset the session and this object after a transaction, for the next one; close the connection if that fails."""
    connection.spoke, connection.row_factory, connection.cursor_factory = TrackedConnection.spoke, tuple_row, psycopg.Cursor
    try:
        with connection.transaction():
            connection.execute(statements)
    except psycopg.Error:
        connection.close()


def _asked(connection: TrackedConnection, question: Question) -> tuple[Any, ...]:
    with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
        found = cursor.execute(*question).fetchone()
        assert found is not None
        return found


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace(" ", r"\ ")

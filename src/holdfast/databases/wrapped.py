"""Wrappers of a driver's connection: sessions and connections of SQLAlchemy, connections of Django.

They keep their own records: what has begun, what must begin, which callbacks run after the commit. So statements go through them
and never past them. They are recognised by the names of their classes, so that only packages the caller uses are imported.
"""

import importlib
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.errors import MissingExtra

Result = TypeVar("Result")
Row = tuple[Any, ...]

SCOPED = ("sqlalchemy.orm.scoping.scoped_session", "sqlalchemy.ext.asyncio.scoping.async_scoped_session")
AWAITED_SQLALCHEMY = ("sqlalchemy.ext.asyncio.session.AsyncSession", "sqlalchemy.ext.asyncio.engine.AsyncConnection")
SQLALCHEMY = ("sqlalchemy.orm.session.Session", "sqlalchemy.engine.base.Connection")
DJANGO = ("django.db.backends.base.base.BaseDatabaseWrapper", "django.utils.connection.ConnectionProxy")


class OpenedConnection(Protocol):
    """A wrapped connection, open for blocking statements in the caller's transaction."""

    @property
    def dialect(self) -> str:
        """The kind of SQL: ``postgresql``, ``sqlite`` or another."""
        ...

    @property
    def placeholder(self) -> str:
        """The text that stands for a value in its statements."""
        ...

    @property
    def source(self) -> object:
        """An object that is the same for all connections to the same database."""
        ...

    def fetch(self, statement: str, *values: str | None) -> list[Row]:
        """Return all rows of one statement."""
        ...

    def driver_connection(self) -> Any:
        """Return the driver's connection, in a transaction if the wrapper would begin one."""
        ...

    def waited_for(self, action: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of a coroutine of the driver, awaited in the caller's event loop."""
        ...


class Wrapper(Protocol):
    """A wrapped connection."""

    def run(self, work: Callable[[OpenedConnection], Result]) -> Result | Coroutine[Any, Any, Result]:
        """Run ``work`` in the caller's transaction; the caller awaits the result of an asynchronous wrapper."""
        ...

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called once the writes so far are committed, if the wrapper knows when that is."""
        ...


def wrapper_of(connection: Any) -> Wrapper | None:
    """Return the wrapper of a connection, or ``None`` if it is a driver's own or not a connection."""
    if is_a(connection, *SCOPED):
        connection = connection()
    if is_a(connection, *AWAITED_SQLALCHEMY):
        return _AwaitedSqlAlchemy(connection)
    if is_a(connection, *SQLALCHEMY):
        return _SqlAlchemy(connection)
    if is_a(connection, *DJANGO):
        return _Django(connection)
    return None


def after_commit(connection: object, call: Callable[[], None]) -> None:
    """Have ``call`` run once the caller's transaction has committed, if the connection has a wrapper that knows when that is."""
    if (wrapper := wrapper_of(connection)) is not None:
        wrapper.after_commit(call)


def require_greenlet() -> None:
    """Raise ``MissingExtra`` without ``greenlet``, by which SQLAlchemy awaits a driver."""
    try:
        importlib.import_module("greenlet")
    except ImportError as error:
        raise MissingExtra("greenlet", "sqlalchemy") from error


def is_a(thing: object, *names: str) -> bool:
    """Return whether one of an object's classes has one of these full names."""
    return any(f"{each.__module__}.{each.__qualname__}" in names for each in type(thing).__mro__)


class _SqlAlchemy:
    """The wrapper of a ``Session`` or ``Connection`` of SQLAlchemy."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def run(self, work: Callable[[OpenedConnection], Result]) -> Result:
        return work(_OpenedSqlAlchemy(self._owner.connection() if is_session(self._owner) else self._owner))

    def after_commit(self, tell: Callable[[], None]) -> None:
        if is_session(self._owner):  # the event of a Connection comes before the commit, which is too early
            waiting = self._owner.info.get(_WAITING) or self._owner.info.setdefault(_WAITING, _Waiting(self._owner))
            waiting.add(self._owner, tell)


class _AwaitedSqlAlchemy:
    """The same for ``sqlalchemy.ext.asyncio``, whose ``run_sync`` awaits each blocking call."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    async def run(self, work: Callable[[OpenedConnection], Result]) -> Result:
        require_greenlet()
        done: Result = await self._owner.run_sync(lambda owner: _SqlAlchemy(owner).run(work))
        return done

    def after_commit(self, tell: Callable[[], None]) -> None:
        if is_session(owner := getattr(self._owner, "sync_session", None)):
            _SqlAlchemy(owner).after_commit(tell)


class _OpenedSqlAlchemy:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def dialect(self) -> str:
        return str(self._connection.dialect.name)

    @property
    def placeholder(self) -> str:
        return "$1" if self._connection.dialect.paramstyle == "numeric_dollar" else "%s"

    @property
    def source(self) -> object:
        return self._connection.engine

    def fetch(self, statement: str, *values: str | None) -> list[Row]:
        result = self._connection.exec_driver_sql(statement, values or None)
        return [tuple(row) for row in result] if result.returns_rows else []

    def driver_connection(self) -> Any:
        if not self._connection.in_transaction():
            self._connection.begin()  # else its commit() would not reach the driver
        return self._connection.connection.driver_connection

    def waited_for(self, action: Coroutine[Any, Any, Result]) -> Result:
        done: Result = importlib.import_module("sqlalchemy.util").await_only(action)
        return done


_WAITING = "holdfast.waiting"


class _Waiting:
    """The callbacks to run after a session's commit, each with the transaction, perhaps a savepoint, in which it was added."""

    def __init__(self, session: Any) -> None:
        self._waiting: list[tuple[Any, Callable[[], None]]] = []
        listen = importlib.import_module("sqlalchemy.event").listen
        listen(session, "after_commit", self._commit)
        listen(session, "after_soft_rollback", self._roll_back)
        listen(session, "after_transaction_end", self._end)

    def add(self, session: Any, tell: Callable[[], None]) -> None:
        self._waiting.append((session.get_nested_transaction() or session.get_transaction(), tell))

    def _commit(self, session: Any) -> None:
        if not session.in_nested_transaction():
            waiting, self._waiting = self._waiting, []
            for _, tell in waiting:
                tell()

    def _roll_back(self, _: Any, transaction: Any) -> None:
        self._waiting = [each for each in self._waiting if not _is_within(each[0], transaction)]

    def _end(self, _: Any, transaction: Any) -> None:
        if transaction.parent is None:
            self._waiting.clear()


def is_session(owner: Any) -> bool:
    """Return whether it is a ``Session`` of SQLAlchemy."""
    return is_a(owner, "sqlalchemy.orm.session.Session")


def _is_within(transaction: Any, outer: Any) -> bool:
    while transaction is not None and transaction is not outer:
        transaction = transaction.parent
    return transaction is not None


class _Django:
    """The wrapper of a Django connection, which is also its own opened connection."""

    placeholder = "%s"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Callable[[OpenedConnection], Result]) -> Result:
        self._connection.ensure_connection()
        return work(self)

    def after_commit(self, tell: Callable[[], None]) -> None:
        if self._connection.in_atomic_block or self._connection.get_autocommit():
            self._connection.on_commit(tell, robust=True)

    @property
    def dialect(self) -> str:
        return str(self._connection.vendor)

    @property
    def source(self) -> object:
        return self._connection.connection

    def fetch(self, statement: str, *values: str | None) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def driver_connection(self) -> Any:
        with self._connection.cursor():  # opens it, and refuses another thread or event loop
            self._connection.validate_no_broken_transaction()
        return self._connection.connection

    def waited_for(self, action: Coroutine[Any, Any, Result]) -> Result:
        action.close()
        raise TypeError("connections of Django's are never awaited")

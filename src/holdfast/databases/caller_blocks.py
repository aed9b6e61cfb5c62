"""A block on the user's own connection: one transaction, with a check as its first and as its last statement.

All of it is written once, as coroutines. On a connection that is not awaited they never wait, so blocking code can run them.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

from holdfast._core.own_connection import require_none_open, require_one_connection
from holdfast.databases.at_once import held_now, obeyed
from holdfast.databases.wrapped import AWAITED_SQLALCHEMY, DJANGO, SCOPED, SQLALCHEMY, is_a, is_session, require_greenlet
from holdfast.errors import HoldfastError, Unsupported

_LIBRARIES = ("psycopg.", "asyncpg.", "sqlalchemy.", "django.db.")

Check = Callable[[], Any | Coroutine[Any, Any, Any]]
Meaning = Callable[[Exception, bool], HoldfastError]
"""The error to raise for a connection that was lost, from the library's error, and from whether that was during the commit."""


class Block(ABC):
    """One transaction on a connection of one library."""

    is_awaited = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @abstractmethod
    async def begin(self) -> None:
        """Begin the transaction. ``Unsupported`` if one is open already."""

    async def flush(self) -> None:
        """Send what the library has kept back until now."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit, and leave no transaction open if that fails."""

    @abstractmethod
    async def roll_back(self, error: BaseException) -> None:
        """Roll back, because of this error; the connection can be used afterwards."""

    def is_lost(self) -> bool:
        """Return whether the connection to the server is gone."""
        return False


def run_block(
    block: Block, connection: Any, first: Check, last: Check, meaning: Meaning | None = None
) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
    """Return the context manager of a block; it is awaited if the library is. ``first`` and ``last``: the checks."""
    checked = _checked(block, connection, first, last, meaning)
    return checked if block.is_awaited else held_now(checked)


def wrapped_block_of(connection: Any) -> Block | None:
    """Return the block of a wrapper of a connection, or ``None`` if it is a driver's own or not a connection."""
    if is_a(connection, *SCOPED):
        connection = connection()
    if is_a(connection, *AWAITED_SQLALCHEMY):
        return _AwaitedSqlAlchemyBlock(connection)
    if is_a(connection, *SQLALCHEMY):
        return _SqlAlchemyBlock(connection)
    if is_a(connection, *DJANGO):
        return _DjangoBlock(connection)
    return None


@asynccontextmanager
async def _checked(block: Block, connection: Any, first: Check, last: Check, meaning: Meaning | None) -> AsyncIterator[Any]:
    await block.begin()
    is_ending = is_of_user = False
    try:
        await obeyed(first)
        is_of_user = True
        yield connection
        is_of_user = False
        await block.flush()
        await obeyed(last)
        is_ending = True
        await block.commit()
    except BaseException as error:
        is_lost = block.is_lost()
        if not is_ending or is_lost:
            await block.roll_back(error)
        is_theirs = not isinstance(error, HoldfastError) and (not is_of_user or _is_of_library(error))
        if meaning is not None and is_lost and is_theirs and isinstance(error, Exception):
            raise meaning(error, is_ending) from error
        raise


def _is_of_library(error: BaseException) -> bool:
    """Return whether a library for databases has raised an error, rather than the user's own code, whose errors are passed on."""
    return isinstance(error, OSError) or any(f"{kind.__module__}.".startswith(_LIBRARIES) for kind in type(error).__mro__)


class _SqlAlchemyBlock(Block):
    """A block of a ``Session`` or ``Connection`` of SQLAlchemy."""

    _link: Any = None

    async def begin(self) -> None:
        await self._run(self._begin)

    async def flush(self) -> None:
        await self._run(lambda owner: owner.flush() if is_session(owner) else None)

    async def commit(self) -> None:
        await self._run(self._commit)

    async def roll_back(self, error: BaseException) -> None:
        del error
        await self._run(self._roll_back)

    def is_lost(self) -> bool:
        return bool(self._link is not None and self._link.invalidated)

    async def _run(self, act: Callable[[Any], Any]) -> None:
        act(self._connection)

    def _begin(self, owner: Any) -> None:
        bind = owner.get_bind() if is_session(owner) else owner
        require_none_open(is_open=owner.in_transaction() or bool(getattr(bind, "in_transaction", bool)()))
        owner.begin()
        try:
            self._link = owner.connection() if is_session(owner) else owner
        except BaseException:
            owner.rollback()
            raise
        if is_session(owner):
            importlib.import_module("sqlalchemy.event").listen(owner, "after_begin", self._require_link)

    def _commit(self, owner: Any) -> None:
        try:
            owner.commit()
        except BaseException:
            self._roll_back(owner)
            raise
        self._forget(owner)

    def _roll_back(self, owner: Any) -> None:
        self._forget(owner)
        owner.rollback()

    def _require_link(self, _session: Any, _transaction: Any, connection: Any) -> None:
        require_one_connection(is_other=connection is not self._link)

    def _forget(self, owner: Any) -> None:
        event = importlib.import_module("sqlalchemy.event")
        if is_session(owner) and event.contains(owner, "after_begin", self._require_link):
            event.remove(owner, "after_begin", self._require_link)


class _AwaitedSqlAlchemyBlock(_SqlAlchemyBlock):
    """The same for ``sqlalchemy.ext.asyncio``, whose ``run_sync`` awaits each blocking call."""

    is_awaited = True

    async def _run(self, act: Callable[[Any], Any]) -> None:
        require_greenlet()
        await self._connection.run_sync(act)


class _DjangoBlock(Block):
    """A block of a connection of Django: ``atomic()`` of its alias."""

    async def begin(self) -> None:
        transaction = importlib.import_module("django.db.transaction")
        own = transaction.get_connection(self._connection.alias)
        if not is_a(self._connection, "django.utils.connection.ConnectionProxy") and own is not self._connection:
            raise Unsupported(
                f"within: this is not the connection that Django uses here for {own.alias!r}: give connections[{own.alias!r}]"
            )
        own.ensure_connection()
        is_outer = own.in_atomic_block and not own.atomic_blocks[-1]._from_testcase
        require_none_open(is_open=is_outer or not (own.in_atomic_block or own.get_autocommit()))
        self._own, self._atomic = own, transaction.atomic(using=own.alias)
        self._atomic.__enter__()

    async def commit(self) -> None:
        self._atomic.__exit__(None, None, None)

    async def roll_back(self, error: BaseException) -> None:
        self._atomic.__exit__(type(error), error, error.__traceback__)

    def is_lost(self) -> bool:
        link = self._own.connection
        return link is None or bool(getattr(link, "closed", False))

"""A caller's connections, by every library that `within=` supports, behind one blocking interface."""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

import aiosqlite
import asyncpg
import django
import psycopg
import sqlalchemy
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast._engine.client.handle import Handle
from holdfast._engine.tasks.task import TaskWithOptions


class Caller(ABC):
    """One connection of a caller, in one transaction from the moment it is opened."""

    is_awaited = False
    announces = False
    """Whether the library announces that a transaction has been committed."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.open()
        self.begin()

    within: Any

    @abstractmethod
    def open(self) -> None: ...

    def begin(self) -> None:
        """Begin a transaction if the library does not begin one by itself."""

    @abstractmethod
    def execute(self, statement: str) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def set_savepoint(self) -> None:
        self.execute("SAVEPOINT mark")

    def undo_savepoint(self) -> None:
        """Roll back to the savepoint, and release it."""
        self.execute("ROLLBACK TO SAVEPOINT mark")
        self.execute("RELEASE SAVEPOINT mark")

    def keep_savepoint(self) -> None:
        """Release the savepoint, and keep what came after it."""
        self.execute("RELEASE SAVEPOINT mark")

    def enqueue(self, order: "TaskWithOptions[Any, ...]", *payload: object) -> Handle:
        """Enqueue by the blocking call, or by the awaited one if the library is awaited."""
        return order.enqueue(*payload)


class Awaited(Caller):
    """A connection of an awaited library, used in a separate event loop."""

    is_awaited = True

    def __init__(self, where: str) -> None:
        self.runner = asyncio.Runner()
        super().__init__(where)

    def run(self, action: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end in that event loop."""
        return self.runner.run(action)

    def execute(self, statement: str) -> None:
        self.run(self.within.execute(statement))

    def commit(self) -> None:
        self.run(self.within.commit())

    def rollback(self) -> None:
        self.run(self.within.rollback())

    def close(self) -> None:
        self.run(self.within.close())
        self.runner.close()

    def enqueue(self, order: "TaskWithOptions[Any, ...]", *payload: object) -> Handle:
        async def enqueue() -> Handle:
            handle = await order.aenqueue(*payload)
            return handle

        found: Handle = self.run(enqueue())
        return found


class Sqlite3(Caller):
    def open(self) -> None:
        self.within = sqlite3.connect(self.where, isolation_level=None)

    def begin(self) -> None:
        self.execute("BEGIN")

    def execute(self, statement: str) -> None:
        self.within.execute(statement)

    def commit(self) -> None:
        self.within.commit()

    def rollback(self) -> None:
        self.within.rollback()

    def close(self) -> None:
        self.within.close()


class Aiosqlite(Awaited):
    def open(self) -> None:
        async def connect() -> aiosqlite.Connection:
            return await aiosqlite.connect(self.where)

        self.within = self.run(connect())


class Psycopg(Caller):
    def open(self) -> None:
        self.within = psycopg.connect(self.where)

    def execute(self, statement: str) -> None:
        self.within.execute(statement)

    def commit(self) -> None:
        self.within.commit()

    def rollback(self) -> None:
        self.within.rollback()

    def close(self) -> None:
        self.within.close()


class AwaitedPsycopg(Awaited):
    def open(self) -> None:
        self.within = self.run(psycopg.AsyncConnection.connect(self.where))


class Asyncpg(Awaited):
    def open(self) -> None:
        self.within = self.run(asyncpg.connect(self.where))

    def begin(self) -> None:
        self.transactions = [self.within.transaction()]
        self.run(self.transactions[0].start())

    def commit(self) -> None:
        self.run(self.transactions.pop().commit())

    def rollback(self) -> None:
        self.run(self.transactions.pop().rollback())

    def set_savepoint(self) -> None:
        self.transactions.append(self.within.transaction())
        self.run(self.transactions[-1].start())

    undo_savepoint, keep_savepoint = rollback, commit


class AsyncpgPool(Asyncpg):
    def open(self) -> None:
        async def connect() -> None:
            self.pool = await asyncpg.create_pool(self.where, min_size=1, max_size=1)
            self.within = await self.pool.acquire()

        self.run(connect())

    def close(self) -> None:
        async def close() -> None:
            await self.pool.release(self.within)
            await self.pool.close()

        self.run(close())
        self.runner.close()


class AlchemySession(Caller):
    announces = True

    def open(self) -> None:
        self.engine = sqlalchemy.create_engine(self.where)
        self.within = self.session()

    def session(self) -> Any:
        """Return the object that is passed as `within=`."""
        return Session(self.engine)

    def execute(self, statement: str) -> None:
        self.within.execute(sqlalchemy.text(statement))

    def commit(self) -> None:
        self.within.commit()

    def rollback(self) -> None:
        self.within.rollback()

    def set_savepoint(self) -> None:
        self.nested = self.within.begin_nested()

    def undo_savepoint(self) -> None:
        self.nested.rollback()

    def keep_savepoint(self) -> None:
        self.nested.commit()

    def close(self) -> None:
        self.within.close()
        self.engine.dispose()


class AlchemyScopedSession(AlchemySession):
    def session(self) -> Any:
        return scoped_session(sessionmaker(self.engine))


class AlchemyConnection(AlchemySession):
    announces = False

    def session(self) -> Any:
        return self.engine.connect()


class AwaitedAlchemySession(Awaited):
    announces = True

    def open(self) -> None:
        self.engine = create_async_engine(self.where)
        self.run(self.connect())

    async def connect(self) -> None:
        """Make the object that is passed as `within=`."""
        self.within = AsyncSession(self.engine)

    def execute(self, statement: str) -> None:
        self.run(self.within.execute(sqlalchemy.text(statement)))

    def set_savepoint(self) -> None:
        async def begin() -> None:
            self.nested = await self.within.begin_nested()

        self.run(begin())

    def undo_savepoint(self) -> None:
        self.run(self.nested.rollback())

    def keep_savepoint(self) -> None:
        self.run(self.nested.commit())

    def close(self) -> None:
        self.run(self.within.close())
        self.run(self.engine.dispose())
        self.runner.close()


class AwaitedAlchemyScopedSession(AwaitedAlchemySession):
    async def connect(self) -> None:
        self.within = async_scoped_session(async_sessionmaker(self.engine), scopefunc=lambda: self)


class AwaitedAlchemyConnection(AwaitedAlchemySession):
    announces = False

    async def connect(self) -> None:
        self.within = await self.engine.connect()


class Django(Caller):
    """A connection of Django; ``where`` is a backend, a database and, for PostgreSQL, the address of the server."""

    announces = True
    alias = "callers"

    def open(self) -> None:
        if not settings.configured:
            settings.configure(DATABASES={}, USE_TZ=True)
            django.setup()
        given: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": self.where}
        if "://" in self.where:
            parts = psycopg.conninfo.conninfo_to_dict(self.where)
            given = {"ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"], "USER": parts.get("user", "")}
            given |= {"HOST": parts.get("host", ""), "PORT": parts.get("port", ""), "PASSWORD": parts.get("password", "")}
        connections.settings[self.alias] = connections.configure_settings({"default": {}, self.alias: given})[self.alias]
        self.within = connections[self.alias]

    def begin(self) -> None:
        self.blocks: list[Any] = []
        self.set_savepoint()

    def execute(self, statement: str) -> None:
        with self.within.cursor() as cursor:
            cursor.execute(statement)

    def set_savepoint(self) -> None:
        self.blocks.append(transaction.atomic(using=self.alias))
        self.blocks[-1].__enter__()

    def commit(self) -> None:
        self.blocks.pop().__exit__(None, None, None)

    def rollback(self) -> None:
        self.blocks.pop().__exit__(ValueError, ValueError(), None)

    undo_savepoint, keep_savepoint = rollback, commit

    def close(self) -> None:
        self.within.close()
        del connections[self.alias], connections.settings[self.alias]


Open = Callable[[str], Caller]

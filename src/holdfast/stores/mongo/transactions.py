"""The blocks in which a handler writes its own documents, for event loops and for threads."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any

from pymongo import errors as driver

from holdfast._ports.clock import Clock
from holdfast.databases.at_once import run_now
from holdfast.databases.mongo.caller import CallerDatabase
from holdfast.databases.mongo.database import MongoDatabase
from holdfast.databases.mongo.errors import first_line, statement_error
from holdfast.databases.mongo.left_open import is_cut
from holdfast.errors import StoreUnavailable
from holdfast.stores.mongo.sharing import Guard

_TRANSIENT = "TransientTransactionError"


@asynccontextmanager
async def awaited(
    database: MongoDatabase,
    guard: Guard,
    clock: Clock,
    idle: float,
    require: Callable[[], Awaitable[None]],
    *,
    own: Any = None,
) -> AsyncIterator[Any]:
    """Run a transaction on an asynchronous session, the user's ``own`` if there is one. ``require`` raises why the store cannot be used."""
    await require()
    await database.end_left_open()
    begun = clock.boottime()
    try:
        lent = database.left_open.lend(database.caller_session()) if own is None else nullcontext(own)
        async with lent as session:
            await guard.prepare(CallerDatabase(session.client, database.location), session)
            await _begun(session.start_transaction(**database.in_snapshot()))
            inside = CallerDatabase(session.client, database.location, session)
            with _noted(database, session):
                await guard.begin(inside)
            limit = asyncio.get_running_loop().call_later(idle, lambda: asyncio.ensure_future(_abort(session)))
            try:
                with _noted(database, session):
                    yield session
                    if not session.in_transaction:
                        raise guard.ended_by_user() if clock.boottime() - begun < idle else guard.cut_off()
                    await guard.end(inside)
                    await _commit(database, session)
            finally:
                limit.cancel()
                await _abort(session)
    except driver.PyMongoError as error:
        raise _meaning(database, guard, error, clock.boottime() - begun >= idle) from error


@contextmanager
def blocking(
    database: MongoDatabase, guard: Guard, clock: Clock, idle: float, require: Callable[[], None], *, own: Any = None
) -> Iterator[Any]:
    """Run a transaction on a session that blocks its thread, as ``awaited`` does."""
    require()
    database.end_left_open_now()
    client, begun = database.blocking_client() if own is None else own.client, clock.boottime()
    try:
        lent = database.left_open.lend_now(client.start_session(causal_consistency=True)) if own is None else nullcontext(own)
        with lent as session:
            run_now(guard.prepare(CallerDatabase(client, database.location), session))
            session.start_transaction(**database.in_snapshot())
            inside = CallerDatabase(client, database.location, session)
            with _noted(database, session):
                run_now(guard.begin(inside))
            limit = threading.Timer(idle, _abort_now, [session])
            limit.start()
            try:
                with _noted(database, session):
                    yield session
                    if not session.in_transaction:
                        raise guard.ended_by_user() if clock.boottime() - begun < idle else guard.cut_off()
                    run_now(guard.end(inside))
                    _commit_now(database, session)
            finally:
                limit.cancel()
                _abort_now(session)
    except driver.PyMongoError as error:
        raise _meaning(database, guard, error, clock.boottime() - begun >= idle) from error


async def _begun(start: Any) -> None:
    if inspect.isawaitable(start):  # Motor begins at once
        await start


async def _commit(database: MongoDatabase, session: Any) -> None:
    try:
        await session.commit_transaction()
    except driver.PyMongoError as error:
        raise _in_doubt(database, error) from error


def _commit_now(database: MongoDatabase, session: Any) -> None:
    try:
        session.commit_transaction()
    except driver.PyMongoError as error:
        raise _in_doubt(database, error) from error


async def _abort(session: Any) -> None:
    if session.in_transaction:
        with suppress(driver.PyMongoError):
            await session.abort_transaction()


def _abort_now(session: Any) -> None:
    if session.in_transaction:
        with suppress(driver.PyMongoError):
            session.abort_transaction()


@contextmanager
def _noted(database: MongoDatabase, session: Any) -> Iterator[None]:
    """Note a transaction whose abort or commit may be lost, so that the next one does not wait for its locks."""
    try:
        yield
    except BaseException as error:
        if is_cut(error):
            database.left_open.add(session)
        raise


def _in_doubt(database: MongoDatabase, error: driver.PyMongoError) -> Exception:
    if error.has_error_label(_TRANSIENT):
        return error
    return StoreUnavailable(
        f"transaction: {database.location.public}: its commit was not answered, so whether it was committed is unknown: "
        f"{first_line(error)}"
    )


def _meaning(database: MongoDatabase, guard: Guard, error: driver.PyMongoError, is_late: bool) -> BaseException:
    """Return what a failure of the driver means: conflicts of the user's own documents are the user's."""
    if is_late:
        return guard.cut_off()
    return error if error.has_error_label(_TRANSIENT) else statement_error(database.location.public, error)

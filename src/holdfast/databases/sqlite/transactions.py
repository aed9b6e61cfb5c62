"""A handler's own rows, committed together with the check of its token.

The transaction holds the lock of the whole file, so it may not stay open for long: a separate thread rolls it back, even while the
handler is stuck. After that, no statement that the handler still sends to that connection may be committed without the check.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast._forks import Forked, register
from holdfast._ports.clock import Randomness
from holdfast.databases.call_thread import CallThread, CallThreadPool
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import is_busy, pause
from holdfast.databases.sqlite.file_location import identity_of
from holdfast.databases.sqlite.files import Files
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.timers import Timer, Timers
from holdfast.errors import HoldfastError, StoreUnavailable

_OPERATIONS = 10_000  # of SQLite's virtual machine, between two checks whether a statement has to stop
_LOOK_AGAIN = 0.05
_WRITES = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)

_ALARMS, _LANES = Timers(), CallThreadPool()

Result = TypeVar("Result")


class TransactionTurns(Forked):
    """The turns of a process's transactions, one at a time. A hundred that competed for the file's lock kept it from each other, and
    from all beats and reports, for seconds: a hundred transactions of 10 ms took 9 s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        register(self)

    def take(self, chance: Randomness, limit: float, is_abandoned: Callable[[], bool]) -> Callable[[], None]:
        """Wait for a turn, for at most ``limit`` seconds of any one transaction; return the function that ends the turn."""
        lock, count, waited = self._lock, self._count, 0.0
        if not lock.acquire(blocking=False):
            while not lock.acquire(timeout=_LOOK_AGAIN):
                count, waited = self._count, waited + _LOOK_AGAIN if count == self._count else 0.0
                if is_abandoned() or waited >= limit:
                    raise sqlite3.OperationalError("locked by another transaction of this process")
            pause(chance)  # transactions of other processes were waiting too
        self._count += 1
        return lock.release

    def take_at_once(self) -> Callable[[], None] | None:
        """Take the turn if no transaction has it, else return None; the result ends the turn."""
        if not self._lock.acquire(blocking=False):
            return None
        self._count += 1
        return self._lock.release

    def after_fork_in_child(self) -> None:
        """Replace the lock in the child: a thread of the parent may hold it, and no thread would release it here."""
        self._lock = threading.Lock()


class UserTransaction:
    """One transaction and its connection. ``idle``: the seconds for which it may be open."""

    what, beside = "transaction()", "together with what belongs to it"

    def __init__(
        self, path: Path, *, idle: float, chance: Randomness, turns: TransactionTurns, spares: SpareConnection, busy_limit: float
    ) -> None:
        self._turns, self._end_turn = turns, _nothing
        self._path, self._idle, self._spares = path, idle, spares
        self._chance, self._busy_limit = chance, busy_limit
        self._connection: driver.Connection | None = None
        self._files: Files | None = None
        self._lock = threading.Lock()
        self._ours = threading.local()
        self._alarm: Timer | None = None
        self._foreign = ""
        self._is_abandoned = self._is_over = self._has_tried_to_end = self._is_undone = self._has_gone_back = False

    def before(self, connection: driver.Connection) -> None:
        """Check before the wait for the lock; raise if the transaction could not commit anyway."""

    def at_the_end(self, connection: driver.Connection) -> None:
        """Check before the commit; raise if the transaction must not commit."""

    def open(self) -> Any:
        """Wait for the lock, begin the transaction and return the user's connection."""
        if identity_of(self._path) is None:
            raise StoreUnavailable(f"transaction: there is no file {self._path}")
        try:
            # Even a reader may find the file busy: after a process was killed, the next one to come recovers the log.
            connection, self._files = self._spares.take() or self._retry_while_busy(self._spares.connect)
            self._connection = connection
            with self._speaking():
                self._retry_while_busy(lambda: self.before(connection))
                self._end_turn = self._turns.take(self._chance, self._busy_limit, lambda: self._is_abandoned)
                self._retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
        except sqlite3.Error as error:
            raise StoreUnavailable(f"transaction: {self._path}: {error}") from error
        return self._begun(connection)

    def try_open(self) -> Any | None:
        """Begin the transaction without any waiting and return the user's connection; ``None`` if that is not possible."""
        if (spare := self._spares.take()) is None:
            return None
        connection, files = spare
        if (end_turn := self._turns.take_at_once()) is None:
            _close(connection, files)
            return None
        self._connection, self._files, self._end_turn = connection, files, end_turn
        try:
            with self._speaking():
                self.before(connection)
                connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            self.roll_back()
            return None
        return self._begun(connection)

    def refill(self) -> None:
        """Have a connection ready for the next transaction."""
        self._spares.refill()

    def abandon(self) -> None:
        """Stop waiting for the lock."""
        self._is_abandoned = True

    def commit(self) -> None:
        """Commit the user's rows; raise if the check fails, the time is over or the file was replaced."""
        with self._ending() as connection:
            if self._is_over or connection is None:
                raise self._too_long()
            try:
                if not connection.in_transaction:
                    raise self._undone()
                self.at_the_end(connection)
                self._require_files(is_open=True)
                self._retry_while_busy(
                    lambda: connection.execute("COMMIT")
                )  # without a write-ahead log, a reader keeps COMMIT waiting
                self._require_files(is_open=False)
            except sqlite3.ProgrammingError as error:
                raise HoldfastError(f"{self.what}: {error} It was rolled back: leave its connection open") from error
            except sqlite3.Error as error:
                raise StoreUnavailable(f"transaction: {self._path}: {error}") from error

    def roll_back(self) -> None:
        """Roll the transaction back and close its connection. Repeatable."""
        with self._ending():
            pass

    def explained(self, error: BaseException) -> HoldfastError | None:
        """Return the reason why Holdfast had the library refuse a statement of the user's code; None if it did not."""
        if not driver.is_error(error):
            return None
        if self._is_over:
            return self._too_long()
        if self._is_undone:
            return self._undone()
        if self._foreign:
            return HoldfastError(
                f"{self.what} may write to its own file only, and {self._foreign!r} is another one: with a write-ahead log SQLite commits "
                "each file by itself, so a crash could keep one commit of the two. Write to it after the block, by a connection of its own"
            )
        if self._has_tried_to_end:
            return HoldfastError(
                f"{self.what} commits when its block ends, {self.beside}, and rolls back when the block raises: leave out COMMIT "
                "and ROLLBACK, commit(), rollback() and `with connection:`"
            )
        return None

    def _begun(self, connection: driver.Connection) -> Any:
        user = driver.owned(connection)
        user.set_authorizer(self._judge)
        user.set_progress_handler(self._has_to_stop, _OPERATIONS)
        self._alarm = _ALARMS.set(self._idle, self._expire)
        return user

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        self._ours.is_speaking = True
        try:
            yield
        finally:
            self._ours.is_speaking = False

    def _retry_while_busy(self, action: Callable[[], Result]) -> Result:
        waited = 0.0
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                if self._is_abandoned or waited >= self._busy_limit or not is_busy(error):
                    raise
            waited += pause(self._chance)

    @contextmanager
    def _ending(self) -> Iterator[driver.Connection | None]:
        with self._lock:
            connection, self._connection = self._connection, None
            if self._alarm is not None:
                self._alarm.cancel()
            self._ours.is_speaking = True
            try:
                yield connection
            finally:
                if connection is not None and self._files is not None:
                    _close(connection, self._files)
                self._ours.is_speaking = False
                self._give_turn()

    def _require_files(self, *, is_open: bool) -> None:
        if self._files is None:
            return
        self._files.require("transaction")
        if is_open and not self._files.has_write_lock():
            raise StoreUnavailable(
                f"transaction: this process closed {self._path}-shm while the transaction was open, and so gave up its lock of the "
                "file; nothing of it is kept. To copy the file, use `holdfast backup copy.db`"
            )

    def _expire(self) -> None:
        with self._lock:
            connection = self._connection
            if connection is None:
                return
            self._is_over = self._ours.is_speaking = True
            while True:
                with suppress(sqlite3.Error):  # apsw raises them until the user's statement has stopped
                    connection.execute("PRAGMA query_only = 1")  # else the next statement of the user's code would commit at once
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    self._give_turn()
                    return
                pause(self._chance)

    def _give_turn(self) -> None:
        end, self._end_turn = self._end_turn, _nothing
        end()

    def _judge(self, action: int, first: object, _second: object, database: str | None, *_: object) -> int:
        if getattr(self._ours, "is_speaking", False):
            return sqlite3.SQLITE_OK
        if action in _WRITES and database not in (None, "main", "temp"):
            self._foreign = str(database)
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_TRANSACTION:
            self._has_tried_to_end = True
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_SAVEPOINT and first == "ROLLBACK":
            self._has_gone_back = True
        if self._connection is not None and not self._connection.in_transaction:
            self._is_undone = True  # else the next statement of the user's code would commit at once
        return sqlite3.SQLITE_DENY if self._is_over or self._is_undone else sqlite3.SQLITE_OK

    def _has_to_stop(self) -> bool:
        return self._is_over

    def _too_long(self) -> HoldfastError:
        return too_long(self.what, self._idle)

    def _undone(self) -> HoldfastError:
        return HoldfastError(
            f"{self.what} was rolled back by SQLite itself, as it does for OR ROLLBACK and for a full disk; nothing of it is "
            "kept: let such an error end the block"
        )


def too_long(what: str, limit: float) -> HoldfastError:
    """Return the error to raise for a block that was open for longer than its limit."""
    return HoldfastError(
        f"{what} was open for longer than {limit:g} s and was rolled back, because no other process can write "
        "to the file while it is open: do what takes time before the block"
    )


def _nothing() -> None:
    """Do nothing: the transaction has no turn to end."""


def _close(connection: driver.Connection, files: Files) -> None:
    with suppress(sqlite3.Error):
        if connection.in_transaction:  # a cursor that is still being read would keep the transaction open
            connection.execute("ROLLBACK")
    with suppress(sqlite3.Error):
        files.close(connection)


@contextmanager
def blocking(transaction: UserTransaction) -> Iterator[Any]:
    """Run a transaction for blocking code, in its thread or process."""
    try:
        connection = transaction.open()
        yield connection
    except BaseException as error:
        transaction.roll_back()
        if (why := transaction.explained(error)) is not None:
            raise why from error
        raise
    transaction.commit()


@asynccontextmanager
async def in_thread(transaction: UserTransaction) -> AsyncIterator[Any]:
    """Run a transaction for code in an event loop, which itself waits for neither lock nor disk."""
    with _LANES.borrow() as lane:
        try:
            connection = transaction.try_open()
            if connection is None:
                connection = await _finished(lane, transaction.open, transaction.abandon)
            yield connection
        except BaseException as error:
            await _finished(lane, transaction.roll_back)
            if (why := transaction.explained(error)) is not None:
                raise why from error
            raise
        await _finished(lane, transaction.commit)
    _LANES.use_idle(transaction.refill)


async def _finished(lane: CallThread, action: Callable[[], Result], abandon: Callable[[], None] = lambda: None) -> Result:
    """Run the action in the thread and return its result. Even a cancelled caller waits for its end, so that nothing stays open."""
    doing = lane.ask(action)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        abandon()
        while not doing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([doing])
        doing.exception()  # retrieved, so that asyncio does not log it
        raise

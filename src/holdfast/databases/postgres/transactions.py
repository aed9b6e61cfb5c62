"""A user's own transaction on a connection that nothing else uses, with a check at its beginning and at its end.

The check locks its row as the very last statement. So the handler's code delays neither a report of its worker nor a rescue.
The server ends a transaction that is idle for too long, even if the handler's process has gone.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres.pool import Connection, hang_up
from holdfast.errors import HoldfastError, StoreUnavailable

CONNECTIONS = 8
"""The most connections for the transactions of one event loop, and as many for those of threads: they must not use up the server's."""

GOOD_BYE = 2.0

Question = tuple[str, tuple[Any, ...]]


class UserTransaction:
    """The checks at the beginning and at the end of a user's transaction block, and the errors for its failures.

    ``idle``: the seconds that the server allows without a statement. ``begins`` and ``ends``: the statements of both checks. Each
    first returns ``is_ours``: whether the job, if the block depends on one, still belongs to this attempt. ``begins`` sets the
    ``mark`` and ``ends`` returns it: if it is missing, the user's code has ended the transaction itself.
    """

    what, beside = "transaction()", "together with what belongs to it"

    def __init__(
        self, begins: Question, ends: Question, *, mark: str, idle: float, public: str, now: Callable[[], float]
    ) -> None:
        self.begins, self.ends = begins, ends
        self._mark, self._idle, self._public, self._now, self._spoke = mark, idle, public, now, 0.0

    def refused(self, error: BaseException) -> HoldfastError:
        """Return the error to raise when the transaction could not begin."""
        return failures.statement_error("transaction", self._public, error)

    def begun(self, is_ours: bool, *_: str) -> None:
        """Start the idle time, and raise unless the answer of ``begins`` allows the block."""
        self.spoke()
        self._require(is_ours)

    def spoke(self) -> None:
        """Restart the idle time, because the server has answered a statement."""
        self._spoke = self._now()

    def ended(self, is_ours: bool, mark: str | None) -> None:
        """Raise unless the transaction may be committed; the error names the reason."""
        if not self.has(mark):
            raise HoldfastError(
                f"{self.what} commits when its block ends, {self.beside}, and rolls back when the block raises: leave out COMMIT "
                "and ROLLBACK. What was committed inside was not checked"
            )
        self._require(is_ours)

    def has(self, mark: str | None) -> bool:
        """Return whether this is what ``begins`` has set in this transaction."""
        return mark == self._mark

    def cut_off(self, error: BaseException) -> HoldfastError:
        """Return the error to raise when the connection closed before the end of the block: nothing was committed."""
        # Not every driver passes on the server's last message, and on a busy machine the end of a statement is noticed late.
        if self._now() - self._spoke >= self._idle / 2 or getattr(error, "sqlstate", None) == "25P03":
            return HoldfastError(
                f"{self.what} was idle for longer than {self._idle:g} s and was rolled back, because it may hold locks: do "
                "what takes time before the block"
            )
        return StoreUnavailable(
            f"transaction: {self._public}: its connection was closed before its block ended, and nothing of it is kept: "
            f"{failures.first_line(error)}"
        )

    def in_doubt(self, error: BaseException) -> StoreUnavailable:
        """Return the error to raise when the connection was lost during COMMIT."""
        return StoreUnavailable(
            f"transaction: {self._public}: its connection was lost while it was committed, so whether it was is unknown: "
            f"{failures.first_line(error)}"
        )

    def lost(self, error: BaseException, is_ending: bool) -> HoldfastError:
        """Return the error to raise when the connection was lost, in the block or in its commit."""
        return self.in_doubt(error) if is_ending else self.cut_off(error)

    def _require(self, is_ours: bool) -> None:
        """Raise unless the transaction may commit; ``is_ours`` is the answer of a check. The base class raises nothing."""


class TransactionTurns:
    """The limit on transactions of a process that have a connection at once; the others wait for one to end."""

    def __init__(self) -> None:
        self.of_threads = threading.BoundedSemaphore(CONNECTIONS)
        self._of_loops: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def of_loop(self) -> asyncio.Semaphore:
        """Return the semaphore of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._of_loops:
            for closed in [each for each in self._of_loops if each.is_closed()]:
                self._of_loops.pop(closed, None)
            self._of_loops[loop] = asyncio.Semaphore(CONNECTIONS)
        return self._of_loops[loop]


@asynccontextmanager
async def awaited(transaction: UserTransaction, link: Connection, *, is_kept: bool = False) -> AsyncIterator[Connection]:
    """Run the transaction on an asyncpg connection; then close the connection, unless it ``is_kept`` and nothing failed."""

    def spoke(query: Any) -> None:
        if not query.exception:
            transaction.spoke()

    is_ending = is_over = False
    try:
        block = link.transaction(
            isolation="read_committed"
        )  # a stricter level fails at the end if a report is written during the block
        try:
            await block.start()
            transaction.begun(*await _asked(link, transaction.begins))
        except failures.Errors as error:
            raise transaction.refused(error) from error
        link.add_query_logger(spoke)
        yield link
        transaction.ended(*await _asked(link, transaction.ends))
        is_ending = True
        await block.commit()
        is_over = True
    except failures.Errors as error:
        if link.is_closed():
            raise transaction.lost(error, is_ending) from error
        raise
    finally:
        with suppress(*failures.Errors):
            async with asyncio.timeout(GOOD_BYE):
                if link.is_in_transaction():
                    await link.execute("ROLLBACK")  # now, before the next user of the connection
        link.remove_query_logger(spoke)
        if not (is_kept and is_over):
            await hang_up(link, GOOD_BYE)


async def _asked(link: Connection, question: Question) -> asyncpg.Record:
    statement, values = question
    (row,) = await link.fetch(statement, *values)
    return row

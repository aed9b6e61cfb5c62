"""The connections of one event loop.

The driver's own pool starts a task for each connection that is returned, and asks the server to reset it. Holdfast needs no reset,
and for a single enqueue it costs more than the statement.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from asyncpg import Connection as Connection

from holdfast.databases.postgres import errors as failures
from holdfast.errors import HoldfastError, StoreUnavailable

TURN_LIMIT = 20.0
CLOSE_LIMIT = 1.0
EARLY = 0.01
"""The most seconds by which the event loop's timer may fire early."""


async def hang_up(link: Connection, within: float = CLOSE_LIMIT) -> None:
    """Close the connection; the driver aborts it if the server takes longer than ``within``, in seconds."""
    with suppress(*failures.Errors):  # what the caller did on it is over, so its outcome must not depend on this
        await link.close(timeout=within)


class Pool:
    """At most ``most`` connections. The one returned last is lent first, so that no more are open than were ever used at once."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], most: int) -> None:
        self._connect = connect
        self._most = self._left = most
        self._waiting: deque[asyncio.Future[None]] = deque()  # callers that wait while all connections are lent
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._failure: HoldfastError | None = None
        self._free: list[Connection] = []
        self._lent: dict[Connection, float] = {}  # the loop's time at which each is cut off
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take_free(self, until: float) -> Connection | None:
        """Return an open, unused connection or None; cut it off at ``until``, by the loop's clock, if it is not back.

        One timer serves all connections: a timeout for each statement would cost as much as all other work for it here.
        """
        if not self._left or not self._free or (connection := self._free.pop()).is_closed():
            return None
        self._left -= 1
        return self._lend(connection, until)

    async def acquire(self, until: float = float("inf")) -> Connection:
        """Return a connection that is open as far as is known; the caller must call ``release`` or ``discard``."""
        if self._left:
            self._left -= 1
        else:
            await self._wait_for_turn()
        try:
            while self._free:
                connection = self._free.pop()
                if not connection.is_closed():
                    break
            else:
                connection = await self._open()
            return self._lend(connection, until)
        except BaseException:
            self._pass_turn()
            raise

    def release(self, connection: Connection) -> None:
        """Return a connection to the pool for the next use."""
        self._lent.pop(connection, None)
        if self._is_closed:
            connection.terminate()
        self._free.append(connection)
        self._pass_turn()

    def discard(self, connection: Connection) -> None:
        """Close a connection whose state is unknown."""
        self._lent.pop(connection, None)
        connection.terminate()
        self._pass_turn()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection for several statements; any error between them closes it."""
        connection = await self.acquire()
        try:
            yield connection
        except BaseException:
            self.discard(connection)
            raise
        self.release(connection)

    async def close(self) -> None:
        """End the sessions of all free connections, and cut off those that are lent."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        free, self._free = self._free, []
        for connection in [*self._lent]:
            connection.terminate()
        await asyncio.gather(*(connection.close(timeout=CLOSE_LIMIT) for connection in free), return_exceptions=True)

    def abandon(self) -> None:
        """Shut the sockets down after the event loop has gone: the server ends the sessions, which the driver cannot close any more."""
        for link in (*self._free, *self._lent):
            with suppress(OSError):
                copy = socket.socket(fileno=os.dup(file_of(link)))
                with copy, suppress(OSError):
                    copy.shutdown(socket.SHUT_RDWR)
            with suppress(RuntimeError):  # from the closed event loop; after this call the driver logs no warning
                link.terminate()

    def forget_in_child(self) -> None:
        """Close the copies in a forked child: open ones would keep the parent's sessions and their locks alive after its end."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for link in (*self._free, *self._lent):
            with suppress(OSError):
                os.dup2(nothing, file_of(link), inheritable=False)
        os.close(nothing)

    def _lend(self, connection: Connection, until: float) -> Connection:
        self._lent[connection] = until
        if until < (float("inf") if self._alarm is None else self._alarm.when()):
            self._set_alarm(until)
        return connection

    async def _wait_for_turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(TURN_LIMIT):
                await turn
        except BaseException as error:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self._pass_turn()  # the turn came in the same moment
            if isinstance(error, TimeoutError):
                raise StoreUnavailable(f"all {self._most} connections were busy for {TURN_LIMIT:g} s") from None
            raise

    def _pass_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn.set_result(None)
        self._left += 1
        return None

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(when, self._cut_off)

    def _cut_off(self) -> None:
        self._alarm, now = None, asyncio.get_running_loop().time() + EARLY
        for connection in [each for each, until in self._lent.items() if until <= now]:
            connection.terminate()
        if later := [until for until in self._lent.values() if now < until < float("inf")]:
            self._set_alarm(min(later))

    async def _open(self) -> Connection:
        """Open one connection at a time; its failure is raised in all callers that waited, so a returning server meets no herd."""
        known = self._failures
        async with self._connecting:
            if self._failure is not None and self._failures != known:
                raise self._failure
            try:
                connection = await self._connect()
            except HoldfastError as error:
                self._failure, self._failures = error, self._failures + 1
                raise
            self._failure = None
            return connection


def file_of(link: Connection) -> int:
    """Return the number of a connection's socket, -1 if the driver does not report it; ``OSError`` once it is closed."""
    if link._transport is None:  # type: ignore[attr-defined] # asyncpg has no public access to it
        raise OSError("closed")
    found = link._transport.get_extra_info("socket")  # type: ignore[attr-defined]
    return -1 if found is None else int(found.fileno())

"""The connections of one event loop.

The driver's own pool starts a task for each connection that is given back and asks the server to reset it; nothing we do
needs that, and on the way of a single enqueue it costs more than the statement.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from asyncpg import Connection as Connection

from holdfast.errors import HoldfastError, StoreUnavailable

TURN_LIMIT = 20.0
CLOSE_LIMIT = 1.0
EARLY = 0.01
"""Seconds: by so much at most an alarm may come before its time."""


class Pool:
    """At most so many; those given back last are lent first, so that no more are open than were ever used at once."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], most: int) -> None:
        self._connect = connect
        self._most = self._left = most
        self._waiting: deque[asyncio.Future[None]] = deque()  # while nothing is left
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._failure: HoldfastError | None = None
        self._free: list[Connection] = []
        self._lent: dict[Connection, float] = {}  # until when
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take_free(self, until: float) -> Connection | None:
        """One that is open and that nobody uses, if there is one; it is cut off then, by the loop's clock, if it is not back.

        One alarm for all: a time limit for each statement would cost as much as all else that is done for one here.
        """
        if not self._left or not self._free or (connection := self._free.pop()).is_closed():
            return None
        self._left -= 1
        return self._lend(connection, until)

    async def acquire(self, until: float = float("inf")) -> Connection:
        """A connection that is open as far as is known; to be given back or dropped."""
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
        """It can be used again."""
        self._lent.pop(connection, None)
        if self._is_closed:
            connection.terminate()
        self._free.append(connection)
        self._pass_turn()

    def discard(self, connection: Connection) -> None:
        """Nobody knows what it is in the middle of."""
        self._lent.pop(connection, None)
        connection.terminate()
        self._pass_turn()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """For several statements; whatever goes wrong between them ends the connection."""
        connection = await self.acquire()
        try:
            yield connection
        except BaseException:
            self.discard(connection)
            raise
        self.release(connection)

    async def close(self) -> None:
        """Say good-bye to the server; those that are lent are cut off."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        free, self._free = self._free, []
        for connection in [*self._lent]:
            connection.terminate()
        await asyncio.gather(*(connection.close(timeout=CLOSE_LIMIT) for connection in free), return_exceptions=True)

    def abandon(self) -> None:
        """The event loop is gone: tell the server so, because nobody can close these any more."""
        for link in (*self._free, *self._lent):
            with suppress(OSError):
                copy = socket.socket(fileno=os.dup(file_of(link)))
                with copy, suppress(OSError):
                    copy.shutdown(socket.SHUT_RDWR)
            with suppress(RuntimeError):  # of the event loop that is gone; the driver knows now, and does not complain
                link.terminate()

    def forget_in_child(self) -> None:
        """In a forked child: a copy that stays open would keep the parent's sessions and their locks alive after its end."""
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
                self._pass_turn()  # it came in the same moment
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
        """One at a time, and its failure is everybody's who waited for it: a server that comes back meets no herd."""
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
    """Its socket's number, -1 where the driver does not say; ``OSError`` once it is closed."""
    if link._transport is None:  # type: ignore[attr-defined] # there is no other way to it
        raise OSError("closed")
    found = link._transport.get_extra_info("socket")  # type: ignore[attr-defined]
    return -1 if found is None else int(found.fileno())

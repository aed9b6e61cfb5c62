"""The connections of one event loop.

The driver's own pool starts a task for each connection that is given back and asks the server to reset it; nothing we do
needs that, and on the way of a single enqueue it costs more than the statement.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from asyncpg import Connection

from holdfast.errors import HoldfastError, StoreUnavailable

TURN_LIMIT = 20.0
CLOSE_LIMIT = 1.0

Link = Connection  # what is lent


class Pool:
    """At most so many; those given back last are lent first, so that no more are open than were ever used at once."""

    def __init__(self, connect: Callable[[], Awaitable[Link]], most: int) -> None:
        self._connect = connect
        self._most = most
        self._turns = asyncio.Semaphore(most)
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._failure: HoldfastError | None = None
        self._free: list[Link] = []
        self._lent: set[Link] = set()
        self._is_closed = False

    async def take(self) -> Link:
        """A connection that is open as far as is known; to be given back or dropped."""
        if self._turns.locked():
            await self._wait_for_turn()
        else:
            await self._turns.acquire()
        try:
            while self._free:
                connection = self._free.pop()
                if not connection.is_closed():
                    break
            else:
                connection = await self._open()
            self._lent.add(connection)
            return connection
        except BaseException:
            self._turns.release()
            raise

    def give(self, connection: Link) -> None:
        """It can be used again."""
        self._lent.discard(connection)
        if self._is_closed:
            connection.terminate()
        self._free.append(connection)
        self._turns.release()

    def drop(self, connection: Link) -> None:
        """Nobody knows what it is in the middle of."""
        self._lent.discard(connection)
        connection.terminate()
        self._turns.release()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Link]:
        """For several statements; whatever goes wrong between them ends the connection."""
        connection = await self.take()
        try:
            yield connection
        except BaseException:
            self.drop(connection)
            raise
        self.give(connection)

    async def close(self) -> None:
        """Say good-bye to the server; those that are lent are cut off."""
        self._is_closed = True
        free, self._free = self._free, []
        for connection in [*self._lent]:
            connection.terminate()
        await asyncio.gather(*(connection.close(timeout=CLOSE_LIMIT) for connection in free), return_exceptions=True)

    def abandon(self) -> None:
        """The event loop is gone: tell the server so, because nobody can close these any more."""
        for link in (*self._free, *self._lent):
            with suppress(OSError):
                copy = socket.socket(fileno=os.dup(_file_of(link)))
                with copy, suppress(OSError):
                    copy.shutdown(socket.SHUT_RDWR)
            with suppress(RuntimeError):  # of the event loop that is gone; the driver knows now, and does not complain
                link.terminate()

    def disown(self) -> None:
        """In a forked child: a copy that stays open would keep the parent's sessions and their locks alive after its end."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for link in (*self._free, *self._lent):
            with suppress(OSError):
                os.dup2(nothing, _file_of(link), inheritable=False)
        os.close(nothing)

    async def _wait_for_turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_LIMIT):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreUnavailable(f"all {self._most} connections were busy for {TURN_LIMIT:g} s") from None

    async def _open(self) -> Link:
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


def _file_of(link: Link) -> int:
    if link._transport is None:  # type: ignore[attr-defined] # there is no other way to it
        raise OSError("closed")
    found = link._transport.get_extra_info("socket")  # type: ignore[attr-defined]
    return -1 if found is None else int(found.fileno())

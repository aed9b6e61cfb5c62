"""Transactions that were given up, and that the server may not know to be over: it would keep their locks for a minute."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakSet

from pymongo.errors import ConnectionFailure


class LeftOpen:
    """Sessions of such transactions. ``kill``: sends a command to the database ``admin``."""

    def __init__(self) -> None:
        self._sessions = list[Mapping[str, Any]]()
        self._given_up = WeakSet[Any]()

    def add(self, session: Any) -> None:
        """Note a session of the driver."""
        self._sessions.append(session.session_id)
        self._given_up.add(session)

    @asynccontextmanager
    async def lend(self, session: Any) -> AsyncIterator[Any]:
        """Return the session to the driver's pool afterwards, unless it was noted: its end would interrupt the next transaction in it."""
        try:
            yield session
        finally:
            if session not in self._given_up:
                await session.end_session()

    @contextmanager
    def lend_now(self, session: Any) -> Iterator[Any]:
        """Do the same in a thread."""
        try:
            yield session
        finally:
            if session not in self._given_up:
                session.end_session()

    async def end(self, kill: Callable[[dict[str, Any]], Awaitable[object]]) -> None:
        """End the transactions, if there are some; they stay noted if the server does not answer."""
        if left := self._take():
            try:
                await kill({"killSessions": left})
            except BaseException:
                self._sessions += left
                raise

    def end_now(self, kill: Callable[[dict[str, Any]], object]) -> None:
        """End the transactions from a thread."""
        if left := self._take():
            try:
                kill({"killSessions": left})
            except BaseException:
                self._sessions += left
                raise

    def _take(self) -> list[Mapping[str, Any]]:
        left, self._sessions = self._sessions, []
        return left


def is_cut(error: BaseException) -> bool:
    """Return whether a connection broke, and with it perhaps the abort of a transaction was lost."""
    return isinstance(error, ConnectionFailure) or isinstance(error.__cause__, ConnectionFailure)

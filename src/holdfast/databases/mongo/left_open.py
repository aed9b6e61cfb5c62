"""Transactions that were given up, and that the server may not know to be over: it would keep their locks for a minute."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pymongo.errors import ConnectionFailure


class LeftOpen:
    """Sessions of such transactions. ``kill``: sends a command to the database ``admin``."""

    def __init__(self) -> None:
        self._sessions = list[Mapping[str, Any]]()

    def add(self, session: Mapping[str, Any]) -> None:
        """Note a session. The driver must not use it again: it keeps none whose connection broke."""
        self._sessions.append(session)

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

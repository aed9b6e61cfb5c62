"""The connections of one process to a server that allows each process few: a call keeps one until it is answered.

A beat has a separate one: a process that waits for slow calls must still be able to renew its lease.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.errors import StoreUnavailable
from proof.simulator.loop import VirtualLoop

APART = ("beat", "close")  # on a separate connection; on none


class Connections:
    """The connections of one process. ``most``: how many at one time. ``timeout``: seconds for which a call waits for one."""

    def __init__(self, loop: VirtualLoop, most: int, *, timeout: float) -> None:
        self._loop, self._most, self._timeout = loop, most, timeout
        self._lent = 0
        self._waiting: deque[asyncio.Future[bool]] = deque()

    @asynccontextmanager
    async def lend(self, verb: str) -> AsyncIterator[None]:
        """Lend a connection for one call, in the order in which calls came."""
        if verb in APART:
            yield
            return
        if self._lent < self._most:
            self._lent += 1
        else:
            await self._wait_for_turn(verb)
        try:
            yield
        finally:
            self._pass_turn()

    async def _wait_for_turn(self, verb: str) -> None:
        turn = self._loop.create_future()
        self._waiting.append(turn)
        timer = self._loop.call_later(self._timeout, _answer, turn, False)
        try:
            if not await turn:
                raise StoreUnavailable(f"{verb}: all {self._most} connections were busy for {self._timeout:g} s")
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._pass_turn()  # it came in the same moment
            raise
        finally:
            timer.cancel()

    def _pass_turn(self) -> None:
        while self._waiting:
            if _answer(self._waiting.popleft(), True):
                return
        self._lent -= 1


def _answer(turn: "asyncio.Future[bool]", is_granted: bool) -> bool:
    if turn.done():
        return False
    turn.set_result(is_granted)
    return True

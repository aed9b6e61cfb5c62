"""A store like SQLite: one process writes at a time; others wait, and fail with BUSY after a timeout.

A process that is frozen during a write keeps the lock. The death of a process releases it, and an unfinished write is undone.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from holdfast.errors import StoreUnavailable
from proof.simulator.hosts import SimClock
from proof.simulator.loop import Process, VirtualLoop
from proof.stores.gateways import Ask, Carry, Gateway


class WriteLock:
    """The lock of one file. ``holder``: the process that writes now.

    ``traps``: each is called with the process that acquires the lock, and is removed once it returns true.
    """

    def __init__(self, loop: VirtualLoop, *, timeout: float) -> None:
        self.holder: Process | None = None
        self.traps: list[Callable[[Process], bool]] = []
        self._loop = loop
        self._timeout = timeout
        self._waiting: list[asyncio.Future[None]] = []
        self._on_release: list[Callable[[], object]] = []

    async def acquire(self, verb: str, process: Process) -> None:
        """Wait for the lock, as by trying again at random: waiting processes have no order."""
        until = self._loop.time() + self._timeout
        while self.holder is not None:
            if self._loop.time() >= until:
                raise StoreUnavailable(f"{verb}: the database is locked, another process writes")
            await self._wait(until)
        self.holder = process
        process.on_exit.append(self._die)
        self.traps = [trap for trap in self.traps if not trap(process)]

    def release(self) -> None:
        """Release the lock, so that a waiting process may acquire it."""
        if self.holder is not None and self._die in self.holder.on_exit:
            self.holder.on_exit.remove(self._die)
        self.holder = None
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
        listeners, self._on_release = self._on_release, []
        for listener in listeners:
            listener()

    def once_released(self, listener: Callable[[], object]) -> None:
        """Call the listener when the present write has ended."""
        self._on_release.append(listener)

    def _die(self, how: Exit) -> None:
        del how
        self.release()

    async def _wait(self, until: float) -> None:
        turn = self._loop.create_future()
        self._waiting.append(turn)
        timer = self._loop.call_at(until, _wake, turn)
        try:
            await turn
        finally:
            timer.cancel()


class WriterGateway(Gateway):
    """The gateway of one process. ``longest``: the most seconds for which a write holds the lock."""

    def __init__(
        self,
        store: Store,
        introduce: Callable[[], None],
        write_lock: WriteLock,
        clock: SimClock,
        *,
        process: Process,
        carry: Carry,
        numbers: random.Random,
        longest: float,
    ) -> None:
        super().__init__(store, introduce)
        self._write_lock, self._clock, self._numbers, self._longest = write_lock, clock, numbers, longest
        self._process, self._carry = process, carry

    async def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        """Write as in a thread: neither a busy event loop nor a caller that stops waiting interrupts the write."""
        return await asyncio.shield(self._carry(self._write(verb, ask)))

    async def _write(self, verb: str, ask: Ask) -> Any:
        """Write under the lock; other processes may read the write shortly before the lock is released."""
        before, after = self._numbers.random() ** 3 * self._longest, self._numbers.random() ** 6 * self._longest
        await self._write_lock.acquire(verb, self._process)
        try:
            await self._clock.sleep(before)
            answer = await ask()
            await self._clock.sleep(after)
        finally:
            if self._write_lock.holder is self._process:
                self._write_lock.release()
        return answer


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)

"""A store like SQLite: one process writes at a time, the others wait and are told BUSY.

Whoever is stopped in the midst of a write keeps the lock; the dead let go of it, and what they had not finished never was.
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
from proof.stores.gateways import Ask, Carry, Door


class Pen:
    """There is one for each file. ``holder``: who writes; ``traps``: told of the next one who takes it, until one answers
    that it was meant."""

    def __init__(self, loop: VirtualLoop, *, patience: float) -> None:
        self.holder: Process | None = None
        self.traps: list[Callable[[Process], bool]] = []
        self._loop = loop
        self._patience = patience
        self._waiting: list[asyncio.Future[None]] = []
        self._let_go: list[Callable[[], object]] = []

    async def take(self, verb: str, process: Process) -> None:
        """Wait for it, as whoever asks again and again at random: nobody is next in line."""
        until = self._loop.time() + self._patience
        while self.holder is not None:
            if self._loop.time() >= until:
                raise StoreUnavailable(f"{verb}: the database is locked, another process writes")
            await self._wait(until)
        self.holder = process
        process.on_exit.append(self._die)
        self.traps = [trap for trap in self.traps if not trap(process)]

    def give_back(self) -> None:
        """Somebody else's turn."""
        if self.holder is not None and self._die in self.holder.on_exit:
            self.holder.on_exit.remove(self._die)
        self.holder = None
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
        told, self._let_go = self._let_go, []
        for tell in told:
            tell()

    def once_let_go(self, tell: Callable[[], object]) -> None:
        """When the write that goes on now has ended."""
        self._let_go.append(tell)

    def _die(self, how: Exit) -> None:
        del how
        self.give_back()

    async def _wait(self, until: float) -> None:
        turn = self._loop.create_future()
        self._waiting.append(turn)
        timer = self._loop.call_at(until, _wake, turn)
        try:
            await turn
        finally:
            timer.cancel()


class WriterDoor(Door):
    """Of one process. ``longest``: seconds for which a write holds the lock."""

    def __init__(
        self,
        store: Store,
        introduce: Callable[[], None],
        pen: Pen,
        clock: SimClock,
        *,
        process: Process,
        carry: Carry,
        numbers: random.Random,
        longest: float,
    ) -> None:
        super().__init__(store, introduce)
        self._pen, self._clock, self._numbers, self._longest = pen, clock, numbers, longest
        self._process, self._carry = process, carry

    async def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        """In a thread: an event loop that is busy keeps nobody from writing, and who does not wait any more ends no write."""
        return await asyncio.shield(self._carry(self._write(verb, ask)))

    async def _write(self, verb: str, ask: Ask) -> Any:
        """Under the lock; others may read what was written a little before it is given back."""
        before, after = self._numbers.random() ** 3 * self._longest, self._numbers.random() ** 6 * self._longest
        await self._pen.take(verb, self._process)
        try:
            await self._clock.sleep(before)
            answer = await ask()
            await self._clock.sleep(after)
        finally:
            if self._pen.holder is self._process:
                self._pen.give_back()
        return answer


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)

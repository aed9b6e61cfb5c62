"""Calls, processes and connections of a small world that wait until a condition holds."""

import asyncio
from collections.abc import Callable
from functools import partial
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Token
from proof.search.deviations import Until
from proof.simulator.hosts import SimClock
from proof.simulator.loop import PROCESS, VirtualLoop

LASTING = {Until.NOTHING: 0.0, Until.NEXT: 1e6, Until.TAKEN: 2e6, Until.DONE: 3e6}
"""The numbers that a clock is given instead of seconds."""
UNTIL = {seconds: until for until, seconds in LASTING.items() if seconds}

Owners = dict[UUID, Token]


class _Held(Struct, eq=False):
    until: Until
    whom: str
    owners: Owners
    free: Callable[[], object]

    def first(self, job: UUID, token: Token) -> Token:
        """Return the first owner that the job has had since this is held."""
        return self.owners.setdefault(job, token)


class PendingCalls:
    """Calls and processes that are held. ``longest``: seconds after which all go on. ``owners``: the present owner of each job."""

    def __init__(self, loop: VirtualLoop, owners: Callable[[], Owners], *, longest: float) -> None:
        self._loop, self._owners, self._longest = loop, owners, longest
        self._all: list[_Held] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, until: Until, free: Callable[[], object], *, whom: str = "") -> None:
        """Hold something until a condition holds, then call ``free``. ``whom``: waits for the next call of another process."""
        held = _Held(until, whom, self._owners(), free)
        self._all.append(held)
        self._loop.call_later(self._longest, self._free, held, context=self._loop.outside)

    def look(self, sender: str) -> None:
        """Free what has waited for this: a call of the sender has been applied."""
        owners = self._owners()
        for held in list(self._all):
            is_next = held.until is Until.NEXT and held.whom != sender
            is_taken = held.until is Until.TAKEN and any(held.first(job, token) != token for job, token in owners.items())
            if is_next or is_taken:
                self._free(held)

    def end(self) -> None:
        """Free all that is held."""
        for held in list(self._all):
            self._free(held)

    def _free(self, held: _Held) -> None:
        if held in self._all:
            self._all.remove(held)
            held.free()


class PendingClock(SimClock):
    """A clock with true time; a sleep that asks for a condition instead of seconds is held."""

    def __init__(self, loop: VirtualLoop, holds: PendingCalls) -> None:
        super().__init__(loop)
        self._holds = holds

    async def sleep(self, seconds: float) -> None:
        """Sleep until the condition holds that the number of seconds stands for."""
        until = UNTIL.get(seconds)
        if until is None:
            await super().sleep(seconds)
            return
        waiter, process = self._loop.create_future(), PROCESS.get()
        self._holds.add(until, partial(_wake, waiter), whom="" if process is None else process.title)
        await waiter


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)

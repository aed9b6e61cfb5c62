"""The only place that reads a clock, waits, or draws lots."""

import asyncio
import os
import random
import threading
import time
from typing import Protocol
from uuid import UUID

from holdfast._ports.forks import care_for

DRAWN = 1024
"""Random bytes that are asked of the system at once."""


class Clock(Protocol):
    """Time as the engine sees it; seconds as floats."""

    def monotonic(self) -> float:
        """The kernel's monotonic time: stops in suspend, the same for all processes of one kernel."""
        ...

    def boottime(self) -> float:
        """Monotonic time that runs through suspend, for deadlines against somebody else's clock."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch; for due times and for people, never for ownership."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Chance(Protocol):
    """Randomness as the engine needs it, so that one seed can decide everything."""

    def uuid4(self) -> UUID:
        """128 random bits as a UUID."""
        ...

    def uuid7(self) -> UUID:
        """A UUID that sorts by creation within this process."""
        ...

    def jitter(self) -> float:
        """A number in [-1, 1]."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """``CLOCK_MONOTONIC``."""
        return time.monotonic()

    def boottime(self) -> float:
        """``CLOCK_BOOTTIME`` where the system has it, else the monotonic clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def wall(self) -> float:
        """The system's wall clock."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """``asyncio.sleep``."""
        await asyncio.sleep(seconds)


def blocking_sleep(seconds: float) -> None:
    """Wait in a thread that is not an event loop's, such as a store's own."""
    time.sleep(seconds)


async def loop_sleep(seconds: float) -> None:
    """Wait in an event loop for others to get out of the way, whose time is nobody's to fake."""
    await asyncio.sleep(seconds)


class SystemChance:
    """Randomness of the machine. UUIDv7 (RFC 9562): 48 bits of milliseconds, then a counter kept per process.

    The 74 bits after the time are random for each new millisecond and count up within it, so ids
    made by one process sort by creation even when the wall clock steps back.
    """

    def __init__(self) -> None:
        self.start_afresh()
        care_for(self)

    def hold(self) -> None:
        """Before a fork."""
        self._lock.acquire()

    def release(self) -> None:
        """After it, in the parent."""
        self._lock.release()

    def start_afresh(self) -> None:
        """After it, in the child, which must not count on where its parent does."""
        self._lock = threading.Lock()
        self._millisecond = 0
        self._tail = 0
        self._drawn = b""
        self._jitter = random.Random(os.urandom(8))  # seeded by the system, but asking it costs a system call

    def uuid4(self) -> UUID:
        """128 random bits."""
        with self._lock:
            return UUID(int=self._draw(16))

    def uuid7(self) -> UUID:
        """A UUIDv7, greater than every one made before by this object."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            if now > self._millisecond:
                self._millisecond, self._tail = now, self._draw(10) >> 7
            else:
                self._tail += 1 + self._draw(4)
            return compose_uuid7(self._millisecond, self._tail)

    def jitter(self) -> float:
        """Uniform in [-1, 1]."""
        return self._jitter.uniform(-1.0, 1.0)

    def _draw(self, size: int) -> int:
        """So many random bytes, under the lock; drawn in advance, because a system call costs more than an id."""
        if len(self._drawn) < size:
            self._drawn = os.urandom(DRAWN)
        drawn, self._drawn = self._drawn[:size], self._drawn[size:]
        return int.from_bytes(drawn)


def compose_uuid7(millisecond: int, tail: int) -> UUID:
    """RFC 9562 layout: 48 bits time, version 7, 12 bits, variant 2, 62 bits; ``tail`` fills the 74 free bits."""
    high, low = (tail >> 62) & 0xFFF, tail & (2**62 - 1)
    return UUID(int=(millisecond & (2**48 - 1)) << 80 | 7 << 76 | high << 64 | 2 << 62 | low)

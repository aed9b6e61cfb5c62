"""The machine's clocks and randomness: the only module that reads a clock, waits, or draws random numbers."""

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import accumulate
from uuid import UUID

import msgspec

from holdfast._forks import Forked, Lock, register

FREE_BITS = 74
"""The random bits of a UUIDv7: those after its milliseconds, without version and variant."""
LOW_BITS = 62
"""Those of them that are behind its variant."""
_DECODER = msgspec.msgpack.Decoder(list[UUID])


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Read ``CLOCK_MONOTONIC``, in seconds."""
        return time.monotonic()

    def boottime(self) -> float:
        """Read ``CLOCK_BOOTTIME`` where the system has it, else the monotonic clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def wall(self) -> float:
        """Read the system's wall clock, in seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait with ``asyncio.sleep``, in real time."""
        await asyncio.sleep(seconds)


def blocking_sleep(seconds: float) -> None:
    """Wait in a thread that does not run an event loop, such as a thread of a store."""
    time.sleep(seconds)


async def loop_sleep(seconds: float) -> None:
    """Wait in an event loop until other processes release a lock: real time, which no test replaces."""
    await asyncio.sleep(seconds)


class SystemRandomness(Forked):
    """Randomness of the machine. UUIDv7 (RFC 9562): 48 bits of milliseconds, then a counter kept per process.

    The 74 bits after the time are random for each new millisecond. Within it each id is greater by 48 fresh random bits, so ids
    made by one process sort by creation even when the wall clock steps back. A copy of this object in a restored snapshot of its
    process makes other ids.
    """

    def __init__(self) -> None:
        self.after_fork_in_child()
        register(self)

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Start in the child with fresh randomness: it must not continue its parent's count."""
        self._lock = threading.Lock()
        self._last = 0  # id, as its milliseconds and its free bits
        self._jitter = random.Random(os.urandom(8))  # seeded once: copies of it in two processes harm no promise

    def uuid4(self) -> UUID:
        """Draw 128 random bits."""
        return UUID(int=_draw(16))

    def uuid7(self) -> UUID:
        """Make a UUIDv7, greater than every one made before by this object."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            is_later = now > self._last >> FREE_BITS
            self._last = now << FREE_BITS | _draw(10) >> 7 if is_later else self._last + 1 + _draw(6)
            return _compose(self._last)

    def uuid7s(self, count: int) -> list[UUID]:
        """Make that many, in ascending order, with one draw of randomness: a ninth of the time of as many calls of ``uuid7``."""
        if count < 1:
            return []
        now, words = time.time_ns() // 1_000_000, memoryview(os.urandom(8 * count)).cast("Q")
        steps = [(word >> 16) + 1 for word in words[1:]]
        with self._lock:
            is_later = now > self._last >> FREE_BITS
            first = now << FREE_BITS | _draw(10) >> 7 if is_later else self._last + 1 + (words[0] >> 16)
            self._last = last = first + sum(steps)
        if first >> LOW_BITS == last >> LOW_BITS:  # only the bits behind the variant grow, as plain numbers do
            return _uuids(accumulate(steps, initial=_compose(first).int), count)
        return [_compose(number) for number in accumulate(steps, initial=first)]

    def jitter(self) -> float:
        """Draw a number, uniform in [-1, 1]."""
        return self._jitter.uniform(-1.0, 1.0)


def _draw(size: int) -> int:
    """Ask the system for ``size`` random bytes. None are kept for later ids: a snapshot of this process would copy them."""
    return int.from_bytes(os.urandom(size))


def _compose(number: int) -> UUID:
    return compose_uuid7(number >> FREE_BITS, number & (2**FREE_BITS - 1))


def _uuids(numbers: Iterable[int], count: int) -> list[UUID]:
    """Make UUIDs of numbers. A decoder that makes them of bytes needs a quarter of the time of ``UUID(int=…)``."""
    array = b"\xdd%b%b" % (count.to_bytes(4), b"".join([b"\xc4\x10%b" % number.to_bytes(16) for number in numbers]))
    return _DECODER.decode(array)


def compose_uuid7(millisecond: int, tail: int) -> UUID:
    """Lay out a UUIDv7 as RFC 9562 does: 48 bits time, version 7, 12 bits, variant 2, 62 bits; ``tail`` fills the 74 free bits."""
    high, low = (tail >> 62) & 0xFFF, tail & (2**62 - 1)
    return UUID(int=(millisecond & (2**48 - 1)) << 80 | 7 << 76 | high << 64 | 2 << 62 | low)

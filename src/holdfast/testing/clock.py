"""A clock that moves only when a test moves it, and randomness that a seed decides."""

import asyncio
import random
from collections.abc import Callable
from uuid import UUID

from holdfast._core.durations import Duration, seconds
from holdfast._system.clock import SystemClock, compose_uuid7

_START_OF_WALL = 1_700_000_000.0
_START_OF_MONOTONIC = 1_000.0


class FakeClock:
    """A clock that stands still until ``advance``.

    >>> clock = FakeClock()
    >>> before = clock.monotonic()
    >>> clock.advance(30)
    >>> clock.monotonic() - before
    30.0
    """

    def __init__(self) -> None:
        self._monotonic = self._boottime = _START_OF_MONOTONIC
        self._stepped = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._followers: list[Callable[[float], None]] = []

    def monotonic(self) -> float:
        """Read seconds that stand still in ``suspend``."""
        return self._monotonic

    def boottime(self) -> float:
        """Read seconds that run through ``suspend``."""
        return self._boottime

    def wall(self) -> float:
        """Read seconds since the epoch."""
        return _START_OF_WALL + self._stepped + (self._boottime - _START_OF_MONOTONIC)

    async def sleep(self, seconds: float) -> None:
        """Return once ``advance`` has moved the clock that far."""
        waiter = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._boottime + seconds, waiter))
        await waiter

    def advance(self, seconds: float) -> None:
        """Let time pass for all three clocks, and wake the tasks that slept until then."""
        self._monotonic += seconds
        self.suspend(seconds)

    def suspend(self, seconds: float) -> None:
        """Suspend the machine: the monotonic clock stands still."""
        self._boottime += seconds
        for follower in self._followers:
            follower(seconds)
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._boottime]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._boottime]
        for _, waiter in due:
            if not waiter.done():
                waiter.set_result(None)

    def lead(self, follower: Callable[[float], None]) -> None:
        """Call ``follower`` with all seconds that pass from now on; a server's clock follows so, and not this machine's wall clock."""
        self._followers.append(follower)

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward; negative seconds set it back."""
        self._stepped += seconds


class AdvancedClock(SystemClock):
    """The clock of this machine, plus what a test has added: ``advance`` makes jobs due and leaves everything else running.

    >>> clock = AdvancedClock()
    >>> before = clock.wall()
    >>> clock.advance("1h")
    >>> clock.wall() - before >= 3600
    True
    """

    def __init__(self) -> None:
        self._added = 0.0

    def advance(self, by: Duration) -> None:
        """Let time pass, as seconds or as text such as ``"1h"``."""
        self._added += seconds(by)

    def monotonic(self) -> float:
        """Read ``CLOCK_MONOTONIC`` and what was added, in seconds."""
        return super().monotonic() + self._added

    def boottime(self) -> float:
        """Read ``CLOCK_BOOTTIME`` and what was added, in seconds."""
        return super().boottime() + self._added

    def wall(self) -> float:
        """Read the system's wall clock and what was added, in seconds since the epoch."""
        return super().wall() + self._added


class FakeChance:
    """Randomness of one seed; its UUIDv7 count up, at any time of the clock."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._made = 0

    def uuid4(self) -> UUID:
        """Make 128 random bits."""
        return UUID(int=self._random.getrandbits(128))

    def uuid7(self) -> UUID:
        """Make an id greater than every one made before by this object."""
        self._made += 1
        return compose_uuid7(int(_START_OF_WALL * 1000) + self._made, self._random.getrandbits(74))

    def uuid7s(self, count: int) -> list[UUID]:
        """Make ids one by one."""
        return [self.uuid7() for _ in range(count)]

    def jitter(self) -> float:
        """Draw a number, uniform in [-1, 1]."""
        return self._random.uniform(-1.0, 1.0)

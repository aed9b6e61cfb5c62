"""Time and randomness as the engine sees them."""

from typing import Protocol
from uuid import UUID


class Clock(Protocol):
    """Time as the engine sees it; seconds as floats."""

    def monotonic(self) -> float:
        """Return the kernel's monotonic time: it stops in suspend, and is the same for all processes of one kernel."""
        ...

    def boottime(self) -> float:
        """Return the monotonic time that goes on in suspend: for deadlines of leases that are judged by the clock of another machine."""
        ...

    def wall(self) -> float:
        """Return the seconds since the epoch; for due times and for people, never for ownership."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        ...


class Randomness(Protocol):
    """Randomness as the engine needs it, so that one seed can decide everything."""

    def uuid4(self) -> UUID:
        """Return a random UUID."""
        ...

    def uuid7(self) -> UUID:
        """Return a UUID that sorts by creation within this process."""
        ...

    def uuid7s(self, count: int) -> list[UUID]:
        """Return that many of them, in ascending order."""
        ...

    def jitter(self) -> float:
        """Return a random number in [-1, 1]."""
        ...

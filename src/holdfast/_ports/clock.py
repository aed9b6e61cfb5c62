"""Time and randomness as the engine sees them."""

from typing import Protocol
from uuid import UUID


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


class Randomness(Protocol):
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

"""No hints at all: workers look for jobs every poll interval."""

from collections.abc import Callable, Sequence

from holdfast._ports.transport import Hint


class PollingTransport:
    """Carries nothing, for stores that no cheaper way of waking leads to."""

    deliveries = None

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Nobody is told."""

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Nothing will ever arrive."""

    async def close(self) -> None:
        """There is nothing to leave behind."""

"""No hints at all: workers look for jobs every poll interval."""

from collections.abc import Callable, Sequence

from holdfast._ports.transport import Hint


class PollingTransport:
    """Carries nothing, for stores without a cheap way of waking workers."""

    deliveries = None

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Drop the hints: no worker receives any."""

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Do nothing: no hint will ever arrive."""

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

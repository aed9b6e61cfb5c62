"""How long a draining worker waits for its code to stop and for the store to answer."""

from collections.abc import Callable


class Drain:
    """The grace of one worker, from its supervisor's request to drain."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._by: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the supervisor has asked the worker to end."""
        return self._by is not None

    @property
    def is_over(self) -> bool:
        """Whether the supervisor's grace is over."""
        return self._by is not None and self._now() >= self._by

    def begin(self, grace: float) -> None:
        """Start the grace, because the supervisor has asked the worker to end."""
        self._by = self._now() + grace

    def pause(self) -> float:
        """Return the seconds until the worker checks again, at most 0.05."""
        left = 0.0 if self._by is None else self._by - self._now()
        return min(max(left, 0.005), 0.05) if left > 0 else 0.05

"""Retention: what has been kept long enough is forgotten, in bounded batches, by every supervisor."""

from collections.abc import Callable

from msgspec import structs

from holdfast._core.answers import Pruned
from holdfast._engine.events import EventName, Events
from holdfast._ports.clock import Randomness
from holdfast._ports.store import Operating

INTERVAL = 60.0
BATCH = 1000
PAUSE = 0.05
"""Seconds between two batches: others want to write too."""


class Pruner:
    """Prunes a batch per step; ``step()`` answers when the next one is worth it."""

    def __init__(
        self, store: Operating, *, events: Events, chance: Randomness, is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        self._store, self._events, self._chance, self._is_needed = store, events, chance, is_needed

    async def step(self) -> float:
        """One batch; seconds until the next: soon after a full one, else in about a minute, not all at once."""
        if not self._is_needed():
            return INTERVAL
        pruned = await self._store.prune(BATCH)
        if pruned.total:
            self._events.emit(EventName.STORE_PRUNED, **structs.asdict(pruned))
        return PAUSE if is_full(pruned, BATCH) else INTERVAL * (1.0 + 0.25 * self._chance.jitter())


def is_full(pruned: Pruned, limit: int) -> bool:
    """Whether there may be more to prune."""
    return max(pruned.jobs, pruned.stubs, pruned.receipts, pruned.leases, pruned.attempts) >= limit

"""Pruning: every supervisor deletes records whose retention is over, in bounded batches."""

from collections.abc import Callable

from msgspec import structs

from holdfast._core.answers import Pruned
from holdfast._engine.events import EventName, Events
from holdfast._ports.clock import Randomness
from holdfast._ports.store import Operating

INTERVAL = 60.0
BATCH = 1000
PAUSE = 0.05
"""Seconds between two full batches, so that other writers get their turn."""


class Pruner:
    """The step that prunes one batch and returns when the next batch is worth it."""

    def __init__(
        self, store: Operating, *, events: Events, chance: Randomness, is_needed: Callable[[], bool] = lambda: True
    ) -> None:
        self._store, self._events, self._chance, self._is_needed = store, events, chance, is_needed

    async def step(self) -> float:
        """Prune one batch; return the seconds until the next.

        That is 0.05 after a full batch. Otherwise it is about 60, with jitter so that supervisors do not all prune at once.
        """
        if not self._is_needed():
            return INTERVAL
        pruned = await self._store.prune(BATCH)
        if pruned.total:
            self._events.emit(EventName.STORE_PRUNED, **structs.asdict(pruned))
        return PAUSE if is_full(pruned, BATCH) else INTERVAL * (1.0 + 0.25 * self._chance.jitter())


def is_full(pruned: Pruned, limit: int) -> bool:
    """Return whether there may be more to prune."""
    return any(number >= limit for number in structs.astuple(pruned))

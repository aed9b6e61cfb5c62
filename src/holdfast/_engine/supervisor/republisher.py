"""Jobs that wait although every published message was delivered: no message named them, or its receiver lost it."""

from collections.abc import Callable, Sequence

from holdfast._engine.events import EventName, Events
from holdfast._engine.store_defaults import due
from holdfast._ports.store import Store
from holdfast._ports.transport import Deliveries

MOST = 1_000
"""The most jobs that one pass publishes."""


class Republisher:
    """The step that publishes such jobs again.

    Every supervisor runs it. Their messages about the same wait of a job count as one: many supervisors publish no more than one.
    """

    def __init__(
        self,
        store: Store,
        deliveries: Deliveries,
        *,
        tasks: Callable[[], Sequence[str]],
        queues: Callable[[], Sequence[str] | None],
        interval: float,
        events: Events,
    ) -> None:
        self._store, self._deliveries = store, deliveries
        self._tasks, self._queues = tasks, queues
        self._interval = interval
        self._events = events

    async def step(self) -> float:
        """Publish waiting jobs again if no message is left to deliver; return the seconds until the next pass."""
        tasks, queues = self._tasks(), self._queues()
        if tasks and await self._deliveries.is_drained(queues):
            found = await due(self._store, tasks, MOST, queues=queues, age=self._interval)
            if found:
                await self._deliveries.republish(found)
                self._events.emit(EventName.TRANSPORT_REPUBLISHED, jobs=len(found))
        return self._interval

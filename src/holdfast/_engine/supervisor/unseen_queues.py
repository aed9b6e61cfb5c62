"""Queues that the workers serve although the store and the code know none of that name: each is reported once, when workers start."""

from collections.abc import Callable, Collection

from holdfast._core.queue_names import sentence, unseen
from holdfast._engine.events import EventName, Events
from holdfast._ports.store import Store

INTERVAL = 60.0


class UnseenQueues:
    """The step that looks for them. It reads the store once for the same queues.

    ``served``: the queues that the workers are limited to, ``None`` for all; ``named``: those that their code names.
    """

    def __init__(
        self,
        store: Store,
        *,
        served: Callable[[], Collection[str] | None],
        named: Callable[[], Collection[str]],
        events: Events,
    ) -> None:
        self._store, self._served, self._named, self._events = store, served, named, events
        self._seen = set[str]()

    async def step(self) -> float:
        """Report what is new; return the seconds until the next look."""
        new = [queue for queue in self._served() or () if queue not in self._seen]
        if new:
            known = {queue.name for queue in await self._store.queues(most=0)} | set(self._named())
            self._seen.update(new)
            for queue, nearest in unseen(new, known).items():
                self._events.emit_as(sentence(queue, nearest), EventName.QUEUE_UNSEEN, queue=queue, nearest=nearest)
        return INTERVAL

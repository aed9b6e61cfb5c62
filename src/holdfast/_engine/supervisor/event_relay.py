"""The relay of the supervisor's events to the user's callbacks in its workers: the supervisor itself runs no user code."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast._core.job import Json
from holdfast._engine import messages
from holdfast._engine.events import Event, Events

if TYPE_CHECKING:
    from holdfast._engine.supervisor.worker_handle import WorkerHandle

MOST_KEPT = 1000


class EventRelay:
    """A relay that sends each event to one worker, as soon as one listens.

    An event is kept until then, because the last worker's exit leaves no worker to receive it. Of more than 1,000 events the
    oldest are dropped.
    """

    def __init__(self, events: Events, workers: "Callable[[], Sequence[WorkerHandle]]") -> None:
        self._workers = workers
        self._kept: deque[messages.EventForwarded] = deque(maxlen=MOST_KEPT)
        events.on("*", self._take)

    def deliver(self) -> None:
        """Send the events that were kept, if a worker listens."""
        listener = next((worker for worker in self._workers() if worker.is_listening), None)
        while listener is not None and self._kept:
            listener.send(self._kept.popleft())

    def _take(self, event: Event) -> None:
        fields = {key: value if _is_plain(value) else str(value) for key, value in event.fields.items()}
        self._kept.append(messages.EventForwarded(event.name.value, fields))
        self.deliver()


def _is_plain(value: Json) -> bool:
    return value is None or isinstance(value, bool | int | float)

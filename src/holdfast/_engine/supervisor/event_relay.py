"""The supervisor's events on their way to the user's callbacks, which live in its workers: it runs no user code itself."""

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
    """Tells each event to one worker, as soon as there is one: the event of a death comes when nobody is left to hear it."""

    def __init__(self, events: Events, wards: "Callable[[], Sequence[WorkerHandle]]") -> None:
        self._wards = wards
        self._kept: deque[messages.EventForwarded] = deque(maxlen=MOST_KEPT)
        events.on("*", self._take)

    def deliver(self) -> None:
        """Tell what was kept, if somebody can hear it."""
        listener = next((ward for ward in self._wards() if ward.is_listening), None)
        while listener is not None and self._kept:
            listener.send(self._kept.popleft())

    def _take(self, event: Event) -> None:
        fields = {key: value if _is_plain(value) else str(value) for key, value in event.fields.items()}
        self._kept.append(messages.EventForwarded(event.name.value, fields))
        self.deliver()


def _is_plain(value: Json) -> bool:
    return value is None or isinstance(value, bool | int | float)

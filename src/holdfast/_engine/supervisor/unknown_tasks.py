"""Tasks that no live worker knows although jobs of them wait: they are reported, and their jobs stay as they are."""

from collections.abc import Callable, Collection

from holdfast._engine.events import EventName, Events
from holdfast._engine.store_defaults import waiting_tasks
from holdfast._ports.store import Store

INTERVAL = 60.0
REPORTED_AGAIN_AFTER = 600.0


class UnknownTasks:
    """The step that looks for unknown tasks once a minute.

    A task is reported at the second look, because its worker may just be restarting, and again every ten minutes.
    """

    def __init__(self, store: Store, *, known: Callable[[], Collection[str]], now: Callable[[], float], events: Events) -> None:
        self._store, self._known, self._now, self._events = store, known, now, events
        self._due: dict[str, float] = {}

    async def step(self) -> float:
        """Report unknown tasks that are due for a report; return the seconds until the next look."""
        workers = await self._store.workers()
        known = {task for worker in workers for task in worker.tasks} | set(self._known())
        unknown = [task for task in await waiting_tasks(self._store) if task not in known]
        now = self._now()
        self._due = {task: self._due.get(task, now + INTERVAL) for task in unknown}
        for task in unknown:
            if now >= self._due[task]:
                self._due[task] = now + REPORTED_AGAIN_AFTER
                self._events.emit(EventName.TASK_UNKNOWN, task=task)
        return INTERVAL

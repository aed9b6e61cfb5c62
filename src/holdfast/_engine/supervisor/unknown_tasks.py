"""Tasks whose jobs wait although no live worker knows them: left alone, but said."""

from collections.abc import Callable, Collection

from holdfast._engine.events import EventName, Events
from holdfast._engine.store_defaults import waiting_tasks
from holdfast._ports.store import Store

INTERVAL = 60.0
SAID_AGAIN_AFTER = 600.0


class UnknownTasks:
    """Looks once a minute; a task is reported at the second look, because its worker may be just restarting, and again
    every ten minutes."""

    def __init__(self, store: Store, *, known: Callable[[], Collection[str]], now: Callable[[], float], events: Events) -> None:
        self._store, self._known, self._now, self._events = store, known, now, events
        self._due: dict[str, float] = {}

    async def step(self) -> float:
        """Report what is unknown; seconds until it is worth looking again."""
        workers = await self._store.workers()
        known = {task for worker in workers for task in worker.tasks} | set(self._known())
        unknown = [task for task in await waiting_tasks(self._store) if task not in known]
        now = self._now()
        self._due = {task: self._due.get(task, now + INTERVAL) for task in unknown}
        for task in unknown:
            if now >= self._due[task]:
                self._due[task] = now + SAID_AGAIN_AFTER
                self._events.emit(EventName.TASK_UNKNOWN, task=task)
        return INTERVAL

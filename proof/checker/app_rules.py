"""Workers in users' own processes: no supervisor kills these, so code that cannot be cancelled runs on there, fenced."""

from collections import defaultdict
from uuid import UUID

from proof.checker.history import EMBEDDED, OWN_ROWS, ROWS, Event, JobRow
from proof.checker.verdicts import CheckContext, Seers
from proof.simulator.threads import PROCESSES, THREADED

BLOCKING = ("blocking", "stuck", "booking")
STUBBORN = frozenset((*BLOCKING, "deaf", "numb", *THREADED, *PROCESSES, *OWN_ROWS))
"""Tasks whose code does not end when it is cancelled."""


class Apps:
    """The code to which S8 does not apply. This class checks no property: all others hold for these workers too."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._tasks: defaultdict[UUID | None, str] = defaultdict(str)
        context.runs_on = self._runs_on

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"process.start": self._see_birth, "job": self._see_row, "handler.start": self._see_start}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_birth(self, event: Event) -> None:
        if event.note == EMBEDDED:
            self._context.apps.add(event.process)

    def _see_row(self, event: Event) -> None:
        if isinstance(event.after, JobRow):
            self._tasks[event.job] = event.after.task

    def _see_start(self, event: Event) -> None:
        task = self._tasks[event.job]
        if event.process in self._context.apps and (task in BLOCKING or task.startswith(ROWS)):
            self._context.blocked.add(event.process)

    def _runs_on(self, process: str, job: UUID | None) -> bool:
        is_code = job is not None and process in self._context.apps
        return is_code and (process in self._context.blocked or self._tasks[job] in STUBBORN)

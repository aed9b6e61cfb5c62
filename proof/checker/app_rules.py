"""Workers in users' own processes: nobody kills these, so code that cannot be cancelled runs on there, fenced."""

from collections import defaultdict
from uuid import UUID

from holdfast.testing.history import EMBEDDED, ROWS, Event, JobRow
from proof.checker.verdicts import Ledger, Seers
from proof.simulator.threads import PROCESSES, THREADED

BLOCKING = ("blocking", "stuck")
STUBBORN = frozenset((*BLOCKING, "deaf", "numb", *THREADED, *PROCESSES))
"""Tasks whose code does not end when it is cancelled."""


class Apps:
    """No property of its own: it knows of which code there S8 says nothing. All else holds for these workers too."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks: defaultdict[UUID | None, str] = defaultdict(str)
        ledger.runs_on = self._runs_on

    def seers(self) -> Seers:
        """Which events it looks at."""
        return {"process.start": self._see_birth, "job": self._see_row, "handler.start": self._see_start}

    def finish(self) -> None:
        """Nothing is left to be said."""

    def _see_birth(self, event: Event) -> None:
        if event.note == EMBEDDED:
            self._ledger.apps.add(event.process)

    def _see_row(self, event: Event) -> None:
        if isinstance(event.after, JobRow):
            self._tasks[event.job] = event.after.task

    def _see_start(self, event: Event) -> None:
        task = self._tasks[event.job]
        if event.process in self._ledger.apps and (task in BLOCKING or task.startswith(ROWS)):
            self._ledger.blocked.add(event.process)

    def _runs_on(self, process: str, job: UUID | None) -> bool:
        is_code = job is not None and process in self._ledger.apps
        return is_code and (process in self._ledger.blocked or self._tasks[job] in STUBBORN)

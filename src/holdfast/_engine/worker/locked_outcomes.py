"""Outcomes of jobs whose rows another session has locked: sent again, less and less often, without delaying other outcomes."""

from collections.abc import Callable, Sequence

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._engine.events import EventName, Events
from holdfast._engine.worker.finished_runs import FinishedRun

SHORTEST_PAUSE = 0.005
SAY_FROM = 0.5
"""Seconds of pause from which on a lock is reported to operators: most locks are released sooner."""


class LockedOutcomes:
    """Outcomes that the store answered ``BUSY``. Each has a separate pause, so that one found locked later delays no other."""

    def __init__(self, now: Callable[[], float], longest_pause: float, events: Events) -> None:
        self._now, self._longest_pause, self._events = now, longest_pause, events
        self._waiting: list[tuple[float, FinishedRun]] = []

    @property
    def outcomes(self) -> list[FinishedRun]:
        """All locked outcomes that are still to be settled."""
        return [ended for _, ended in self._waiting]

    def put_off(self, batch: Sequence[FinishedRun], answers: Sequence[Answer]) -> None:
        """Keep the outcomes of a batch whose rows were locked."""
        now, longest = self._now(), 0.0
        for ended, answer in zip(batch, answers, strict=True):
            if answer is Answer.BUSY:
                pause = min(max(2 * ended.pause, SHORTEST_PAUSE), self._longest_pause)
                self._waiting.append((now + pause, structs.replace(ended, pause=pause)))
                longest = max(longest, pause)
        if longest >= min(SAY_FROM, self._longest_pause):
            error = "another session has their rows locked; their outcomes are delivered once it ends its transaction"
            self._events.emit(EventName.STORE_BUSY, operation="exchange", error=error, jobs=len(self._waiting))

    def due(self) -> list[FinishedRun]:
        """Remove and return the outcomes that are due to be sent again."""
        now = self._now()
        outcomes = [ended for until, ended in self._waiting if until <= now]
        self._waiting = [each for each in self._waiting if each[0] > now]
        return outcomes

    def remaining(self) -> float:
        """Return the seconds until an outcome is due; infinity without any."""
        return max(0.0, min((until for until, _ in self._waiting), default=float("inf")) - self._now())

"""Outcomes that the store refuses: each is asked for alone, less and less often, and delays no other outcome and no claim."""

from collections.abc import Callable

from msgspec import structs

from holdfast._core.policy import Backoff
from holdfast._engine.error_text import described
from holdfast._engine.events import EventName, Events
from holdfast._engine.worker.executor import FinishedRun
from holdfast._ports.clock import Randomness

PAUSES = Backoff.exponential("250ms", cap="30s")


class RefusedOutcomes:
    """Refused outcomes of one worker. Their jobs still run in the store, so they keep slots: see ``Exchange.kept``."""

    def __init__(self, now: Callable[[], float], chance: Randomness, events: Events) -> None:
        self._now, self._chance, self._events = now, chance, events
        self._waiting: list[tuple[float, FinishedRun]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def outcomes(self) -> list[FinishedRun]:
        """All that wait."""
        return [ended for _, ended in self._waiting]

    def put_off(self, ended: FinishedRun, error: BaseException) -> None:
        """Keep an outcome that the store has refused alone."""
        pause = PAUSES.delay(ended.refusals, jitter=self._chance.jitter())
        ended = structs.replace(ended, refusals=ended.refusals + 1)
        self._waiting.append((self._now() + pause, ended))
        fields = {"job": ended.claim.job.id, "error": described(error), "failures": ended.refusals}
        self._events.emit(EventName.STORE_REFUSED, operation="exchange", **fields)

    def next_due(self) -> FinishedRun | None:
        """Take one outcome that is to be asked for again now; ``None`` without any."""
        now = self._now()
        place = next((place for place, (until, _) in enumerate(self._waiting) if until <= now), None)
        return None if place is None else self._waiting.pop(place)[1]

    def remaining(self) -> float:
        """Return the seconds until something is due."""
        return max(0.0, min((until for until, _ in self._waiting), default=float("inf")) - self._now())

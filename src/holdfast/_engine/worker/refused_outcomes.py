"""Outcomes that the store refuses: each is sent separately, less and less often, and delays no other outcome and no claim."""

from collections.abc import Callable

from msgspec import structs

from holdfast._core.policy import Backoff
from holdfast._engine.error_text import described
from holdfast._engine.events import EventName, Events
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._ports.clock import Randomness

PAUSES = Backoff.exponential("250ms", cap="30s")


class RefusedOutcomes:
    """The refused outcomes of one worker. In the store their jobs are still running, so they keep slots: see ``kept_of``."""

    def __init__(self, now: Callable[[], float], chance: Randomness, events: Events) -> None:
        self._now, self._chance, self._events = now, chance, events
        self._waiting: list[tuple[float, FinishedRun]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def outcomes(self) -> list[FinishedRun]:
        """All refused outcomes that are still to be settled."""
        return [ended for _, ended in self._waiting]

    def kept_of(self, slots: int) -> int:
        """Return how many slots they keep: at most half of all, or all once twice as many outcomes as slots are refused."""
        refused = len(self._waiting)
        return slots if refused >= 2 * slots else min(refused, slots // 2)

    def put_off(self, ended: FinishedRun, error: BaseException) -> None:
        """Keep an outcome that the store has refused in a write without others."""
        pause = PAUSES.delay(ended.refusals, jitter=self._chance.jitter())
        ended = structs.replace(ended, refusals=ended.refusals + 1)
        self._waiting.append((self._now() + pause, ended))
        fields = {"job": ended.claim.job.id, "error": described(error), "failures": ended.refusals}
        self._events.emit(EventName.STORE_REFUSED, operation="exchange", **fields)

    def next_due(self) -> FinishedRun | None:
        """Remove and return one outcome that is due to be sent again; ``None`` without one."""
        now = self._now()
        place = next((place for place, (until, _) in enumerate(self._waiting) if until <= now), None)
        return None if place is None else self._waiting.pop(place)[1]

    def remaining(self) -> float:
        """Return the seconds until an outcome is due; infinity without any."""
        return max(0.0, min((until for until, _ in self._waiting), default=float("inf")) - self._now())

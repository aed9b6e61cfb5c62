"""Claims that cannot begin yet: the worker keeps them for a while, because a job released at once would come back at once."""

from collections.abc import Callable, Iterator

from holdfast._engine.worker.finished_runs import FinishedRun


class RestingClaims:
    """Releases that wait in the worker: in the store, a released job keeps its position in the queue and is claimed again at once.

    ``most``: the oldest beyond that number are released early, so that a worker that can start no job does not hoard jobs.
    """

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._most, self._now = most, now
        self._waiting: list[tuple[float, FinishedRun]] = []

    def __iter__(self) -> Iterator[FinishedRun]:
        return (ended for _, ended in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ended: FinishedRun) -> None:
        """Keep a claim for its pause."""
        self._waiting.append((self._now() + ended.pause, ended))

    def rested(self, *, is_closed: bool) -> list[FinishedRun]:
        """Remove and return the claims whose pause is over; all of them if the worker claims no more."""
        now, surplus = self._now(), len(self._waiting) - self._most
        are_over = [is_closed or place < surplus or until <= now for place, (until, _) in enumerate(self._waiting)]
        rested = [ended for (_, ended), is_over in zip(self._waiting, are_over, strict=True) if is_over]
        self._waiting = [each for each, is_over in zip(self._waiting, are_over, strict=True) if not is_over]
        return rested

    def left(self) -> float:
        """Return the seconds until the next pause is over; infinity without any."""
        return max(0.0, min((until for until, _ in self._waiting), default=float("inf")) - self._now())

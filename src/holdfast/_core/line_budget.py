"""How many lines a worker logs about attempts: each one until there are too many, then a summary of each 10 s."""

from collections import Counter

from msgspec import Struct

from holdfast._core.job import State

LINES_PER_SECOND = 20
KEPT_FOR_FAILURES = 5
SUMMARY_EVERY = 10.0
MOST_TIMES = 1024


class Summary(Struct, frozen=True):
    """The attempts of some seconds in which not each had a line. ``unlogged``: failures among them that had no line either."""

    seconds: float
    completed: dict[str, int]
    failed: int
    unlogged: int
    median: float | None


class LineBudget:
    """A budget of 20 lines a second. Once it is spent, attempts that completed are only counted, until 10 s were calm.

    Five lines of each second are kept for failures, so that a burst of other jobs hides none.
    """

    def __init__(self) -> None:
        self._second, self._used = float("-inf"), 0
        self._since: float | None = None
        self._forget()

    def takes_line(self, now: float, *, is_failure: bool = False) -> bool:
        """Return whether one more line fits in, and count it."""
        if now - self._second >= 1.0:
            self._second, self._used = now, 0
            if self._since is None:
                self._forget()
        has_line = self._used < (LINES_PER_SECOND if is_failure else LINES_PER_SECOND - KEPT_FOR_FAILURES)
        if not has_line and self._since is None:
            self._since = self._second
        has_line = has_line and (is_failure or self._since is None)
        self._used += has_line
        self._unlogged += is_failure and not has_line
        return has_line

    def count(self, queue: str, to: State, seconds: float | None, *, is_failure: bool) -> None:
        """Count an attempt for the summary that there may be."""
        self._ended += 1
        self._failed += is_failure
        if to is State.COMPLETED:
            self._completed[queue] += 1
        if seconds is not None and self._ended % self._step == 0:
            self._times.append(seconds)
            if len(self._times) > MOST_TIMES:
                del self._times[::2]
                self._step *= 2

    def summary(self, now: float, *, is_last: bool = False) -> Summary | None:
        """Return the summary if it is time for one. ``is_last``: the worker ends, so it is."""
        if self._since is None or (now - self._since < SUMMARY_EVERY and not is_last):
            return None
        times, seconds = sorted(self._times), now - self._since
        median = times[len(times) // 2] if times else None
        made = Summary(seconds, dict(self._completed), self._failed, self._unlogged, median) if self._ended else None
        self._since = now if self._ended > LINES_PER_SECOND * SUMMARY_EVERY else None
        self._forget()
        return made

    def _forget(self) -> None:
        self._completed, self._failed, self._unlogged = Counter[str](), 0, 0
        self._times, self._step, self._ended = list[float](), 1, 0

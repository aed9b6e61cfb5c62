"""The pauses between the writes of one process, so that others on the same bucket get their turn.

A process that has just written knows the newest ETag, and would win again: if only the losers paused, they would starve.
"""

from collections.abc import Sequence

from holdfast._core.write_budget import WriteBudget
from holdfast._ports.bucket import BucketProblem, BucketUnavailable
from holdfast._ports.clock import Clock, Randomness

_MEMORY = 60.0
"""The seconds for which a process remembers that another one has written."""
_COMPANY = 0.05
"""The part of the time of a commit for which those just answered are waited for, and again while some of them come."""
_THROTTLED = 1.0
_FAILED = 0.1


class Pauses:
    """How long to wait, in seconds. ``interval``: the least seconds between two writes. ``budgets``: how many the user allows."""

    def __init__(self, clock: Clock, chance: Randomness, interval: float, budgets: Sequence[WriteBudget] = ()) -> None:
        self._clock, self._chance, self.interval, self._budgets = clock, chance, interval, budgets
        self._average = 0.0
        self.wrote_at = self._others_at = float("-inf")
        self._failures = 0
        self._failing_since: float | None = None

    def wrote(self, seconds: float) -> None:
        """Note how long a commit took."""
        self._average = seconds if not self._average else 0.8 * self._average + 0.2 * seconds
        self.wrote_at = self._clock.monotonic()

    @property
    def is_failing(self) -> bool:
        """Whether the last call had no answer."""
        return self._failing_since is not None

    def answered(self) -> float:
        """Note an answer of the bucket; return for how many seconds calls before it had none."""
        outage = 0.0 if self._failing_since is None else self._clock.monotonic() - self._failing_since
        self._failures, self._failing_since = 0, None
        return outage

    def saw_others(self) -> None:
        """Note that another process has written."""
        self._others_at = self._clock.monotonic()

    def forget_others(self) -> None:
        """Note that no other process will write."""
        self._others_at = float("-inf")

    def before_write(self) -> float:
        """Return the rest of the interval, or until the budgets allow a write, which is sent then."""
        now = self._clock.monotonic()
        return max(0.0, self.wrote_at + self.interval - now, *(each.take(now) for each in self._budgets))

    def for_others(self) -> float:
        """Return the pause after a commit of this process, so that others can write; 0 if no other does."""
        if self._clock.monotonic() - self._others_at >= _MEMORY:
            return 0.0
        return (2.0 + self._chance.jitter()) * self._average

    def for_company(self) -> float:
        """Return the pause in which some of those just answered come again, to share the next commit."""
        return _COMPANY * self._average

    def after_failure(self, error: BucketUnavailable) -> float:
        """Return the pause after a write or read that did not succeed. Those that lost a race hardly wait: the winner does."""
        if error.problem is BucketProblem.CONDITION:
            return 0.15 * (1.0 + self._chance.jitter()) * self._average
        self._failures += 1
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        if error.problem is BucketProblem.THROTTLED:
            return max(self.interval, _THROTTLED)
        return _FAILED * min(self._failures, 10)

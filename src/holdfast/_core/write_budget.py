"""How many writes of a bucket the user allows in a time. What is beyond is delayed, and never refused."""

from typing import Final

MINUTE: Final = 60.0
DAY: Final = 86_400.0
SHARE_AT_ONCE: Final = {MINUTE: 1 / 6, DAY: 1 / 24}
"""The part of the writes that may come at once: ten seconds' worth of a minute, an hour's worth of a day. A day's worth at once would leave
nothing for the beats of its last hours."""
LEAST: Final = 2


def at_once(most: int, seconds: float) -> float:
    """Return how many writes may come at once.

    >>> at_once(600, MINUTE)
    100.0
    """
    return max(1.0, most * SHARE_AT_ONCE[seconds])


def apart(most: int, seconds: float) -> float:
    """Return how many seconds are between two writes in the long run, so that no window of ``seconds`` has more than ``most``.

    >>> apart(600, MINUTE)
    0.12
    """
    return seconds / (most - at_once(most, seconds))


class WriteBudget:
    """At most ``most`` writes in any ``seconds``, which are a minute or a day. A generic cell rate algorithm (ITU-T I.371)."""

    def __init__(self, most: int, seconds: float) -> None:
        self._apart = apart(most, seconds)
        self._ahead = (at_once(most, seconds) - 1.0) * self._apart
        self._due_at = float("-inf")  # when the next write would be sent if all were evenly apart

    def take(self, now: float) -> float:
        """Return after how many seconds the next write may be sent; it counts as sent then."""
        sent_at = max(now, self._due_at - self._ahead)
        self._due_at = max(self._due_at, sent_at) + self._apart
        return sent_at - now

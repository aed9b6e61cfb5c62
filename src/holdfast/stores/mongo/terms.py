"""Which clock judges a lease. An election changes the clock of the server, perhaps by hours.

A lease that was beaten under the primary of this term is judged by the server's time. Any other is judged by watching it: it is overdue
once this process has seen it unchanged for its ttl, on its own clock. So no lease is judged by a clock that did not write it.
"""

from collections.abc import Mapping
from uuid import UUID

from holdfast._core.book.moment import Moment, micros
from holdfast._ports.clock import Clock

SETTLING = 60.0
"""Seconds after an election in which no limit of a job is judged: its stamps may be those of another clock."""
_MOST = 100_000


class MomentInTerm(Moment, frozen=True):
    """The moment of a verb. ``terms``: in which each lease was beaten last, as far as it was read."""

    known: "Terms"
    terms: Mapping[UUID, int]

    def elapsed(self, what: UUID, since: int) -> int:
        if what not in self.terms:
            return 0 if self.known.is_settling else self.stamp - since
        return self.stamp - since if self.known.is_current(self.terms[what]) else self.known.watched(what, since)


class Terms:
    """What a store object knows of the terms of primaries, and since when it has seen leases of other terms unchanged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._term, self._changed_at = -1, float("-inf")
        self._seen = dict[tuple[UUID, int], int]()

    def learn(self, term: int) -> None:
        """Note the term that a reply has shown; a later one than known means that there was an election."""
        if term > self._term:
            if self._term >= 0:
                self._changed_at = self._clock.boottime()
            self._term = term
            self._seen.clear()

    def is_current(self, term: int) -> bool:
        """Return whether a lease of this term was beaten under the primary of today."""
        return term == self._term >= 0

    @property
    def is_settling(self) -> bool:
        """Whether an election was so recent that stamps of jobs may be those of another clock."""
        return self._clock.boottime() - self._changed_at < SETTLING

    def watched(self, lease: UUID, since: int) -> int:
        """Return the microseconds since this beat of a lease was first seen, which may be now."""
        now = micros(self._clock.boottime())
        if len(self._seen) >= _MOST:
            self._seen.clear()
        return now - self._seen.setdefault((lease, since), now)

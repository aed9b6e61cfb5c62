"""The time at which a verb of a book is called."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct


class Moment(Struct, frozen=True, gc=False):
    """The time at which a verb is called, on two clocks.

    ``wall`` decides which jobs are due and which may be pruned. ``stamp`` decides which leases and jobs are overdue: the book
    records it when a lease is renewed, and when a job starts or makes progress. It counts the microseconds of a monotonic clock that
    all callers share: a step of the wall clock must not make a job overdue. A store whose callers share no such clock subclasses
    ``Moment`` and overrides ``elapsed``.
    """

    wall: datetime
    stamp: int

    def elapsed(self, what: UUID, since: int) -> int:
        """Return how many microseconds ago this lease or job got the stamp ``since``, as far as the caller knows."""
        del what  # only a caller without a shared clock must remember when it first saw the stamp
        return self.stamp - since

    def heard(self, lease: UUID) -> str:
        """Return a string that changes with every beat of the lease that is not in the book."""
        del lease  # all beats are in the book, unless a leader keeps them in memory
        return ""


def micros(seconds: float) -> int:
    """Return seconds as an integer number of microseconds."""
    return round(seconds * 1e6)

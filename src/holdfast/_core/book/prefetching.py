"""The verbs of a book for jobs that are claimed ahead: start many of them in one write, or take away the right to start them."""

from uuid import UUID

from msgspec import structs

from holdfast._core.book.moment import Moment
from holdfast._core.book.state import BookState
from holdfast._core.job import State
from holdfast._core.record import JobRecord, begun


class BookPrefetching(BookState):
    """The verbs of ``Prefetching``; each keeps the promise of the verb of this name in ``_ports/store``."""

    def start_through(self, now: Moment, lease: UUID, number: int, voids: int) -> bool:
        del now
        known = self._all.leases.get(lease)
        if known is None or known.end is not None or known.voids != voids:
            return False
        self._all.leases[lease] = structs.replace(known, started=max(known.started, number))
        for row in self._held(lease):
            if row.state is State.CLAIMED and row.token.number <= number:
                self._put(begun(row))
        return True

    def void(self, now: Moment, lease: UUID, voids: int) -> int | None:
        del now
        known = self._all.leases.get(lease)
        if known is None or known.end is not None:
            return None
        self._all.leases[lease] = structs.replace(known, voids=max(known.voids, voids))
        return known.started

    def _is_voided(self, row: JobRecord, voids: int) -> bool:
        """Return whether a job may be taken from its live lease: it has not started, and can no longer be started."""
        known = None if row.lease is None else self._all.leases.get(row.lease)
        return known is not None and known.voids == voids > 0 and row.state is State.CLAIMED and row.token.number > known.started

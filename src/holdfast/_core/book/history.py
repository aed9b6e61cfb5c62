"""The verbs of a book for the history: what each worker did in each minute."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from holdfast._core.book.moment import Moment
from holdfast._core.book.state import BookState
from holdfast._core.history import HISTORY_RETENTION, MOST_DELETED, Minute, MinuteNote


class BookHistory(BookState):
    """The verbs of ``History``; each keeps the promise of the verb of this name in ``_ports/history``."""

    def record_minutes(self, now: Moment, notes: Sequence[MinuteNote]) -> None:
        rows = self._all.minutes
        for note in notes:
            if note.id not in rows:
                rows[note.id] = Minute(now.wall, note)
        end = now.wall - timedelta(seconds=HISTORY_RETENTION)
        for _, old in [*islice(self._all.recorded.until(end), MOST_DELETED)]:
            del rows[old]

    def minutes(self, now: Moment, since: datetime, until: datetime, limit: int) -> tuple[Minute, ...]:
        del now
        found = [self._all.minutes[note] for _, note in self._all.recorded.between(since, until)]
        return tuple(reversed(found))[:limit]

"""The optional part of the store port that remembers what each worker did in each minute of the last day."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast._core.history import Minute, MinuteNote


class History(Protocol):
    """The verbs of the history. No verb about jobs or leases reads or writes it."""

    async def record_minutes(self, notes: Sequence[MinuteNote]) -> None:
        """Add a row for each note, at the time of the store's clock, and delete rows that are older than ``HISTORY_RETENTION``.

        A copy of the call adds nothing. One call deletes a bounded number of rows.
        """
        ...

    async def minutes(self, since: datetime, until: datetime, limit: int) -> tuple[Minute, ...]:
        """Return the rows that were added after ``since``, and not after ``until``: the newest ones, newest first."""
        ...

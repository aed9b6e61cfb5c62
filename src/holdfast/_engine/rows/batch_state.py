"""The state of one batch: which rows it has, which of them are finished, and what became of the others."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from holdfast._core.table_spec import Key, RowOutcome, TableSpec
from holdfast._ports.table import ClaimedRows

MOST_SHOWN = 20
"""Keys that an event or error shows."""


class BatchState:
    """The rows of one claim. ``since``: when they were last stamped, on the worker's clock, or a little before.

    ``is_unsure``: a move's answer was lost, so that this move may have finished rows that are no longer under the fence.
    """

    def __init__(self, watch: TableSpec, claimed: ClaimedRows, since: float) -> None:
        self.watch, self.fence, self.rows, self.keys = watch, claimed.fence, list(claimed.rows), claimed.keys
        self._open: dict[Key, None] | None = None  # nothing is finished yet: most batches are finished whole
        self._shown: list[Any] | None = None
        self._gone = set[Key]()
        self.is_closed = False
        self.moved = dict.fromkeys(RowOutcome, 0)
        self.lost = 0
        self.is_unsure = False
        self.longest = 0.0
        self._since = since

    @property
    def open(self) -> Collection[Key]:
        """Keys of rows that are not finished yet."""
        return self.keys if self._open is None else self._open

    def shown(self, keys: Collection[Key]) -> list[Any]:
        """Return keys as handlers write them: plain values where one column is the key."""
        return self._all_shown().copy() if len(keys) == len(self.keys) else self._plain(keys)

    def take(self, keys: Iterable[object]) -> tuple[Sequence[Key], Sequence[Key]]:
        """Return the keys that are not finished yet, once each, and those that other owners have.

        ``ValueError`` for keys that this batch never had."""
        if isinstance(keys, str | bytes):
            raise ValueError(f"{keys!r}: pass a list of keys, such as batch.keys")
        listed = list(keys)
        if self._open is None and listed == self._all_shown():
            return self.keys, ()
        if len(self.watch.key) == 1:
            given: list[Key] = [(key,) for key in listed]
        else:
            given = [tuple(key) if isinstance(key, list | tuple) else (key,) for key in listed]
        wanted = dict.fromkeys(given)
        still = self._opened()
        found = [key for key in wanted if key in still]
        if len(found) < len(wanted):
            known = frozenset(self.keys)
            if unknown := [key for key in wanted if key not in known]:
                raise ValueError(f"not in this batch: {format_keys(unknown)}; its rows are batch.rows, their keys batch.keys")
        return found, [key for key in wanted if key in self._gone] if self._gone else ()

    def is_whole_batch(self, keys: Sequence[Key]) -> bool:
        """Return whether these keys are all rows that can be under the fence.

        Only the whole batch is: a finished row may still be under the fence, where a transaction was rolled back."""
        return 0 < len(keys) == len(self.keys) and not self.is_unsure

    def settle(self, moved: Sequence[Key], end: RowOutcome) -> None:
        """Record that these rows have moved to that outcome."""
        self._remove(moved)
        self.moved[end] += len(moved)
        if end is RowOutcome.RETRY:
            self._gone.update(moved)

    def lose(self, lost: Sequence[Key]) -> None:
        """Record that these rows were no longer under the fence."""
        self._remove(lost)
        self._gone.update(lost)
        self.lost += len(lost)

    def close(self) -> None:
        """Close the batch: its rows are released, or belong to another batch, and code that its handler left running finishes none."""
        self._gone.update(self.open)
        self._open = {}
        self.is_closed = True

    def measure(self, now: float, since: float | None = None) -> None:
        """Record how long this worker has had the rows under one stamp; ``since``: when they got another stamp."""
        self.longest = max(self.longest, now - self._since)
        self._since = self._since if since is None else since

    @property
    def finished(self) -> int:
        """The number of rows that are done or failed for good."""
        return self.moved[RowOutcome.DONE] + self.moved[RowOutcome.FAIL]

    def _all_shown(self) -> list[Any]:
        if self._shown is None:
            self._shown = self._plain(self.keys)
        return self._shown

    def _opened(self) -> dict[Key, None]:
        if self._open is None:
            self._open = dict.fromkeys(self.keys)
        return self._open

    def _remove(self, keys: Collection[Key]) -> None:
        if len(keys) == len(self.keys):
            self._open = {}
            return
        still = self._opened()
        for key in keys:
            still.pop(key, None)

    def _plain(self, keys: Iterable[Key]) -> list[Any]:
        return [key for (key,) in keys] if len(self.watch.key) == 1 else list(keys)


def format_keys(keys: Sequence[Key]) -> str:
    """Format the first ``MOST_SHOWN`` keys for people."""
    shown = ", ".join("/".join(map(str, key)) for key in keys[:MOST_SHOWN])
    return shown if len(keys) <= MOST_SHOWN else f"{shown}, …"

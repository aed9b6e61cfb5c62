"""A batch's account: which rows it has, which of them are finished, and what became of the others."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from holdfast._core.table_spec import Key, RowOutcome, TableSpec
from holdfast._ports.table import ClaimedRows

MOST_SAID = 20
"""Keys in an event."""


class BatchState:
    """Of one claim. ``since``: when its rows were last stamped, on the worker's clock, or a little before.

    ``is_unsure``: a move's answer was lost, so that rows that are not under the mark any more may well have been moved by it.
    """

    def __init__(self, watch: TableSpec, claimed: ClaimedRows, since: float) -> None:
        self.watch, self.mark, self.rows, self.keys = watch, claimed.fence, list(claimed.rows), claimed.keys
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
        """Keys as their users write them: plain values where one column is the key."""
        return self._all_shown().copy() if len(keys) == len(self.keys) else self._plain(keys)

    def take(self, keys: Iterable[object]) -> tuple[Sequence[Key], Sequence[Key]]:
        """Those that are not finished yet, once each, and those that are somebody else's; ``ValueError`` for what this batch never
        had."""
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
            if strangers := [key for key in wanted if key not in known]:
                raise ValueError(f"not in this batch: {format_keys(strangers)}; its rows are batch.rows, their keys batch.keys")
        return found, [key for key in wanted if key in self._gone] if self._gone else ()

    def is_whole_batch(self, keys: Sequence[Key]) -> bool:
        """Whether no row but these, each one of the batch, can be under the mark: also one that was said to be finished may still
        be, where a transaction took that back."""
        return 0 < len(keys) == len(self.keys) and not self.is_unsure

    def settle(self, moved: Sequence[Key], end: RowOutcome) -> None:
        """These have moved."""
        self._take_out(moved)
        self.moved[end] += len(moved)
        if end is RowOutcome.RETRY:
            self._gone.update(moved)

    def lose(self, lost: Sequence[Key]) -> None:
        """These were not under the mark any more."""
        self._take_out(lost)
        self._gone.update(lost)
        self.lost += len(lost)

    def close(self) -> None:
        """Its rows are nobody's any more, or those of another batch: whatever its handler has left running finishes none of them."""
        self._gone.update(self.open)
        self._open = {}
        self.is_closed = True

    def measure(self, now: float, since: float | None = None) -> None:
        """How long its rows have been with us under one stamp; ``since``: they have another one since then."""
        self.longest = max(self.longest, now - self._since)
        self._since = self._since if since is None else since

    @property
    def finished(self) -> int:
        """Rows that need not come back."""
        return self.moved[RowOutcome.DONE] + self.moved[RowOutcome.FAIL]

    def _all_shown(self) -> list[Any]:
        if self._shown is None:
            self._shown = self._plain(self.keys)
        return self._shown

    def _opened(self) -> dict[Key, None]:
        if self._open is None:
            self._open = dict.fromkeys(self.keys)
        return self._open

    def _take_out(self, keys: Collection[Key]) -> None:
        if len(keys) == len(self.keys):
            self._open = {}
            return
        still = self._opened()
        for key in keys:
            still.pop(key, None)

    def _plain(self, keys: Iterable[Key]) -> list[Any]:
        return [key for (key,) in keys] if len(self.watch.key) == 1 else list(keys)


def format_keys(keys: Sequence[Key]) -> str:
    """The first of them, for people."""
    shown = ", ".join("/".join(map(str, key)) for key in keys[:MOST_SAID])
    return shown if len(keys) <= MOST_SAID else f"{shown}, …"

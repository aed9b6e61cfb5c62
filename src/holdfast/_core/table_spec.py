"""What is watched over in a table that is not ours: which columns say what, and what each of their values means.

Names are of any spelling and quoted wherever they are used; values of the status are quoted literals, because no partial index
serves a parameter. ``where`` and ``order_by`` are the developer's own SQL.
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from math import isqrt
from typing import Any, Self

from msgspec import Struct

from holdfast._core.durations import Duration, seconds

LAST = 2
"""Deaths and errors after which a run claims one row at a time."""
MAX_BATCH = 10_000
"""Rows that one batch may have: all of them are locked while they are marked, and are one list of keys in each statement."""
STAMPS = ("epoch", "epoch_ms", "iso")
"""Forms of a stamp, besides our own, that a column without a type for times may hold."""
Value = str | int | bool
Key = tuple[Any, ...]
"""One value for each key column, in their order."""


class RowOutcome(StrEnum):
    """What becomes of a row that somebody had."""

    DONE = "done"
    RETRY = "retry"
    FAIL = "fail"


class TableSpec(Struct, frozen=True, kw_only=True):
    """A table, its columns, and what their values mean. Times in seconds.

    ``name``: of the watch, and of its task. ``key``: columns that name a row. ``status``: the column that says what it is;
    ``pending``, ``in_progress``, ``done``, ``failed``: its values. ``claimed_at``: the column of the stamp. ``where``: which
    pending rows are due. ``owner``: a text column for who has it; ``resets``: an integer column that counts how often it was
    taken from somebody; ``reason``: a text column for why it failed. ``deletes``: rows that are done are deleted instead of
    being marked; ``retention``: or that long after it. ``stamps``: in what form a SQLite file holds them, if not in our own.
    """

    name: str
    table: tuple[str, ...]
    key: tuple[str, ...]
    status: str
    pending: Value
    in_progress: Value
    done: Value
    claimed_at: str
    where: str
    order_by: str | None = None
    batch: int = 1000
    stale_after: float = 7200.0
    owner: str | None = None
    resets: str | None = None
    max_resets: int | None = None
    failed: Value | None = None
    reason: str | None = None
    deletes: bool = False
    retention: float | None = None
    columns: tuple[str, ...] | None = None
    stamps: str | None = None

    @classmethod
    def of(
        cls,
        table: str,
        *,
        key: str | tuple[str, ...],
        stale_after: Duration = "2h",
        retention: Duration | None = None,
        name: str | None = None,
        **more: Any,
    ) -> Self:
        """As ``app.rows`` takes it, once ``problems_of_watch`` has nothing to say about it.

        >>> Watch.of("shop.pastes", key="id", status="s", pending="a", in_progress="b", done="c", claimed_at="t", where="true").table
        ('shop', 'pastes')
        """
        return cls(
            name=name or table,
            table=tuple(table.split(".")),
            key=(key,) if isinstance(key, str) else tuple(key),
            stale_after=seconds(stale_after),
            retention=None if retention is None else seconds(retention),
            **more,
        )

    @property
    def named(self) -> dict[str, str]:
        """Columns that the watch itself reads and writes, by what they are for."""
        found = {"status": self.status, "claimed_at": self.claimed_at}
        found |= {f"key[{place}]": column for place, column in enumerate(self.key)}
        optional = {"owner": self.owner, "resets": self.resets, "reason": self.reason}
        return found | {what: column for what, column in optional.items() if column is not None}


def batch_size_after(batch: int, ends: int) -> int:
    """How many rows a run claims after so many deaths of its workers and errors of its handler: fewer each time, so that in the
    end a row that kills or raises is alone with that, and is the only one that pays.

    >>> [rows_at_once(1000, ends) for ends in (0, 1, 2)]
    [1000, 31, 1]
    """
    return (batch, isqrt(batch), 1)[min(ends, LAST)]


def has_resets_left(watch: TableSpec, row: Mapping[str, Any]) -> bool:
    """Return whether a claimed row may be taken back once more; always where no column counts that.

    >>> given = {"key": "id", "status": "s", "pending": 0, "in_progress": 1, "done": 2, "claimed_at": "t", "where": "true"}
    >>> watch = Watch.of("pastes", resets="n", max_resets=2, failed=3, **given)
    >>> [has_resets_left(watch, {"n": number}) for number in (None, 1, 2, "two")]
    [True, True, False, True]
    """
    counted = row.get(watch.resets) if watch.resets else None
    return watch.max_resets is None or not isinstance(counted, int | float | Decimal) or counted < watch.max_resets


class RowsSettings(Struct, frozen=True, kw_only=True):
    """What an App declares about a table, checked; a worker sends it to its supervisor over the pipe.

    ``url``: of its database, with the password. ``interval``: seconds between two looks for claimable rows.
    ``concurrency``: how many runs of its handler are enqueued at once, for all workers together, in ``queue``.
    """

    watch: TableSpec
    url: str
    queue: str = "default"
    concurrency: int = 1
    interval: float = 5.0

    @property
    def task(self) -> str:
        """Return the name of the task whose jobs are runs of the handler."""
        return f"rows.{self.watch.name}"

"""The declaration of a user's table: the meaning of its columns and of the values of its status.

Names may have any spelling and are always quoted. Values of the status are quoted literals, because a partial index cannot serve a
parameter. ``where`` and ``order_by`` are the developer's own SQL.
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from math import isqrt
from typing import Any, Self

from msgspec import Struct

from holdfast._core.durations import Duration, seconds

LAST = 2
"""The number of crashes and errors after which a run claims one row at a time."""
MAX_BATCH = 10_000
"""The most rows of one batch: all of them are locked while they are claimed, and each statement has all their keys in one list."""
STAMPS = ("epoch", "epoch_ms", "iso")
"""The forms of a stamp, besides Holdfast's own, that a column without a type for times may hold."""
Value = str | int | bool
Key = tuple[Any, ...]
"""The key of a row: one value for each key column, in their order."""


class RowOutcome(StrEnum):
    """What happens to a row that a run had claimed."""

    DONE = "done"
    RETRY = "retry"
    FAIL = "fail"


class TableSpec(Struct, frozen=True, kw_only=True):
    """A table, its columns, and the meaning of their values. Times are in seconds.

    ``name``: that of the declaration, and of its task. ``key``: the columns that identify a row. ``status``: the column of the row's
    state; ``pending``, ``in_progress``, ``done``, ``failed``: its values. ``claimed_at``: the column of the stamp. ``where``: the SQL
    condition for pending rows that are due. ``owner``: a string column for the run that has the row. ``resets``: an integer column that
    counts how often the row was taken from a run. ``reason``: a string column for why the row failed. ``deletes``: done rows are
    deleted at once instead of getting the value ``done``; ``retention``: they are deleted that long after it. ``stamps``: the form of
    stamps in a SQLite file, if it is not Holdfast's own.
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
        """Return the declaration for options of ``app.rows`` in which ``problems_of_watch`` finds no problem.

        >>> TableSpec.of("shop.pastes", key="id", status="s", pending="a", in_progress="b", done="c", claimed_at="t", where="true").table
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
        """The columns that Holdfast itself reads and writes, by their purpose."""
        found = {"status": self.status, "claimed_at": self.claimed_at}
        found |= {f"key[{place}]": column for place, column in enumerate(self.key)}
        optional = {"owner": self.owner, "resets": self.resets, "reason": self.reason}
        return found | {what: column for what, column in optional.items() if column is not None}


def batch_size_after(batch: int, ends: int) -> int:
    """Return how many rows a run claims after ``ends`` crashes of its workers and errors of its handler. It is fewer each time, so
    that in the end a row that crashes or raises is the only one in its batch, and the only one that pays.

    >>> [batch_size_after(1000, ends) for ends in (0, 1, 2)]
    [1000, 31, 1]
    """
    return (batch, isqrt(batch), 1)[min(ends, LAST)]


def has_resets_left(watch: TableSpec, row: Mapping[str, Any]) -> bool:
    """Return whether a claimed row may be reset once more; always true if no column counts resets.

    >>> given = {"key": "id", "status": "s", "pending": 0, "in_progress": 1, "done": 2, "claimed_at": "t", "where": "true"}
    >>> spec = TableSpec.of("pastes", resets="n", max_resets=2, failed=3, **given)
    >>> [has_resets_left(spec, {"n": number}) for number in (None, 1, 2, "two")]
    [True, True, False, True]
    """
    counted = row.get(watch.resets) if watch.resets else None
    return watch.max_resets is None or not isinstance(counted, int | float | Decimal) or counted < watch.max_resets


class RowsSettings(Struct, frozen=True, kw_only=True):
    """The checked declaration of a table by an App; a worker sends it to its supervisor over the pipe.

    ``url``: that of its database, with the password. ``interval``: seconds between two searches for claimable rows.
    ``concurrency``: how many runs of its handler are enqueued at once, for all workers together, in ``queue``.
    """

    watch: TableSpec
    url: str
    queue: str = "default"
    concurrency: int = 1
    interval: float = 5.0

    @property
    def task(self) -> str:
        """The name of the task whose jobs are runs of the handler."""
        return f"rows.{self.watch.name}"

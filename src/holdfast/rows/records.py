"""Rows in the form in which handlers get them."""

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]


class Reader:
    """Makes each row of a query a dict of ``columns``, in their order. ``known``: those of which all rows have one value, which
    are not in the rows.

    >>> Reader(("id", "status", "note"), ("status",)).records([("x", 1), ("y", 2)], "BUSY")
    [{'id': 'x', 'status': 'BUSY', 'note': 1}, {'id': 'y', 'status': 'BUSY', 'note': 2}]
    """

    def __init__(self, columns: Sequence[str], known: Sequence[str] = ()) -> None:
        self._columns, self._known = columns, known
        self._read = [name for name in columns if name not in known]

    def records(self, rows: Sequence[Sequence[Any]], *known: Any) -> list[Record]:
        """Return the dicts. They are filled column by column: to zip each row with its names took three times as long."""
        shared = dict.fromkeys(self._columns) | dict(zip(self._known, known, strict=True))
        found = [shared.copy() for _ in rows]
        for place, name in enumerate(self._read):
            for record, row in zip(found, rows, strict=True):
                record[name] = row[place]
        return found


def keys_of(rows: Iterable[Any], places: Iterable[int | str]) -> tuple[tuple[Any, ...], ...]:
    """Take the values at these positions of each row.

    >>> keys_of([("a", 1, 2), ("b", 3, 4)], [0, 2])
    (('a', 2), ('b', 4))
    """
    rows = list(rows)
    return tuple(zip(*([row[place] for row in rows] for place in places), strict=True))

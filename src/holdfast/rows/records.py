"""Rows as their users get them."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Record = dict[str, Any]


@lru_cache(maxsize=100)
def reader_of(columns: tuple[str, ...], known: tuple[str, ...] = (), *, skipped: int = 0) -> Callable[..., list[Record]]:
    """Makes each row of a query a dict of those columns. Called with the rows, and what all of them have in the ``known`` columns,
    which are not in the rows; nor does anybody want the first ``skipped`` of their values.

    It is compiled for the columns, as a namedtuple is: to zip a thousand rows with their names took two and a half times as
    long, a twentieth of the time of a batch. Names stand in it as literals, whatever they are.

    >>> reader_of(("id", "status", "it's \\\\ \\n"), ("status",), skipped=1)([("x", 1, 2)], "BUSY")
    [{'id': 1, 'status': 'BUSY', "it's \\\\ \\n": 2}]
    """
    values = {name: f"{'known' if name in known else 'value'}{place}" for place, name in enumerate(columns)}
    pairs = ", ".join(f"{str.__repr__(name)}: {value}" for name, value in values.items())
    given = "".join(f", {values[name]}" for name in known)
    places = "".join(f"{place}, " for place in (*["_"] * skipped, *(values[name] for name in columns if name not in known)))
    reader: Callable[..., list[Record]] = eval(f"lambda rows{given}: [{{{pairs}}} for {places}in rows]")  # noqa: S307 - see above
    return reader


def keys_of(rows: Iterable[Any], places: Iterable[int | str]) -> tuple[tuple[Any, ...], ...]:
    """The values at these places of each.

    >>> keys_of([("a", 1, 2), ("b", 3, 4)], [0, 2])
    (('a', 2), ('b', 4))
    """
    rows = list(rows)
    return tuple(zip(*([row[place] for row in rows] for place in places), strict=True))

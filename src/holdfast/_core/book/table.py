"""Tables whose every change is noted in a journal and passed on to the indexes that follow from it."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Generic, Protocol, Self, TypeVar

First = TypeVar("First")
Second = TypeVar("Second")
Key = TypeVar("Key")
Row = TypeVar("Row")

Index = Callable[[Any, Any, Any], None]
"""What an index gets of a change: the key, the row before and the row after; ``None``: there was, or is, none."""


class Journaled(Protocol):
    """A table, as the journal and the loader see it."""

    name: str

    def row(self, key: Any) -> Any: ...
    def place(self, key: Any, row: Any) -> None: ...
    def place_all(self, rows: Any) -> None: ...


Change = tuple[Journaled, Any, Any]
"""A table, the key of a changed row, and the row before."""

RowChange = tuple[str, Any, Any]
"""The name of a table, a key, and the row; ``None``: it was deleted."""


class Table(dict[Key, Row]):
    """Rows by their keys. Rows are values: a change replaces one."""

    __slots__ = ("_index", "_journal", "name")

    def __init__(self, name: str, journal: list[Change], index: Index | None = None) -> None:
        super().__init__()
        self.name, self._journal, self._index = name, journal, index

    def __setitem__(self, key: Key, row: Row) -> None:
        old = self.get(key)
        self._journal.append((self, key, old))
        _set(self, key, row)
        if self._index is not None:
            self._index(key, old, row)

    def __delitem__(self, key: Key) -> None:
        old = self[key]
        self._journal.append((self, key, old))
        _delete(self, key)
        if self._index is not None:
            self._index(key, old, None)

    # those of ``dict`` would change rows past the journal
    popitem = MutableMapping.popitem
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update
    clear = MutableMapping.clear

    def pop(self, key: Key, default: Any = None) -> Any:
        row = self.get(key)
        if row is None:
            return default
        del self[key]
        return row

    def __ior__(self, rows: Any) -> Self:  # type: ignore[misc,override]
        self.update(rows)
        return self

    def row(self, key: Key) -> Row | None:
        return self.get(key)

    def place(self, key: Key, row: Row | None) -> None:
        """Write a row, or delete it, without a note in the journal."""
        old = self.get(key)
        if row is not None:
            _set(self, key, row)
        elif old is not None:
            _delete(self, key)
        if self._index is not None:
            self._index(key, old, row)

    def place_all(self, rows: Mapping[Key, Row]) -> None:
        for key, row in rows.items():
            self.place(key, row)


class Grouped(dict[First, dict[Second, Row]], Generic[First, Second, Row]):
    """Rows by two keys. Those with the same first key are read together; only ``put``, ``drop`` and ``place`` change them."""

    __slots__ = ("_index", "_journal", "name")

    def __init__(self, name: str, journal: list[Change], index: Index | None = None) -> None:
        super().__init__()
        self.name, self._journal, self._index = name, journal, index

    def put(self, first: First, second: Second, row: Row) -> None:
        key = (first, second)
        self._journal.append((self, key, self.row(key)))
        self.place(key, row)

    def drop(self, first: First, second: Second) -> None:
        """Delete a row, if there is one."""
        key = (first, second)
        if (old := self.row(key)) is not None:
            self._journal.append((self, key, old))
            self.place(key, None)

    def drop_all(self, first: First) -> None:
        for second in [*self.get(first, ())]:
            self.drop(first, second)

    def row(self, key: tuple[First, Second]) -> Row | None:
        first, second = key
        group = self.get(first)
        return None if group is None else group.get(second)

    def rows(self) -> Iterator[tuple[tuple[First, Second], Row]]:
        return (((first, second), row) for first, group in self.items() for second, row in group.items())

    def place(self, key: tuple[First, Second], row: Row | None) -> None:
        """Write a row, or delete it, without a note in the journal."""
        old, (first, second) = self.row(key), key
        if row is not None:
            self.setdefault(first, {})[second] = row
        elif old is not None:
            del self[first][second]
            if not self[first]:
                del self[first]
        if self._index is not None:
            self._index(key, old, row)

    def place_all(self, rows: Mapping[First, Mapping[Second, Row]]) -> None:
        for first, group in rows.items():
            for second, row in group.items():
                self.place((first, second), row)


_set, _delete = dict.__setitem__, dict.__delitem__

"""Sorted items in short chunks: to take one from the head of a long line moves few others."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, dropwhile, takewhile
from operator import itemgetter
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=Any)

_CHUNK = 512
_first, _last = itemgetter(0), itemgetter(-1)


class Line(Generic[Item]):
    """Items in their order, each once. Those of a line of instants begin with theirs."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks = list[list[Item]]()

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._chunks)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, item: Item) -> None:
        chunks = self._chunks
        if not chunks:
            chunks.append([item])
        elif chunks[-1][-1] < item:
            if len(chunks[-1]) < _CHUNK:
                chunks[-1].append(item)
            else:
                chunks.append([item])
        else:
            place = bisect_left(chunks, item, key=_last)
            insort(chunks[place], item)
            if len(chunks[place]) > 2 * _CHUNK:
                chunks[place : place + 1] = [chunks[place][:_CHUNK], chunks[place][_CHUNK:]]

    def remove(self, item: Item) -> None:
        """Remove an item; ``ValueError`` if it is not there."""
        chunks, place = self._chunks, 0
        if chunks and chunks[0][0] == item:
            del chunks[0][0]
        else:
            place = bisect_left(chunks, item, key=_last)
            if place == len(chunks) or chunks[place][at := bisect_left(chunks[place], item)] != item:
                raise ValueError(f"{item!r} is not in this line")
            del chunks[place][at]
        if not chunks[place]:
            del chunks[place]

    def until(self, at: datetime) -> Iterator[Item]:
        """Return the items of this instant and of those before, in order."""
        return takewhile(lambda item: item[0] <= at, self)

    def beyond(self, item: Item) -> Iterator[Item]:
        """Return the items after this one, which need not be there, in order."""
        place = bisect_right(self._chunks, item, key=_last)
        for number, chunk in enumerate(self._chunks[place:]):
            yield from chunk if number else chunk[bisect_right(chunk, item) :]

    def between(self, after: datetime, until: datetime) -> Iterator[Item]:
        """Return the items of the instants after the one and up to the other, in order."""
        place = bisect_right(self._chunks, after, key=_instant_of_last)
        rest = chain.from_iterable(self._chunks[place:])
        return takewhile(lambda item: item[0] <= until, dropwhile(lambda item: item[0] <= after, rest))

    def later(self, at: datetime) -> int:
        """Return the number of items of later instants."""
        place = bisect_right(self._chunks, at, key=_instant_of_last)
        rest = self._chunks[place:]
        return sum(map(len, rest)) - bisect_right(rest[0], at, key=_first) if rest else 0


def _instant_of_last(chunk: list[Any]) -> datetime:
    at: datetime = chunk[-1][0]
    return at

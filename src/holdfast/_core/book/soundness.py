"""Whether the counts and indexes of a book follow from its rows."""

from collections import Counter
from datetime import datetime
from typing import Any

from holdfast._core.book.book import Book
from holdfast._core.book.line import Line
from holdfast._core.book.moment import Moment
from holdfast._core.record import as_read


def problems_of(book: Book, wall: datetime) -> list[str]:
    """Name what differs from a fresh book with the same rows, and from the jobs as counted one by one."""
    fresh = Book()
    fresh.load(book.contents())
    known, again = _content(book), _content(fresh)
    found = [f"the index {name} does not follow from the rows" for name in known if known[name] != again[name]]
    counted = Counter(("", as_read(row, wall).state) for row in book._all.jobs.values())
    for archive in book._all.archives.values():
        for _, _, state, number in archive.groups:
            counted["", state] += number
    if book.counts(Moment(wall, 0)) != counted:
        found.append("the counts of jobs do not follow from the rows")
    return found


def _content(book: Book) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(book._all).items() if name != "journal"}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [*value] if isinstance(value, Line) else value

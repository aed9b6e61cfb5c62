"""An index or a count of a book that does not follow from its rows is named."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.book.soundness import problems_of
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def book() -> Book:
    book = Book()
    jobs = [NewJob(id=UUID(int=number), payload=b"{}", task="mail", policy=Policy(), unique_key=str(number)) for number in (1, 2)]
    book.enqueue(Moment(NOW, 0), UUID(int=9), jobs)
    book.request_cancel(Moment(NOW, 1), [UUID(int=1)])
    return book


def test_a_book_that_verbs_have_changed_has_no_problem(book: Book) -> None:
    assert problems_of(book, NOW) == []


def test_an_index_with_an_entry_too_few_is_named(book: Book) -> None:
    book._all.keys.clear()
    assert problems_of(book, NOW) == ["the index keys does not follow from the rows"]


def test_a_wrong_tally_is_named_with_the_counts_that_follow_from_it(book: Book) -> None:
    group = next(iter(book._all.tally))
    book._all.tally[group] += 1
    assert problems_of(book, NOW) == [
        "the index tally does not follow from the rows",
        "the counts of jobs do not follow from the rows",
    ]

"""O9: a book's journal has every change, undoing it leaves nothing behind, and its indexes follow from its rows alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings

from holdfast._core.book.book import Book
from holdfast._core.book.line import Line
from holdfast._core.book.moment import Moment
from holdfast._core.book.table import RowChange
from holdfast._core.book.tables import decode, encode
from holdfast._ports.store import Store
from holdfast.errors import HoldfastError
from holdfast.stores.memory import MemoryStore
from tests.contract.test_model import EXAMPLES, Model


class Journaled:
    """A book whose every verb is called, undone, and called again; another book follows it by its changes only.

    ``rows``: the newest row of each key that was ever changed.
    """

    def __init__(self) -> None:
        self.book, self.follower = Book(), Book()
        self.rows = dict[tuple[str, Any], Any]()
        self.before = content(self.book)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.book, name)
        if name in ("flow_changes", "forget_journal"):
            return found

        def verb(now: Moment, *arguments: Any, **keywords: Any) -> Any:
            start = self.book.savepoint()
            first, its_changes = outcome(found, now, *arguments, **keywords), self.book.changes()
            if not its_changes and start == self.book.savepoint():
                return answered(first)
            self.book.undo(start)
            assert content(self.book) == self.before
            assert self.book.changes() == []
            second = outcome(found, now, *arguments, **keywords)
            assert second == first or repr(second) == repr(first)
            assert by_key(self.book.changes()) == by_key(its_changes)
            self.follow()
            return answered(second)

        return verb

    def follow(self) -> None:
        """Tell the changes to the other book, and load them all into a third one."""
        changes = self.book.changes()
        assert len(by_key(changes)) == len(changes)
        self.follower.load(decode(encode(changes)))
        self.rows |= by_key(changes)
        fresh, again = Book(), Book()
        fresh.load((table, key, row) for (table, key), row in self.rows.items())
        again.load(decode(encode(self.book.contents())))
        self.before = content(self.book)
        for each in (self.follower, fresh, again):
            assert content(each) | {"flow_changes": []} == self.before | {"flow_changes": []}
            assert each.changes() == []


def outcome(verb: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return the answer of a verb, or its refusal."""
    try:
        return verb(*arguments, **keywords)
    except HoldfastError as error:
        return error


def answered(found: Any) -> Any:
    if isinstance(found, HoldfastError):
        raise found
    return found


def by_key(changes: list[RowChange]) -> dict[tuple[str, Any], Any]:
    return {(table, key): row for table, key, row in changes}


def content(book: Book) -> dict[str, Any]:
    """Return all tables and indexes of a book, as they are now, and its changes of workflows that were not taken."""
    known = {name: plain(value) for name, value in vars(book._all).items() if name != "journal"}
    return known | {"flow_changes": [*book.flow_changes._found]}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [*value] if isinstance(value, Line) else set(value) if isinstance(value, set) else value


class JournalModel(Model):
    """The same rules as for stores. The other one is a memory store that never goes back."""

    def make_store(self) -> tuple[asyncio.Runner, Store]:
        self.book = Journaled()
        return asyncio.Runner(), MemoryStore(self.clock, self.book)  # type: ignore[arg-type]

    def teardown(self) -> None:
        self.runner.close()


# Shrinking takes minutes, because each step loads three books.
WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
JournalModel.TestCase.settings = settings(
    max_examples=max(EXAMPLES // 2, 1), stateful_step_count=50, deadline=None, phases=WITHOUT_SHRINKING
)


@pytest.mark.timeout(3600 if EXAMPLES > 40 else 120)
class TestJournal(JournalModel.TestCase):
    """Hypothesis' own test case."""

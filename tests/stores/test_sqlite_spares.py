"""A connection that is opened ahead is as good as a fresh one, and nobody's business when it is not used."""

import asyncio
import gc
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast._ports.clock import SystemChance
from holdfast.errors import StoreUnavailable
from holdfast.stores.sqlite import driver
from holdfast.stores.sqlite.spares import Spares
from holdfast.stores.sqlite.transactions import _LANES, Block, Turns, blocking, in_thread


class Place:
    """A file, and transactions in it."""

    def __init__(self, path: Path, *, use_apsw: bool) -> None:
        self.path, self.turns, self.use_apsw = path, Turns(), use_apsw
        self.spares = Spares(path, "PRAGMA foreign_keys = ON", use_apsw=use_apsw)
        self.make()

    def connect(self) -> driver.Connection:
        """For somebody else; by the same library, because one process must not open a file by both."""
        return driver.connect(self.path, use_apsw=self.use_apsw)

    def make(self) -> None:
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE notes (text)")

    def block(self) -> Block:
        return Block(self.path, idle=5.0, chance=SystemChance(), turns=self.turns, spares=self.spares, busy_limit=0.05)

    async def note(self, text: str) -> Any:
        """In a transaction; its connection."""
        async with in_thread(self.block()) as connection:
            connection.execute("INSERT INTO notes VALUES (?)", (text,))
        with _LANES.borrow() as lane:  # the one in which the next one is opened
            await lane.run(lambda: None)
        return connection

    def notes(self) -> list[str]:
        with closing(self.connect()) as connection:
            return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY rowid").fetchall()]


@pytest.fixture(params=["sqlite3", "apsw"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "file.db", use_apsw=request.param == "apsw")
    yield place
    place.spares.close()


def test_each_transaction_has_one_of_its_own(place: Place) -> None:
    async def act() -> None:
        connections = [await place.note(text) for text in "abc"]
        assert len({id(each) for each in connections}) == 3
        for each in connections[:2]:  # whoever has kept one
            with pytest.raises(Exception, match=r"(?i)closed"):
                each.execute("INSERT INTO notes VALUES ('leaked')")
        assert place.notes() == ["a", "b", "c"]

    asyncio.run(act())


def test_it_is_taken_at_once_and_says_what_a_fresh_one_would(place: Place) -> None:
    async def act() -> None:
        assert place.block().open_at_once() is None
        await place.note("a")
        block = place.block()
        connection = block.open_at_once()
        assert connection is not None
        assert [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")] == [2, 1]
        connection.execute("INSERT INTO notes VALUES ('b')")
        block.commit()
        assert place.notes() == ["a", "b"]

    asyncio.run(act())


def test_it_is_not_spoken_to_once_its_file_is_another(place: Place) -> None:
    async def act() -> None:
        await place.note("a")
        for path in place.path.parent.iterdir():
            path.unlink()
        place.make()
        await place.note("b")
        assert place.notes() == ["b"]

    asyncio.run(act())


def test_who_finds_the_lock_taken_waits_in_a_thread_and_keeps_no_turn(place: Place) -> None:
    async def act() -> None:
        await place.note("a")
        with closing(place.connect()) as other:
            other.execute("BEGIN IMMEDIATE")
            assert place.block().open_at_once() is None
            assert not place.turns._lock.locked()
            place.spares.refill()
            with pytest.raises(StoreUnavailable, match="locked"):
                await place.note("b")
            other.execute("COMMIT")
        await place.note("b")
        assert place.notes() == ["a", "b"]

    asyncio.run(act())


def test_who_finds_another_transaction_of_the_process_waits_for_its_turn(place: Place) -> None:
    async def act() -> None:
        await place.note("a")
        async with in_thread(place.block()) as connection:
            place.spares.refill()
            assert place.block().open_at_once() is None
            connection.execute("INSERT INTO notes VALUES ('b')")
        assert place.notes() == ["a", "b"]

    asyncio.run(act())


def test_none_is_opened_once_it_is_closed_until_somebody_needs_the_next(place: Place) -> None:
    async def act() -> None:
        await place.note("a")
        place.spares.close()
        place.spares.refill()
        assert place.spares._spare is None
        await place.note("b")
        assert place.spares._spare is not None

    asyncio.run(act())


def test_a_fork_takes_none_along(place: Place) -> None:
    async def act() -> None:
        await place.note("a")

    asyncio.run(act())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(act())
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(act())
    assert place.notes() == ["a", "a", "a"]


def test_a_file_that_cannot_be_opened_leaves_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        with blocking(place.block()) as connection:
            connection.execute("INSERT INTO notes VALUES ('a')")
        with monkeypatch.context() as patched:
            patched.setattr(driver, "connect", _refuse)
            place.spares.refill()
        assert place.spares._spare is None
        await place.note("b")
        assert place.notes() == ["a", "b"]

    asyncio.run(act())
    gc.collect()


def _refuse(*_: object, **__: object) -> Any:
    raise sqlite3.OperationalError("unable to open database file")

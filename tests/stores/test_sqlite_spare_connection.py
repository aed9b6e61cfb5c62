"""A connection that is opened ahead is as good as a fresh one, and nobody's business when it is not used."""

import asyncio
import gc
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast._ports.clock import Randomness
from holdfast._system.clock import SystemRandomness
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.call_thread import CallThreadPool
from holdfast.databases.sqlite.connection_thread import INHERITED
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.transactions import _LANES, TransactionTurns, UserTransaction, blocking, in_thread
from holdfast.errors import StoreUnavailable
from holdfast.testing.clock import FakeChance


class Place:
    """A file, and transactions in it."""

    def __init__(self, path: Path, *, use_apsw: bool) -> None:
        self.path, self.turns, self.use_apsw = path, TransactionTurns(), use_apsw
        self.spares = SpareConnection(path, "PRAGMA foreign_keys = ON", use_apsw=use_apsw)
        self.make()

    def connect(self) -> driver.Connection:
        """For somebody else; by the same library, because one process must not open a file by both."""
        return driver.connect(self.path, use_apsw=self.use_apsw)

    def make(self, mode: str = "WAL") -> None:
        with closing(self.connect()) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("CREATE TABLE IF NOT EXISTS notes (text)")

    def block(self, chance: Randomness | None = None) -> UserTransaction:
        return UserTransaction(
            self.path, idle=5.0, chance=chance or SystemRandomness(), turns=self.turns, spares=self.spares, busy_limit=0.05
        )

    async def note(self, text: str) -> Any:
        """In a transaction; its connection."""
        async with in_thread(self.block()) as connection:
            connection.execute("INSERT INTO notes VALUES (?)", (text,))
        return connection

    def notes(self) -> list[str]:
        with closing(self.connect()) as connection:
            return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY rowid").fetchall()]


@pytest.fixture(params=["sqlite3", "apsw"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The next connection is opened before a transaction has ended, and not in a thread a moment later."""
    monkeypatch.setattr(_LANES, "use_idle", lambda call: call())
    place = Place(tmp_path / "file.db", use_apsw=request.param == "apsw")
    yield place
    place.spares.close()


async def test_each_transaction_has_one_of_its_own(place: Place) -> None:
    connections = [await place.note(text) for text in "abc"]
    assert len({id(each) for each in connections}) == 3
    for each in connections[:2]:  # whoever has kept one
        with pytest.raises(Exception, match=r"(?i)closed"):
            each.execute("INSERT INTO notes VALUES ('leaked')")
    assert place.notes() == ["a", "b", "c"]


async def test_it_is_taken_at_once_and_says_what_a_fresh_one_would(place: Place) -> None:
    assert place.block().try_open() is None
    await place.note("a")
    block = place.block()
    connection = block.try_open()
    assert connection is not None
    assert [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")] == [2, 1]
    connection.execute("INSERT INTO notes VALUES ('b')")
    block.commit()
    assert place.notes() == ["a", "b"]


async def test_it_is_not_spoken_to_once_its_file_is_another(place: Place) -> None:
    await place.note("a")
    for path in place.path.parent.iterdir():
        path.unlink()
    place.make()
    await place.note("b")
    assert place.notes() == ["b"]


async def test_who_finds_the_lock_taken_waits_in_a_thread_and_keeps_no_turn(place: Place) -> None:
    await place.note("a")
    with closing(place.connect()) as other:
        other.execute("BEGIN IMMEDIATE")
        assert place.block().try_open() is None
        assert not place.turns._lock.locked()
        place.spares.refill()
        with pytest.raises(StoreUnavailable, match="locked"):
            await place.note("b")
        other.execute("COMMIT")
    await place.note("b")
    assert place.notes() == ["a", "b"]


async def test_who_finds_another_transaction_of_the_process_waits_for_its_turn(place: Place) -> None:
    await place.note("a")
    async with in_thread(place.block()) as connection:
        place.spares.refill()
        assert place.block().try_open() is None
        connection.execute("INSERT INTO notes VALUES ('b')")
    assert place.notes() == ["a", "b"]


async def test_none_is_opened_once_it_is_closed_until_somebody_needs_the_next(place: Place) -> None:
    await place.note("a")
    place.spares.close()
    place.spares.refill()
    assert place.spares._spare is None
    await place.note("b")
    assert place.spares._spare is not None


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


async def test_there_is_none_of_a_file_without_a_write_ahead_log(place: Place) -> None:
    place.make("DELETE")
    await place.note("a")
    assert (place.spares._spare, place.spares._has_log) == (None, False)
    place.spares.close()
    place.make()
    await place.note("b")
    assert place.spares._spare is not None


def test_a_transaction_waits_for_who_reads_a_file_without_a_write_ahead_log(place: Place) -> None:
    place.make("DELETE")
    with closing(place.connect()) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM notes").fetchall()

        class Reader(FakeChance):
            def jitter(self) -> float:  # somebody waits
                if reader.in_transaction:
                    reader.execute("COMMIT")
                return -1.0

        async def act() -> None:
            async with in_thread(place.block(Reader())) as connection:
                connection.execute("INSERT INTO notes VALUES ('a')")
            assert place.notes() == ["a"]

        asyncio.run(act())


async def test_nobody_waits_for_the_next_one_to_be_opened() -> None:
    opening, may_open, opened = threading.Event(), threading.Event(), threading.Event()
    lanes = CallThreadPool()

    def open_slowly() -> None:
        opening.set()
        assert may_open.wait(20)
        opened.set()

    lanes.use_idle(open_slowly)  # there is no thread: nothing happens
    with lanes.borrow() as lane:
        await lane.run(lambda: None)
    lanes.use_idle(open_slowly)
    assert opening.wait(20)
    with lanes.borrow() as other:
        assert other is not lane
        await other.run(lambda: None)
        may_open.set()
        assert opened.wait(20)


def test_one_that_could_not_be_made_ready_is_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(place.note("a"))
    assert place.block().try_open() is not None
    made, files = place.spares.connect()

    class Spoilt:
        close = made.close

        def execute(self, *_: object) -> Any:
            raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(place.spares, "connect", lambda: (Spoilt(), files))
    place.spares.refill()
    assert place.spares._spare is None
    with pytest.raises(Exception, match=r"(?i)closed"):
        made.execute("SELECT 1")


def test_a_child_of_a_fork_that_nobody_announced_leaves_its_parents_alone(place: Place) -> None:
    asyncio.run(place.note("a"))
    spare = place.spares._spare
    place.spares.after_fork_in_child()
    assert place.spares._spare is None
    assert any(each is spare for each in INHERITED)

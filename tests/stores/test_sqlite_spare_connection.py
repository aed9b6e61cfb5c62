"""A connection that is opened ahead behaves like a new one, and disturbs no other when it is not used."""

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
from holdfast.databases.call_thread import CallThreadPool
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.connection_thread import INHERITED
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.transactions import _LANES, TransactionTurns, UserTransaction, blocking, in_thread
from holdfast.errors import StoreUnavailable
from holdfast.testing.clock import FakeChance


class SpareFile:
    """A file, and transactions in it."""

    def __init__(self, path: Path, *, use_apsw: bool) -> None:
        self.path, self.turns, self.use_apsw = path, TransactionTurns(), use_apsw
        self.spares = SpareConnection(path, "PRAGMA foreign_keys = ON", use_apsw=use_apsw)
        self.make()

    def connect(self) -> driver.Connection:
        """Open a separate connection by the same library, because one process must not open a file by both."""
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
        """Write a note in a transaction, and return the connection of that transaction."""
        async with in_thread(self.block()) as connection:
            connection.execute("INSERT INTO notes VALUES (?)", (text,))
        return connection

    def notes(self) -> list[str]:
        with closing(self.connect()) as connection:
            return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY rowid").fetchall()]


@pytest.fixture(params=["sqlite3", "apsw"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SpareFile]:
    """Return a file whose next connection is opened before a transaction has ended, and not later in a thread."""
    monkeypatch.setattr(_LANES, "use_idle", lambda call: call())
    file = SpareFile(tmp_path / "file.db", use_apsw=request.param == "apsw")
    yield file
    file.spares.close()


async def test_each_transaction_has_its_own_connection(file: SpareFile) -> None:
    connections = [await file.note(text) for text in "abc"]
    assert len({id(each) for each in connections}) == 3
    for each in connections[:2]:  # code that kept a connection
        with pytest.raises(Exception, match=r"(?i)closed"):
            each.execute("INSERT INTO notes VALUES ('leaked')")
    assert file.notes() == ["a", "b", "c"]


async def test_a_spare_connection_is_taken_at_once_and_has_the_settings_of_a_new_one(file: SpareFile) -> None:
    assert file.block().try_open() is None
    await file.note("a")
    block = file.block()
    connection = block.try_open()
    assert connection is not None
    assert [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")] == [2, 1]
    connection.execute("INSERT INTO notes VALUES ('b')")
    block.commit()
    assert file.notes() == ["a", "b"]


async def test_a_spare_connection_is_not_used_once_its_file_was_replaced(file: SpareFile) -> None:
    await file.note("a")
    for path in file.path.parent.iterdir():
        path.unlink()
    file.make()
    await file.note("b")
    assert file.notes() == ["b"]


async def test_a_transaction_that_finds_the_file_locked_waits_in_a_thread_without_a_turn(file: SpareFile) -> None:
    await file.note("a")
    with closing(file.connect()) as other:
        other.execute("BEGIN IMMEDIATE")
        assert file.block().try_open() is None
        assert not file.turns._lock.locked()
        file.spares.refill()
        with pytest.raises(StoreUnavailable, match="locked"):
            await file.note("b")
        other.execute("COMMIT")
    await file.note("b")
    assert file.notes() == ["a", "b"]


async def test_a_transaction_beside_another_of_its_process_waits_for_its_turn(file: SpareFile) -> None:
    await file.note("a")
    async with in_thread(file.block()) as connection:
        file.spares.refill()
        assert file.block().try_open() is None
        connection.execute("INSERT INTO notes VALUES ('b')")
    assert file.notes() == ["a", "b"]


async def test_a_closed_spare_is_not_opened_again_until_a_transaction_needs_one(file: SpareFile) -> None:
    await file.note("a")
    file.spares.close()
    file.spares.refill()
    assert file.spares._spare is None
    await file.note("b")
    assert file.spares._spare is not None


def test_a_forked_child_inherits_no_spare_connection(file: SpareFile) -> None:
    async def act() -> None:
        await file.note("a")

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
    assert file.notes() == ["a", "a", "a"]


def test_a_file_that_cannot_be_opened_leaves_none(file: SpareFile, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        with blocking(file.block()) as connection:
            connection.execute("INSERT INTO notes VALUES ('a')")
        with monkeypatch.context() as patched:
            patched.setattr(driver, "connect", _refuse)
            file.spares.refill()
        assert file.spares._spare is None
        await file.note("b")
        assert file.notes() == ["a", "b"]

    asyncio.run(act())
    gc.collect()


def _refuse(*_: object, **__: object) -> Any:
    raise sqlite3.OperationalError("unable to open database file")


async def test_a_file_without_a_write_ahead_log_has_no_spare_connection(file: SpareFile) -> None:
    file.make("DELETE")
    await file.note("a")
    assert (file.spares._spare, file.spares._has_log) == (None, False)
    file.spares.close()
    file.make()
    await file.note("b")
    assert file.spares._spare is not None


def test_a_transaction_waits_for_a_reader_of_a_file_without_a_write_ahead_log(file: SpareFile) -> None:
    file.make("DELETE")
    with closing(file.connect()) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM notes").fetchall()

        class Reader(FakeChance):
            def jitter(self) -> float:  # called while a transaction waits
                if reader.in_transaction:
                    reader.execute("COMMIT")
                return -1.0

        async def act() -> None:
            async with in_thread(file.block(Reader())) as connection:
                connection.execute("INSERT INTO notes VALUES ('a')")
            assert file.notes() == ["a"]

        asyncio.run(act())


async def test_no_call_waits_for_the_next_spare_connection_to_be_opened() -> None:
    opening, may_open, opened = threading.Event(), threading.Event(), threading.Event()
    threads = CallThreadPool()

    def open_slowly() -> None:
        opening.set()
        assert may_open.wait(20)
        opened.set()

    threads.use_idle(open_slowly)  # there is no thread: nothing happens
    with threads.borrow() as thread:
        await thread.run(lambda: None)
    threads.use_idle(open_slowly)
    assert opening.wait(20)
    with threads.borrow() as other:
        assert other is not thread
        await other.run(lambda: None)
        may_open.set()
        assert opened.wait(20)


def test_a_spare_connection_that_could_not_be_prepared_is_closed(file: SpareFile, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(file.note("a"))
    spare = file.spares.take()
    assert spare is not None
    spare[1].close(spare[0])
    made, files = file.spares.connect()

    class Spoilt:
        close = made.close

        def execute(self, *_: object) -> Any:
            raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(file.spares, "connect", lambda: (Spoilt(), files))
    file.spares.refill()
    assert file.spares._spare is None
    with pytest.raises(Exception, match=r"(?i)closed"):
        made.execute("SELECT 1")


def test_a_child_of_an_unannounced_fork_does_not_touch_its_parents_spare_connection(file: SpareFile) -> None:
    asyncio.run(file.note("a"))
    spare = file.spares._spare
    file.spares.after_fork_in_child()
    assert file.spares._spare is None
    assert any(each is spare for each in INHERITED)

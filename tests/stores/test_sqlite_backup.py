"""Copies of the file by `holdfast backup`, and the mode of the file."""

import asyncio
import os
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast._core.job import State
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.file_location import identity_of
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from tests.stores.support import new_job, sql, using


@pytest.fixture(params=["sqlite3", "apsw"])
def use_apsw(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "apsw")


def store_at(path: Path, use_apsw: bool) -> SqliteStore:
    return SqliteStore(path, clock=FakeClock(), chance=FakeChance(), process=PROCESS, use_apsw=use_apsw)


async def fill(store: SqliteStore, count: int, seed: int = 0) -> None:
    chance = FakeChance(seed)
    await store.enqueue(chance.uuid4(), [new_job(chance) for _ in range(count)])


def modes(folder: Path) -> list[int]:
    return [stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir() if not each.is_symlink()]


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_backup_is_one_moment_of_a_store_that_others_write_to(tmp_path: Path, use_apsw: bool) -> None:
    path, target = tmp_path / "jobs.db", tmp_path / "copies" / "backup.db"
    target.parent.mkdir()
    ended = threading.Event()

    async def write(store: SqliteStore) -> None:
        while not ended.is_set():
            await store.enqueue(writing.uuid4(), [new_job(writing) for _ in range(10)])

    writing = FakeChance(1)
    writer = threading.Thread(target=lambda: using(store_at(path, use_apsw), write))

    async def act(store: SqliteStore) -> None:
        await fill(store, 500)
        writer.start()
        try:
            copied = await store.backup(target)
        finally:
            ended.set()
            await asyncio.to_thread(writer.join)
        assert copied.path == str(target)
        assert copied.size == target.stat().st_size
        assert copied.jobs >= 500
        assert copied.jobs % 10 == 0, "all of a call, or nothing"
        counted = await store.counts()
        assert counted[("", State.AVAILABLE)] >= copied.jobs
        restored = store_at(target, use_apsw)
        assert await restored.counts() == {("", State.AVAILABLE): copied.jobs}
        await restored.close()

    using(store_at(path, use_apsw), act)
    assert names(target.parent) == {"backup.db"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_backup_has_what_is_still_in_the_log(tmp_path: Path, use_apsw: bool) -> None:
    async def act(store: SqliteStore) -> None:
        await fill(store, 3)
        assert (tmp_path / "jobs.db-wal").stat().st_size > 0
        assert (await store.backup(tmp_path / "backup.db")).jobs == 3

    using(store_at(tmp_path / "jobs.db", use_apsw), act)
    assert names(tmp_path) == {"jobs.db", "backup.db"}


@pytest.mark.parametrize("name", ["backup.db", "backup.db-wal", "backup.db-shm", "backup.db-journal"])
def test_a_backup_replaces_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("somebody's")

    async def act(store: SqliteStore) -> None:
        await fill(store, 1)
        with pytest.raises(ConfigurationError, match=f"{name} exists, and a backup replaces nothing: name another file"):
            await store.backup(tmp_path / "backup.db")

    using(store_at(tmp_path / "jobs.db", use_apsw=False), act)
    assert (tmp_path / name).read_text() == "somebody's"
    assert names(tmp_path) == {"jobs.db", name}


def test_a_file_that_appears_while_a_backup_is_made_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, back_up = tmp_path / "backup.db", driver.back_up

    def meanwhile(*connections: Any) -> None:
        back_up(*connections)
        target.write_text("another's")

    monkeypatch.setattr(driver, "back_up", meanwhile)

    async def act(store: SqliteStore) -> None:
        await fill(store, 1)
        with pytest.raises(ConfigurationError, match="a backup replaces nothing"):
            await store.backup(target)

    using(store_at(tmp_path / "jobs.db", use_apsw=False), act)
    assert target.read_text() == "another's"
    assert names(tmp_path) == {"jobs.db", "backup.db"}


def lose_a_job(connection: driver.Connection) -> None:
    connection.execute("DELETE FROM holdfast_jobs WHERE rowid = (SELECT min(rowid) FROM holdfast_jobs)")


def damage(connection: driver.Connection) -> None:
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute("UPDATE sqlite_schema SET rootpage = 2 WHERE type = 'index'")


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lose_a_job, StoreUnavailable, r"backup: the copy of .* is damaged"),
        (damage, ConfigurationError, r"jobs\.db: .*malformed.*: restore a backup; the file is damaged"),
    ],
)
def test_a_copy_that_is_not_valid_is_removed(
    tmp_path: Path, spoil: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up = driver.back_up

    def spoilt(source: driver.Connection, copied: driver.Connection) -> None:
        back_up(source, copied)
        spoil(copied)

    monkeypatch.setattr(driver, "back_up", spoilt)

    async def act(store: SqliteStore) -> None:
        await fill(store, 3)
        with pytest.raises(error, match=message):
            await store.backup(tmp_path / "backup.db")

    using(store_at(tmp_path / "jobs.db", use_apsw=False), act)
    assert names(tmp_path) == {"jobs.db"}


def test_a_backup_of_a_missing_store_is_an_error_and_makes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    with pytest.raises(ConfigurationError, match="there is no file to copy"):
        using(store_at(tmp_path / "jobs.db", use_apsw=False), lambda store: store.backup(target))
    sql(tmp_path / "other.db", "CREATE TABLE notes (text)")
    with pytest.raises(ConfigurationError, match="it has no jobs"):
        using(store_at(tmp_path / "other.db", use_apsw=False), lambda store: store.backup(target))
    with pytest.raises(ConfigurationError, match="does not exist"):
        using(store_at(tmp_path / "other.db", use_apsw=False), lambda store: store.backup(tmp_path / "none" / "backup.db"))
    assert names(tmp_path) == {"other.db"}


def test_a_new_file_is_readable_for_its_owner_only(tmp_path: Path, use_apsw: bool) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "linked.db")
    before = os.umask(0)
    try:

        async def act(store: SqliteStore) -> None:
            await fill(store, 1)
            assert modes(tmp_path) == [0o600] * 3

        using(store_at(tmp_path / "link.db", use_apsw), act)
        (tmp_path / "linked.db").unlink()
        using(store_at(tmp_path / "jobs.db", use_apsw), act)
    finally:
        os.umask(before)


def test_a_file_that_was_there_keeps_its_mode(tmp_path: Path, use_apsw: bool) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    path.chmod(0o660)
    identity = identity_of(path)

    async def act(store: SqliteStore) -> None:
        await fill(store, 1)
        assert modes(tmp_path) == [0o660] * 3

    using(store_at(path, use_apsw), act)
    assert identity_of(path) == identity
    with closing(driver.connect(path, use_apsw=use_apsw)) as connection:
        assert connection.execute("SELECT count(*) FROM holdfast_jobs").fetchall() == [(1,)]


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_s6_a_backup_never_has_a_name_that_sqlite_uses_beside_the_store(tmp_path: Path, use_apsw: bool, end: str) -> None:
    path, link = tmp_path / "jobs.db", tmp_path / "link.db"
    using(store_at(path, use_apsw), lambda store: fill(store, 5))
    link.symlink_to(path)
    before = names(tmp_path)
    for name in (path, link):

        async def act(store: SqliteStore) -> None:
            with pytest.raises(ConfigurationError, match="a part of"):
                await store.backup(Path(f"{path}{end}"))

        using(store_at(name, use_apsw), act)
    assert names(tmp_path) == before


def test_a_backup_that_was_killed_blocks_no_later_one(tmp_path: Path, use_apsw: bool) -> None:
    path, target = tmp_path / "jobs.db", tmp_path / "copy.db"
    (tmp_path / f".{target.name}.{os.getpid()}-0.partial").touch()

    async def act(store: SqliteStore) -> None:
        await fill(store, 5)
        assert (await store.backup(target)).jobs == 5

    using(store_at(path, use_apsw), act)

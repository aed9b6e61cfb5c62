"""Copies of the file, by this process and by others, and files that are removed under an open connection."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast.databases.sqlite import log_guards as guards
from holdfast.databases.sqlite.files import Files
from holdfast.errors import StoreUnavailable
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, Scene, play
from tests.stores.support import OnFile

FILES = ("jobs.db", "jobs.db-wal", "jobs.db-shm")

_ELSEWHERE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    print(connection.execute(statement).fetchall(), flush=True)
connection.close()
"""
TOUCH = "UPDATE holdfast_sequence SET claim_number = claim_number + 1"
JOBS = "SELECT count(*) FROM holdfast_jobs"


class OnDriver(OnFile):
    def __init__(self, path: Path, *, use_apsw: bool) -> None:
        super().__init__(path)
        self.use_apsw = use_apsw

    def make_store(self, clock: FakeClock) -> SqliteStore:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=PROCESS, use_apsw=self.use_apsw)


@pytest.fixture(params=["sqlite3", "apsw"])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> OnDriver:
    return OnDriver(tmp_path / "jobs.db", use_apsw=request.param == "apsw")


def elsewhere(path: Path, *statements: str) -> list[str]:
    """Return what another process prints that opens the file, executes the statements, and closes the file."""
    command = [sys.executable, "-c", _ELSEWHERE, str(path), *statements]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def copy(path: Path, names: tuple[str, ...] = FILES) -> None:
    for name in names:
        shutil.copy(path.with_name(name), path.with_name(f"copy-of-{name}"))


def lose_the_log(path: Path) -> None:
    for name in FILES[1:]:
        path.with_name(name).unlink()


@pytest.mark.parametrize("names", [FILES, FILES[:1], FILES[1:2], FILES[2:]], ids=["all", "database", "log", "memory"])
def test_s5_writes_acknowledged_after_a_copy_in_the_same_process_are_kept(file: OnDriver, names: tuple[str, ...]) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        copy(file.path, names)
        elsewhere(file.path, TOUCH)
        for _ in range(50):
            await at.enqueue(at.new())
        assert elsewhere(file.path, JOBS, "PRAGMA integrity_check") == ["[(51,)]", "[('ok',)]"]
        assert await at.store.counts() == {("", State.AVAILABLE): 51}

    play(file, act)


@pytest.mark.parametrize("names", [FILES, FILES[:1]], ids=["all", "database"])
def test_s5_a_commit_into_a_log_that_another_process_removed_is_not_acknowledged(
    file: OnDriver, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "_IS_POSSIBLE", False)  # as where the system has no locks of open file descriptions

    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        copy(file.path, names)
        elsewhere(file.path, TOUCH)
        call, job = at.chance.uuid4(), at.new()
        with pytest.raises(
            StoreUnavailable, match=r"jobs\.db-wal was deleted or replaced while it was open.*`holdfast backup copy.db`"
        ):
            await at.store.enqueue(call, [job])
        await at.store.enqueue(call, [job])
        assert elsewhere(file.path, JOBS) == ["[(2,)]"]

    play(file, act)


def test_s5_a_log_that_is_removed_while_a_statement_runs_is_noticed_before_the_answer(file: OnDriver) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        call, job, now = at.chance.uuid4(), at.new(), at.clock.wall

        def lose() -> float:
            if file.path.with_name(FILES[1]).exists():
                lose_the_log(file.path)  # after the store has checked the file, and before the statement
            return now()

        at.clock.wall = lose  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable, match=r"jobs\.db-wal was deleted"):
            await at.store.enqueue(call, [job])
        at.clock.wall = now  # type: ignore[method-assign]
        await at.store.enqueue(call, [job])
        assert job.id in [row.id for row in await at.store.list(at.everything)]

    play(file, act)


def test_s5_the_log_of_a_database_behind_a_link_is_watched_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "jobs.db").symlink_to(tmp_path / "data" / "jobs.db")

    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        lose_the_log(tmp_path / "data" / "jobs.db")
        with pytest.raises(StoreUnavailable, match=r"data/jobs\.db-wal was deleted"):
            await at.enqueue(at.new())

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_lost_log_is_never_copied_over_writes_of_other_processes(file: OnDriver) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        elsewhere(file.path, "PRAGMA wal_checkpoint(TRUNCATE)")
        for _ in range(5):
            await at.enqueue(at.new())
        lose_the_log(file.path)
        elsewhere(file.path, "CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('kept')")
        with pytest.raises(StoreUnavailable, match=r"jobs\.db-wal was deleted"):
            await at.enqueue(at.new())
        assert elsewhere(file.path, "SELECT text FROM notes", "PRAGMA integrity_check") == ["[('kept',)]", "[('ok',)]"]
        await at.enqueue(at.new())
        assert elsewhere(file.path, JOBS, "PRAGMA integrity_check") == ["[(2,)]", "[('ok',)]"]

    play(file, act)


def test_s5_rows_of_a_transaction_whose_log_was_removed_are_not_acknowledged(file: OnDriver) -> None:
    elsewhere(file.path, "CREATE TABLE notes (text)")

    async def act(at: Scene) -> None:
        active = await at.running()
        with pytest.raises(StoreUnavailable, match=r"transaction: .*jobs\.db-wal was deleted"):  # noqa: PT012 - the end of the block raises
            async with at.store.transaction(active.id, active.token, idle=5.0) as connection:
                connection.execute("INSERT INTO notes VALUES ('lost')")
                lose_the_log(file.path)
        assert elsewhere(file.path, "SELECT * FROM notes") == ["[]"]

    play(file, act)


@pytest.mark.parametrize("names", [FILES, FILES[2:]], ids=["all", "memory"])
def test_a_transaction_whose_lock_was_given_up_by_a_copy_is_rolled_back(file: OnDriver, names: tuple[str, ...]) -> None:
    elsewhere(file.path, "CREATE TABLE notes (text)")

    async def act(at: Scene) -> None:
        active = await at.running()
        with pytest.raises(StoreUnavailable, match=r"gave up its lock.*`holdfast backup copy.db`"):  # noqa: PT012 - the end of the block raises
            async with at.store.transaction(active.id, active.token, idle=5.0) as connection:
                connection.execute("INSERT INTO notes VALUES ('ours')")
                copy(file.path, names)
        assert elsewhere(file.path, "SELECT * FROM notes", "PRAGMA integrity_check") == ["[]", "[('ok',)]"]
        async with at.store.transaction(active.id, active.token, idle=5.0) as connection:
            connection.execute("INSERT INTO notes VALUES ('ours')")
            copy(file.path, FILES[:2])  # a copy of the two files on which it has no lock
        assert elsewhere(file.path, "SELECT * FROM notes") == ["[('ours',)]"]

    play(file, act)


def test_the_guard_of_the_log_blocks_no_connection_and_ends_with_the_last_one(file: OnDriver) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        async with at.store.transaction(active.id, active.token, idle=5.0) as connection:
            connection.execute("CREATE TABLE notes (text)")
        other = at.another()
        await other.counts()
        await other.close()
        copy(file.path)
        busy, *rest = elsewhere(
            file.path, "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", TOUCH, f"VACUUM INTO '{file.path}.vacuumed'", JOBS
        )
        assert busy == "[(0, 0, 0)]"
        assert rest[-1] == "[(1,)]"
        assert file.path.with_name(FILES[1]).exists(), "one connection closed, and another process, and we are still there"
        await at.store.end_lease(active.lease, LeaseEnd(RescueReason.CLOSED))

    play(file, act)
    assert {each.name for each in file.path.parent.glob("jobs.db*")} == {"jobs.db", "jobs.db.vacuumed"}


def test_the_shared_memory_of_an_open_file_is_not_reset_after_a_copy(file: OnDriver) -> None:
    unused = 132  # four bytes of the header that SQLite keeps for later versions

    async def act(at: Scene) -> None:
        await at.enqueue(at.new())
        with file.path.with_name(FILES[2]).open("r+b") as memory:
            memory.seek(unused)
            memory.write(b"mark")
        elsewhere(file.path, JOBS)
        with file.path.with_name(FILES[2]).open("rb") as memory:
            memory.seek(unused)
            assert memory.read(4) == b"mark"

    play(file, act)


def test_a_file_without_a_log_is_not_guarded(tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    elsewhere(path, "CREATE TABLE notes (text)")
    path.with_name("file.db-shm").write_bytes(b"left over")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM notes").fetchall()
        files = Files(path)
        elsewhere(path, "INSERT INTO notes VALUES ('a')")
        files.close(connection)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_guard_in_place(file: OnDriver) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        async with at.store.transaction(active.id, active.token, idle=60.0) as connection:
            connection.execute("CREATE TABLE notes (text)")
            child = os.fork()
            if child == 0:
                _read_and_end(at)
            assert os.waitpid(child, 0)[1] == 0  # noqa: ASYNC222 - nothing else runs here
            copy(file.path, FILES[:1])
            elsewhere(file.path, JOBS)
            assert file.path.with_name(FILES[1]).exists()
        assert elsewhere(file.path, "SELECT count(*) FROM notes") == ["[(0,)]"]

    play(file, act)


def _read_and_end(at: Scene) -> NoReturn:
    code = 1
    try:
        with ThreadPoolExecutor(1) as threads:  # this thread has a running event loop
            assert threads.submit(asyncio.run, _read(at)).result() == {("", State.RUNNING): 1}
        code = 0
    finally:
        os._exit(code)


async def _read(at: Scene) -> object:
    found = await at.store.counts()
    await at.store.close()
    return found

"""A check finds what is wrong with a file before it does harm, and names the remedy."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from holdfast._core.answers import Check
from holdfast._core.job import State
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast.databases.sqlite import driver, rights
from holdfast.stores.sqlite import checks, schema
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Scene, play
from tests.stores.support import OnFile, sql, store_on, using


class Usage(NamedTuple):
    free: int


def found_on(path: Path, clock: FakeClock | None = None) -> dict[str, Check]:
    """Return the findings by name; a check that finds nothing under a name leaves it out."""
    return {found.name: found for found in using(store_on(path, clock), lambda store: store.check())}


def test_a_check_of_a_healthy_file_has_no_findings_but_the_librarys(tmp_path: Path) -> None:
    using(store_on(tmp_path / "jobs.db"), lambda store: store.migrate())
    found = found_on(tmp_path / "jobs.db")
    assert {name: check.level for name, check in found.items() if name != "sqlite"} == dict.fromkeys(
        ("schema", "journal", "file", "disk", "job"), "ok"
    )


def test_a_check_makes_no_file(tmp_path: Path) -> None:
    found = found_on(tmp_path / "jobs.db")
    assert (found["schema"].level, found["schema"].message) == ("warning", "there is none yet")
    assert "holdfast migrate" in found["schema"].remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["folder", "file", "file-wal"])
def test_a_folder_or_a_file_that_may_not_be_written_is_named_with_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / "jobs.db"
    using(store_on(path), lambda store: store.migrate())
    denied = {"folder": tmp_path, "file": path}.get(what, tmp_path / "jobs.db-wal")
    what = what.removesuffix("-wal")
    denied.touch()
    denied.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda place, _: place != denied)
    me = rights.user_name(os.geteuid())
    found = found_on(path)["file"]
    assert (found.level, f"the user {me} may not read and write the {what} {denied}" in found.message) == ("error", True)
    assert found.remedy == f"`chmod u+rw{'x' if what == 'folder' else ''} {denied}`"


def test_a_file_of_another_user_is_handed_over_by_the_command_of_the_remedy(tmp_path: Path) -> None:
    (path := tmp_path / "my jobs.db").touch()
    assert rights._remedy(path, "www", "ann", "file", mode=0o600) == (f"run as ann, its owner, or, as root: `chown www '{path}'`")
    assert rights._remedy(path, "ann", "ann", "file", mode=0o600) == f"it may be immutable; as root: `chattr -i '{path}'`"


def test_a_file_system_that_is_read_only_is_made_writable_by_the_command_of_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    monkeypatch.setattr(os.path, "ismount", lambda place: place == tmp_path)
    assert f"`mount -o remount,rw {tmp_path}`" in rights._remedy(tmp_path / "jobs.db", "ann", "ann", "file", mode=0o600)


def test_a_file_on_a_full_disk_is_reported_with_its_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    using(store_on(path), lambda store: store.migrate())
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(0))

    def fail(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(driver, "connect", fail)
    found = found_on(path)
    assert f"check that its disk is neither full nor broken: `df {tmp_path}`" in found["file"].message
    assert (found["disk"].level, "make room" in found["disk"].remedy) == ("error", True)


def test_a_check_makes_no_schema(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    sql(path, "CREATE TABLE users (name)")
    assert found_on(path)["schema"].message == "there is none yet"
    assert sql(path, "SELECT name FROM sqlite_schema") == [("users",)]


def test_a_newer_schema_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    using(store_on(path), lambda store: store.migrate())
    sql(path, "UPDATE holdfast_schema SET version = ?", schema.VERSION + 1)
    assert (found_on(path)["file"].level, "upgrade holdfast" in found_on(path)["file"].message) == ("error", True)


def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"this is no database, whatever its name says. " * 100)
    assert (found_on(path)["file"].level, "name another file" in found_on(path)["file"].message) == ("error", True)


def test_a_large_file_is_not_read_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    using(store_on(path), lambda store: store.migrate())
    monkeypatch.setattr(checks, "READ_IN_FULL", 1)
    assert (found_on(path)["file"].level, "too large" in found_on(path)["file"].message) == ("ok", True)


@pytest.mark.parametrize(("megabytes", "level"), [(10_000, "ok"), (200, "warning"), (3, "error")])
def test_a_disk_that_is_nearly_full_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, megabytes: int, level: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(megabytes << 20))
    disk = found_on(tmp_path / "jobs.db")["disk"]
    assert (disk.level, disk.message, bool(disk.remedy)) == (level, f"{megabytes} MB free", level != "ok")


def test_a_log_that_a_reader_keeps_growing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    monkeypatch.setattr(checks, "LARGE_LOG", 1)
    assert "log" not in found_on(path)
    with closing(sqlite3.connect(path)) as reader:
        using(store_on(path), lambda store: store.migrate())
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM holdfast_jobs").fetchall()
        using(store_on(path), lambda store: store.pause(["a"], is_paused=True))
        assert found_on(path)["log"].level == "warning"


@pytest.mark.parametrize("act", ["enqueue", "cancel", "lease"])
def test_a_wall_clock_that_was_set_back_is_reported(tmp_path: Path, act: str) -> None:
    async def record_a_time(at: Scene) -> None:
        if act == "lease":
            await at.lease()
            return
        (job,) = await at.enqueue(at.new())
        at.advance(3600.0)
        if act == "cancel":
            await at.store.request_cancel([job])

    at_that_time = FakeClock()
    play(OnFile(tmp_path / "jobs.db"), record_a_time)
    at_that_time.step_wall(-61.0)
    clock = found_on(tmp_path / "jobs.db", at_that_time)["clock"]
    assert (clock.level, "set back" in clock.message, "NTP" in clock.remedy) == ("warning", True, True)
    at_that_time.step_wall(2.0)
    assert ("clock" in found_on(tmp_path / "jobs.db", at_that_time)) is (act == "cancel")


@pytest.mark.parametrize("what", ["jobs", "receipts"])
def test_overdue_pruning_is_reported(tmp_path: Path, what: str) -> None:
    async def act(at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(policy=Policy(retention=60.0)) for _ in range(3)))
        if what == "jobs":
            await at.store.request_cancel(jobs)

    play(OnFile(tmp_path / "jobs.db"), act)
    clock = FakeClock()
    clock.advance(checks.LAG + (60.0 if what == "jobs" else RETENTION_FLOOR) - 0.001)
    assert "pruning" not in found_on(tmp_path / "jobs.db", clock)
    clock.advance(0.002)
    found = found_on(tmp_path / "jobs.db", clock)["pruning"]
    assert (found.level, found.message.split()[0]) == ("warning", "3" if what == "jobs" else "receipts")
    assert "holdfast prune" in found.remedy


def errors_on(path: Path) -> dict[str, Check]:
    """Return the findings that make a check red."""
    return {name: found for name, found in found_on(path).items() if found.level == "error"}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Return a file with all tables of a store."""
    using(store_on(tmp_path / "jobs.db"), lambda store: store.migrate())
    return tmp_path / "jobs.db"


def test_a_missing_index_is_red_until_its_remedy_is_done(made: Path) -> None:
    indexes = [name for name, (kind, _) in schema.expected_objects().items() if kind == "index"]
    assert len(indexes) == 24
    for name in indexes:
        sql(made, f"DROP INDEX {name}")
        found = errors_on(made)["indexes"]
        assert f"{name} is missing" in found.message
        sql(made, found.remedy)
        assert errors_on(made) == {}


def test_an_index_of_another_form_is_red(made: Path) -> None:
    sql(made, "DROP INDEX holdfast_waiting")
    sql(made, "CREATE INDEX holdfast_waiting ON holdfast_jobs (task)")
    found = errors_on(made)["indexes"]
    assert ("not the one" in found.message, found.remedy.startswith("DROP INDEX holdfast_waiting; CREATE INDEX")) == (True, True)


def test_a_missing_table_is_red(made: Path) -> None:
    sql(made, "DROP TABLE holdfast_receipts")
    assert "holdfast_receipts is missing" in errors_on(made)["schema"].message


@pytest.mark.parametrize("event", ["INSERT ON holdfast_jobs", "UPDATE ON holdfast_jobs", "DELETE ON holdfast_jobs"])
@pytest.mark.parametrize("when", ["BEFORE", "AFTER"])
def test_a_trigger_that_refuses_a_move_is_red(made: Path, when: str, event: str) -> None:
    sql(made, f"CREATE TRIGGER refuse {when} {event} BEGIN SELECT RAISE(ABORT, 'the trigger refuses'); END")
    assert "the trigger refuses" in errors_on(made)["job"].message


def test_a_trigger_that_swallows_rows_is_red(made: Path) -> None:
    sql(made, "CREATE TRIGGER swallow BEFORE INSERT ON holdfast_jobs BEGIN SELECT RAISE(IGNORE); END")
    assert errors_on(made)["job"].level == "error"


def test_a_check_leaves_nothing_and_another_one_can_follow(made: Path) -> None:
    for _ in range(2):
        assert found_on(made)["job"].level == "ok"
    for table in ("jobs", "attempts", "receipts", "leases", "queues", "payloads"):
        assert sql(made, f"SELECT count(*) FROM holdfast_{table}") == [(0,)]


def test_a_refused_move_leaves_nothing_either(made: Path) -> None:
    sql(made, "CREATE TRIGGER refuse BEFORE DELETE ON holdfast_jobs BEGIN SELECT RAISE(ABORT, 'no'); END")
    assert errors_on(made)["job"].level == "error"
    assert sql(made, "SELECT count(*) FROM holdfast_jobs") == [(0,)]


def test_a_check_moves_a_job_beside_existing_jobs(made: Path) -> None:
    async def act(at: Scene) -> None:
        for _ in range(20):  # drawn from the same seed as the ids of the store
            at.chance.uuid7()
        job = at.new(queue="waits")
        await at.enqueue(job)
        active = await at.running()
        (found,) = [found for found in await at.store.check() if found.name == "job"]
        assert found.level == "ok", found.message
        assert len(await at.store.held(active.lease)) == 1
        assert (await at.store.counts())["", State.AVAILABLE] == 1

    play(OnFile(made), act)

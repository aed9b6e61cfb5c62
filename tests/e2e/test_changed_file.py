"""The jobs' file is changed under running workers: deleted, replaced, upgraded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import App
from holdfast.errors import SchemaTooNew
from proof.checker import history_sqlite
from tests.e2e.fleet import START, fleet
from tests.e2e.waiting import until

FILES = ("jobs.db", "jobs.db-wal", "jobs.db-shm")


def delete(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink(missing_ok=True)


def replace(folder: Path) -> None:
    """Replace the file by one with the same schema and other jobs, as an operator would after a restore."""
    restored = App(f"sqlite:///{folder}/restored.db")
    restored.enqueue("count", number=7)
    restored.close()
    delete(folder)
    (folder / "restored.db").rename(folder / "jobs.db")


@pytest.mark.parametrize("change", [delete, replace])
def test_a_file_that_is_deleted_or_replaced_is_noticed_and_reported_and_its_successor_is_used(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        change(tmp_path)
        until(lambda: "jobs.db was deleted or replaced while it was open" in crew.log_text(), within=START)
        successor = App(f"sqlite:///{tmp_path}/jobs.db")
        later = successor.enqueue("count", number=8)
        assert later.result(timeout=2 * START) == 8
        until(lambda: {state for state, many in successor.jobs.counts().items() if many} == {"completed"}, within=START)
        successor.close()
        until(lambda: ships.journal.read(job, "cut"), within=START)
        assert crew.process.poll() is None


def damage(file: Path) -> None:
    """Overwrite the table of jobs and its indexes."""
    with history_sqlite.opened(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = connection.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'holdfast_jobs' AND rootpage").fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    with file.open("r+b") as opened:
        for (page,) in pages:
            opened.seek((page - 1) * size)
            opened.write(bytes(size))


def test_a_file_that_is_damaged_ends_workers_with_the_remedy(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()
        ships.entry(ships.enqueue("wait", gate="gate"), "start")
        damage(tmp_path / "jobs.db")
        until(lambda: crew.process.poll() is not None, within=START)
        assert crew.process.poll() == 1
        assert "database disk image is malformed: restore a backup" in crew.log_text()
        assert "store.recovered" not in crew.log_text()


def test_s16_after_an_upgrade_old_workers_end_their_work_and_no_old_worker_starts(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        later = ships.enqueue("wait", gate="gate")
        with history_sqlite.opened(tmp_path / "jobs.db") as connection:
            connection.execute("ALTER TABLE holdfast_jobs ADD COLUMN from_the_future TEXT NOT NULL DEFAULT ''")
            connection.execute("UPDATE holdfast_schema SET version = version + 1")
        ships.open("gate")
        for each in (job, later):
            assert ships.until_state(each, "completed", within=START).attempt == 1
        assert "store.unavailable" not in crew.log_text()
        newcomer = ships.crew(is_ready=False)
        assert newcomer.wait(START) == 1
        assert "this release knows" in newcomer.log_text()
        assert "upgrade holdfast" in newcomer.log_text()
        client = App(f"sqlite:///{tmp_path}/jobs.db")
        with pytest.raises(SchemaTooNew, match="upgrade holdfast"):
            client.enqueue("count", number=1)
        client.close()

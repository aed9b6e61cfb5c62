"""`holdfast backup`."""

from pathlib import Path

from holdfast import App
from tests.cli.support import answer, enqueue, run


def test_a_copy_is_made_and_is_a_store(folder: Path) -> None:
    job = enqueue()
    done = run("backup", "copy.db", "--app", "shop")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"1 jobs copied to {folder}/copy.db (")
    assert [each["id"] for each in answer("jobs", "list", "--url", f"sqlite:///{folder}/copy.db")] == [job]
    printed = answer("backup", "another.db", "--app", "shop")
    assert (printed["path"], printed["jobs"]) == (f"{folder}/another.db", 1)


def test_a_file_that_is_there_is_refused(folder: Path) -> None:
    enqueue()
    done = run("backup", "jobs.db", "--app", "shop")
    assert done.exit_code == 2
    assert "a backup replaces nothing: name another file" in done.stderr


def test_a_store_that_is_not_a_file_is_refused_with_a_remedy(folder: Path) -> None:
    done = run("backup", "copy.db", "--app", "shop:empty")
    assert done.exit_code == 1
    assert "use a SQLite file to keep jobs" in done.stderr
    done = run("backup", "copy.db", "--url", "postgresql://nobody@127.0.0.1:1/none")
    assert done.exit_code == 1
    assert "pg_dump" in done.stderr
    assert not (folder / "copy.db").exists()


def test_an_app_copies_its_store(folder: Path) -> None:
    enqueue()
    app = App(f"sqlite:///{folder}/jobs.db")
    assert app.backup(folder / "copy.db").jobs == 1
    app.close()

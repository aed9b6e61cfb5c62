"""A command that reads makes no store where none is: the name is mistyped, or nothing was enqueued yet."""

from pathlib import Path

import pytest

from tests.cli.support import run

READING = [
    *(["jobs", "list"], ["jobs", "show", "1"], ["jobs", "explain", "1"], ["jobs", "counts"], ["queues", "list"], ["top"]),
    *(["workers", "list"], ["check"], ["errors", "list"], ["schedules", "list"], ["queues", "pause", "mail"], ["prune"]),
    ["dashboard", "--port", "0"],
]


@pytest.mark.parametrize("words", READING)
def test_a_file_that_does_not_exist_is_an_error_and_is_not_made(folder: Path, words: list[str]) -> None:
    done = run(*words, "--url", "sqlite:///nosuch.db")
    assert (done.exit_code, done.stdout) == (2, "")
    remedy = "the first enqueue, worker or `holdfast migrate --url sqlite:///nosuch.db` makes it"
    assert done.stderr == f"error: nosuch.db does not exist: {remedy}\n"
    assert not list(folder.glob("nosuch.db*"))


def test_a_check_of_an_app_reports_its_own_findings_and_makes_no_file(folder: Path) -> None:
    done = run("check", "shop")
    assert done.exit_code == 0
    assert "warning\tschema\tthere is none yet" in done.stdout
    assert not list(folder.glob("jobs.db*"))


def test_migrate_makes_the_file(folder: Path) -> None:
    assert run("migrate", "--url", "sqlite:///nosuch.db").exit_code == 0
    assert (folder / "nosuch.db").exists()

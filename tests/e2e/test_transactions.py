"""User rows in the jobs' file, and child jobs, written by real workers."""

from pathlib import Path

import pytest

from proof.checker import history_sqlite
from tests.e2e.fleet import START, fleet


@pytest.mark.parametrize(
    "task", ["book", *(pytest.param(each, marks=pytest.mark.prove) for each in ("book_in_thread", "book_in_process"))]
)
def test_rows_of_an_attempt_that_failed_are_rolled_back_and_those_of_the_next_stay(tmp_path: Path, task: str) -> None:
    with fleet(tmp_path) as ships:
        ships.app.migrate()
        with history_sqlite.opened(tmp_path / "jobs.db") as connection:
            connection.execute("CREATE TABLE ledger (job TEXT, token TEXT)")
        ships.crew()
        jobs = [ships.enqueue(task, fails=fails) for fails in (True, False)]
        views = [ships.until_state(job, "completed", within=START) for job in jobs]
        assert [view.attempt for view in views] == [2, 1]
        with history_sqlite.opened(tmp_path / "jobs.db") as connection:
            booked = connection.execute("SELECT job, token FROM ledger").fetchall()
        assert sorted(job for job, _ in booked) == sorted(map(str, jobs))


def test_children_run_while_their_parent_may_still_wait_for_them(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        ships.crew()
        view = ships.until_state(ships.enqueue("have_children", many=5), "completed", within=START)
        assert isinstance(view.result, list)
        assert [ships.until_state(child, "completed", within=START).result for child in view.result] == list(range(5))

"""User rows beside the jobs in PostgreSQL, written by real workers that die or freeze in the middle."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.e2e.fleet import START, Fleet, fleet, thaw
from tests.e2e.scripted_workers import end
from tests.e2e.waiting import until

TASKS = ("book", "book_in_thread", "book_in_process")


@pytest.fixture
def ships(tmp_path: Path, postgres_dsn: str) -> Iterator[Fleet]:
    with fleet(tmp_path, url=postgres_dsn) as ships:
        ships.target = "tests.e2e.ledger_app:app"
        ships.app.migrate()
        with psycopg.connect(postgres_dsn) as connection:
            connection.execute("CREATE TABLE ledger (job text, attempt text)")
        yield ships
        print(ships.logs())  # shown if the test fails


def ledger(ships: Fleet) -> list[tuple[str, str]]:
    with closing(psycopg.connect(ships.url)) as connection:
        return sorted(connection.execute("SELECT job, attempt FROM ledger").fetchall())


@pytest.mark.timeout(120)
def test_rows_of_an_attempt_that_failed_are_rolled_back_and_those_of_the_next_stay(ships: Fleet) -> None:
    ships.crew()
    jobs = {ships.enqueue(task, what=what): attempt for task in TASKS for what, attempt in (("fails", 2), ("goes", 1))}
    for job, attempt in jobs.items():
        assert ships.until_state(job, "completed", within=START).attempt == attempt
    assert ledger(ships) == sorted((str(job), str(attempt)) for job, attempt in jobs.items())


@pytest.mark.timeout(120)
def test_s7_a_worker_killed_between_rows_and_commit_leaves_none_and_the_next_attempt_writes_them_once(ships: Fleet) -> None:
    crew = ships.crew()
    jobs = [ships.enqueue(task, what="works") for task in TASKS]
    for job in jobs:
        ships.entry(job, "booked")
    for worker in crew.workers():
        end(worker)
    for job in jobs:
        view = ships.until_state(job, "completed", within=START)
        assert (view.attempt, view.crashes) == (2, 1)
    assert ledger(ships) == sorted((str(job), "2") for job in jobs)


@pytest.mark.timeout(120)
def test_s7_workers_frozen_inside_their_transactions_delay_no_other_and_their_rows_are_not_kept(ships: Fleet) -> None:
    with closing(psycopg.connect(ships.url, autocommit=True)) as connection:
        connection.execute("CREATE UNIQUE INDEX ON ledger (job)")  # the next attempt waits for a row that is not committed
    crew = ships.crew()
    jobs = [ships.enqueue(task, what="works") for task in TASKS]
    for job in jobs:
        ships.entry(job, "booked")
    frozen = crew.freeze()
    other = ships.crew()
    for job in jobs:
        assert ships.until_state(job, "completed", within=START).attempt == 2
    thaw(frozen)
    until(lambda: other.workers() and not set(frozen[1:]) & set(crew.workers()), within=START)
    assert ledger(ships) == sorted((str(job), "2") for job in jobs)

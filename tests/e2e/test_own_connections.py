"""User rows by the users' own connections, written by real workers that freeze in the middle and thaw after their jobs were rescued."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.e2e.fleet import START, Fleet, fleet, thaw
from tests.e2e.waiting import until

TASKS = (
    "book_by_asyncpg",
    "book_by_async_session",
    "book_by_session",
    "book_by_psycopg",
    "book_by_django",
    "book_by_django_in_process",
)


@pytest.fixture
def ships(tmp_path: Path, postgres_dsn: str) -> Iterator[Fleet]:
    with fleet(tmp_path, url=postgres_dsn) as ships:
        ships.target = "tests.e2e.own_ledger_app:app"
        ships.app.migrate()
        with psycopg.connect(postgres_dsn) as connection:
            connection.execute("CREATE TABLE ledger (job text, attempt text)")
        yield ships
        print(ships.logs())  # shown if the test fails


def booked(ships: Fleet) -> list[tuple[str, str]]:
    with closing(psycopg.connect(ships.url)) as connection:
        return sorted(connection.execute("SELECT job, attempt FROM ledger").fetchall())


def waiting(ships: Fleet) -> int:
    """Count the sessions that wait for the lock of the test."""
    with closing(psycopg.connect(ships.url)) as connection:
        found = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()
    return 0 if found is None else int(found[0])


def sessions(ships: Fleet) -> list[tuple[int]]:
    """Return the sessions of handlers that still hold the lock."""
    with closing(psycopg.connect(ships.url)) as connection:
        return connection.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'").fetchall()


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_s7_workers_frozen_inside_their_own_transactions_are_rescued_and_commit_nothing_when_they_thaw(ships: Fleet) -> None:
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
    assert booked(ships) == sorted((str(job), "2") for job in jobs)


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_s3_workers_that_thaw_in_the_middle_of_a_statement_find_their_jobs_taken_and_commit_nothing(ships: Fleet) -> None:
    with closing(psycopg.connect(ships.url)) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(7)")  # their statements wait, so the server ends no idle transaction
        crew = ships.crew()
        jobs = [ships.enqueue(task, what="locked") for task in TASKS]
        for job in jobs:
            ships.entry(job, "booked")
        until(lambda: waiting(ships) == len(jobs), within=START)
        frozen = crew.freeze()
        other = ships.crew()
        for job in jobs:
            assert ships.until_state(job, "completed", within=START).attempt == 2
        assert waiting(ships) == len(jobs)
    thaw(frozen)
    until(lambda: other.workers() and not set(frozen[1:]) & set(crew.workers()), within=START)
    until(lambda: not sessions(ships), within=START)
    assert booked(ships) == sorted((str(job), "2") for job in jobs)

"""A user's trigger refuses the outcome of one job: the worker lives on, and runs all other jobs."""

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from holdfast import App
from holdfast._engine.worker.refused_outcomes import PAUSES
from holdfast.errors import StoreRefused
from tests.e2e.fleet import START, fleet
from tests.e2e.server_site import ON_BOTH
from tests.e2e.waiting import STALL, until

SETTINGS = {"ttl": "3s", "recovery": "0.5s"}
TTL = 3.0
"""Seconds after which a worker whose outcome gets no answer is replaced."""


def refuse(folder: Path, dsn: str, job: UUID) -> None:
    """Create a trigger that refuses every move of the job's row."""
    if dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the trigger refuses'; END $$"
            )
            connection.execute(
                "CREATE TRIGGER refuse BEFORE DELETE ON holdfast.active FOR EACH ROW "
                f"WHEN (OLD.id = '{job}') EXECUTE FUNCTION refuse()"
            )
    else:
        with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as connection:
            connection.execute(
                f"CREATE TRIGGER refuse BEFORE UPDATE OF state ON holdfast_jobs WHEN OLD.id = x'{job.hex}' "
                "BEGIN SELECT RAISE(ABORT, 'the trigger refuses'); END"
            )


def allow(folder: Path, dsn: str) -> None:
    """Drop the trigger from the table."""
    if dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP TRIGGER refuse ON holdfast.active")
    else:
        with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER refuse")


@ON_BOTH
def test_l11_an_outcome_that_a_trigger_refuses_delays_no_other_job_and_costs_no_worker(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, **SETTINGS) as ships:
        crew = ships.crew("--concurrency", "3")
        workers = crew.workers()
        stuck = ships.enqueue("wait", gate="gate")
        ships.entry(stuck, "start")
        refuse(tmp_path, store_url, stuck)
        ships.open("gate")
        started = time.monotonic()
        while time.monotonic() - started < 2 * TTL:
            others = [ships.enqueue("wait", gate="gate") for _ in range(6)]
            for job in others:
                assert ships.until_state(job, "completed", within=STALL).attempt == 1
        assert crew.workers() == workers
        assert ships.view(stuck).state == "running"
        assert "store.refused" in crew.log_text()
        assert "the trigger refuses" in crew.log_text()
        allow(tmp_path, store_url)
        assert ships.until_state(stuck, "completed", within=PAUSES.cap).attempt == 1
        assert "store.unavailable" not in crew.log_text()


def test_l7_a_worker_whose_outcome_a_trigger_refuses_ends_within_its_grace(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, grace="1s", **SETTINGS) as ships:
        crew = ships.crew()
        stuck = ships.enqueue("wait", gate="gate")
        ships.entry(stuck, "start")
        refuse(tmp_path, store_url, stuck)
        ships.open("gate")
        until(lambda: "store.refused" in crew.log_text(), within=STALL)
        crew.send(signal.SIGTERM)
        assert crew.wait(1.0 + 2 * STALL) == 0
        assert "worker.killed" not in crew.log_text()
        allow(tmp_path, store_url)
        ships.crew()
        assert ships.until_state(stuck, "completed", within=START).crashes == 0


def test_l11_run_due_runs_all_other_jobs_and_raises_what_the_store_refuses(tmp_path: Path) -> None:
    app, ran = App(f"sqlite:///{tmp_path}/jobs.db"), list[int]()

    @app.task()
    def work(number: int) -> None:
        ran.append(number)

    stuck, free = app.enqueue("work", number=1), app.enqueue("work", number=2)
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
        connection.execute(
            f"CREATE TRIGGER refuse BEFORE UPDATE OF state ON holdfast_jobs WHEN OLD.id = x'{stuck.id.hex}' "
            "AND NEW.state = 'completed' BEGIN SELECT RAISE(ABORT, 'the trigger refuses'); END"
        )
    with pytest.raises(StoreRefused, match="the trigger refuses"):
        app.run_due()
    assert ran == [1, 2]
    assert app.jobs.get(free.id).state == "completed"
    allow(tmp_path, "")
    app.close()

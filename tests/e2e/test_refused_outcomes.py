"""A trigger of the user's refuses the outcome of one job: its worker lives, and works off all others."""

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

import psycopg

from holdfast._engine.refused import PAUSES
from tests.e2e.fleet import START, fleet
from tests.e2e.waiting import STALL, until

SETTINGS = {"ttl": "3s", "recovery": "0.5s"}
TTL = 3.0
"""Of them: a worker that the store does not answer for so long is replaced."""


def refuse(folder: Path, dsn: str, job: UUID) -> None:
    """Have a trigger refuse that its row leaves its place."""
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
    """Drop the trigger."""
    if dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP TRIGGER refuse ON holdfast.active")
    else:
        with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER refuse")


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
        assert "store.refused" in crew.said()
        assert "the trigger refuses" in crew.said()
        allow(tmp_path, store_url)
        assert ships.until_state(stuck, "completed", within=PAUSES.cap).attempt == 1
        assert "store.unavailable" not in crew.said()


def test_l7_a_worker_whose_outcome_a_trigger_refuses_ends_within_its_grace(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, grace="1s", **SETTINGS) as ships:
        crew = ships.crew()
        stuck = ships.enqueue("wait", gate="gate")
        ships.entry(stuck, "start")
        refuse(tmp_path, store_url, stuck)
        ships.open("gate")
        until(lambda: "store.refused" in crew.said(), within=STALL)
        crew.send(signal.SIGTERM)
        assert crew.wait(1.0 + 2 * STALL) == 0
        assert "worker.killed" not in crew.said()
        allow(tmp_path, store_url)
        ships.crew()
        assert ships.until_state(stuck, "completed", within=START).crashes == 0

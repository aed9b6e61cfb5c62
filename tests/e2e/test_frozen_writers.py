"""SQLite has one writer at a time: a writer that is frozen inside a write, or a slow foreign one, blocks all others."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from proof.checker import history_sqlite
from tests.e2e.fleet import START, Fleet, fleet, stop, thaw
from tests.e2e.scripted_workers import is_alive
from tests.e2e.waiting import until

OUTAGE = float(os.environ.get("E2E_OUTAGE", "3.5"))
"""Seconds for which no connection can write: more than the ttl. The acceptance run used 20."""
TTL = 3.0
FOREIGN = """
import sys
from pathlib import Path
from holdfast.databases.sqlite import driver
connection = driver.connect(Path(sys.argv[1]), use_apsw=driver.is_apsw())
connection.execute("PRAGMA busy_timeout = 60000")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE holdfast_sequence SET claim_number = claim_number")
print("inside", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


@contextmanager
def foreign_writer(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a foreign process inside a write of the jobs' file."""
    words = [sys.executable, "-c", FOREIGN, str(folder / "jobs.db")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def written(ships: Fleet) -> list[str]:
    with history_sqlite.opened(ships.folder / "jobs.db") as connection:
        return [token for (token,) in connection.execute("SELECT token FROM written").fetchall()]


@pytest.mark.timeout(120)
def test_l8_a_foreign_writer_that_is_frozen_for_longer_than_the_ttl_charges_no_job_and_loses_nothing(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        crews = [ships.crew(), ships.crew()]
        running = [ships.enqueue("wait", gate="running") for _ in range(3)]
        ending = ships.enqueue("wait", gate="ending")
        for job in (*running, ending):
            ships.entry(job, "start")
        workers = [crew.workers() for crew in crews]
        with foreign_writer(tmp_path) as foreign:
            stop([foreign.pid])
            frozen = time.monotonic()
            ships.open("ending")
            ships.entry(ending, "end")
            until(lambda: time.monotonic() - frozen > OUTAGE, within=OUTAGE + START)
            thaw([foreign.pid])
        ships.open("running")
        for job in running:
            view = ships.until_state(job, "completed", within=START)
            assert (view.crashes, view.failures) == (0, 0)
        view = ships.until_state(ending, "completed", within=START)
        assert (view.attempt, view.crashes, view.result) == (1, 0, ships.entry(ending, "start")["token"])
        assert [crew.workers() for crew in crews] == workers
        assert " taken from " not in ships.logs()


def test_l8_code_that_outlasts_an_outage_and_cannot_be_stopped_ends_with_its_worker_free_of_charge(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        ships.crew()
        job = ships.enqueue("wait_in_thread", gate="gate")
        worker = ships.entry(job, "start")["pid"]
        with foreign_writer(tmp_path):
            until(lambda: not is_alive(worker), within=TTL + START)
        ships.entry(job, "start", number=2)
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert (view.attempt, view.crashes, view.failures) == (2, 0, 0)


def test_s10_an_enqueue_that_meets_a_foreign_writer_waits_for_it_and_is_applied_once(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships, ThreadPoolExecutor(1) as client:
        ships.app.migrate()
        with foreign_writer(tmp_path):
            asked = client.submit(ships.enqueue, "count", number=1)
            with pytest.raises(TimeoutError):
                asked.result(timeout=0.5)
        assert [view.id for view in ships.app.jobs.list()] == [asked.result(timeout=START)]


@pytest.mark.parametrize(
    "task", ["stop_inside_a_transaction", pytest.param("stop_inside_a_transaction_of_a_runner", marks=pytest.mark.prove)]
)
def test_s7_a_handler_frozen_inside_its_transaction_blocks_others_briefly_and_its_rows_are_not_kept(
    tmp_path: Path, task: str
) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        ships.target = "tests.e2e.fault_jobs:app"
        ships.crew("--concurrency", "1")
        job = ships.enqueue(task)
        first = ships.entry(job, "start")
        frozen = time.monotonic()
        until(lambda: not is_alive(first["pid"]), within=TTL + 2)
        print(f"ended after {time.monotonic() - frozen:.2f} s")
        view = ships.until_state(job, "completed", within=START)
        second = ships.entry(job, "start", number=2)
        assert view.result == second["token"]
        assert written(ships) == [second["token"]]
        assert view.crashes <= 1
        ships.until_state(ships.enqueue("count", number=1), "completed", within=START)

"""Code that blocks its whole process: the supervisor renews the lease, so nothing is lost and nothing runs twice."""

import signal
from pathlib import Path

import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.scripted_workers import is_alive
from tests.e2e.waiting import until


@pytest.mark.parametrize("task", [pytest.param("block_the_loop", marks=pytest.mark.prove), "hold_the_gil"])
def test_code_that_blocks_its_worker_for_three_ttls_keeps_its_job(tmp_path: Path, task: str) -> None:
    with fleet(tmp_path, ttl="1s", recovery="0.2s") as ships:
        ships.crew()
        job = ships.enqueue(task, seconds=3.0)
        began = ships.entry(job, "start")
        ships.crew()
        done = ships.entry(job, "end", within=60)
        assert done["time"] - began["time"] >= 3.0
        view = ships.until_state(job, "completed", within=START)
        assert (view.attempt, view.crashes, view.result) == (1, 0, began["token"])
        assert len(ships.journal.read(job, "start")) == 1


def test_blocked_code_ends_at_its_deadline_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="1s", recovery="0.2s") as ships:
        crew = ships.crew()
        job = ships.enqueue("block_the_loop", seconds=20.0)
        worker = ships.entry(job, "start")["pid"]
        ships.crew()
        crew.send(signal.SIGKILL)
        ships.entry(job, "start", number=2)
        assert not is_alive(worker)
        assert ships.journal.read(job, "end") == []


def test_code_that_ignores_cancellation_is_ended_with_its_process_and_only_its_job_pays(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", grace="0.5s") as ships:
        ships.crew()
        unresponsive = ships.enqueue("ignore_cancellation", gate="gate")
        sibling = ships.enqueue("wait", gate="gate")
        worker = ships.entry(unresponsive, "start")["pid"]
        assert ships.entry(sibling, "start")["pid"] == worker
        ships.app.jobs.cancel([unresponsive])
        ships.entry(unresponsive, "ignored")
        assert ships.until_state(unresponsive, "cancelled", within=START).reason == "BY_OPERATOR"
        until(lambda: not is_alive(worker), within=START)
        ships.entry(sibling, "start", number=2)
        ships.open("gate")
        assert ships.until_state(sibling, "completed", within=START).crashes == 0

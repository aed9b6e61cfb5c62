"""Wall clocks that are wrong or step: no lease is judged by them, and due times are right again when the clock is."""

import os
import signal
import time
from pathlib import Path

import pytest

from holdfast._system import clock
from tests.e2e import wrong_clocks
from tests.e2e.fleet import START, Fleet, fleet
from tests.e2e.waiting import until

HOUR = 3600.0
MAIN = ("-c", "from tests.e2e.wrong_clocks import supervise; supervise()")


def wrong(ships: Fleet, *, worker: float, supervisor: float = 0.0) -> None:
    """Set the clock errors of those processes from now on."""
    ships.main, ships.target = MAIN, "tests.e2e.fault_jobs:app"
    wrong_clocks.set_wrong(ships.folder, "worker", worker)
    wrong_clocks.set_wrong(ships.folder, "supervisor", supervisor)


def pass_time(seconds: float) -> None:
    by = time.monotonic() + seconds
    until(lambda: time.monotonic() > by, within=seconds + 1)


@pytest.mark.prove
def test_s5_wall_clocks_that_step_by_an_hour_to_and_fro_judge_no_lease(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        ships.crew("--queues", "none")  # a supervisor whose clocks are right
        wrong(ships, worker=0.0)
        ships.crew()
        waiting, moving = ships.enqueue("wait", gate="gate"), ships.enqueue("move_slowly", seconds=3.5)
        worker = ships.entry(waiting, "start")["pid"]
        ships.entry(moving, "start")
        for hours in (1, -1):
            wrong(ships, worker=hours * HOUR, supervisor=-hours * HOUR)
            pass_time(1.5)  # the next recovery pass would end the lease
        assert " taken from " not in ships.logs()
        assert "lease.ended" not in ships.logs()
        assert "clock_stepped" not in ships.logs()
        assert ships.until_state(moving, "completed", within=START).attempt == 1
        wrong(ships, worker=0.0)
        os.kill(worker, signal.SIGKILL)
        ships.entry(waiting, "start", number=2)
        ships.open("gate")
        view = ships.until_state(waiting, "completed", within=START)
        assert (view.attempt, view.crashes, view.failures) == (2, 1, 0)


def test_s5_a_crew_whose_wall_clock_is_wrong_from_the_start_rescues_within_the_bound(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        doomed = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        wrong(ships, worker=HOUR, supervisor=HOUR)
        ships.crew()
        killed = time.monotonic()
        doomed.kill()
        assert ships.entry(job, "start", number=2)["time"] - killed <= 3 + 0.3 + 2
        ships.open("gate")
        assert ships.until_state(job, "completed", within=START).attempt == 2  # it may be released first


def test_l2_a_worker_whose_clock_was_set_back_takes_what_is_due_once_it_is_right_again(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        wrong(ships, worker=-HOUR)
        crew = ships.crew()
        job = ships.enqueue("count", number=1)
        pass_time(0.6)  # some polls
        assert ships.view(job).state == "available"
        wrong(ships, worker=0.0)
        ships.until_state(job, "completed", within=2.0)
        assert len(crew.workers()) == 1


def test_l4_a_job_of_a_client_whose_clock_was_ahead_waits_is_reported_and_can_be_hurried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fleet(tmp_path) as ships:
        with monkeypatch.context() as patched:
            patched.setattr(clock, "time", wrong_clocks.WrongTime(tmp_path / "wall-client"))
            wrong_clocks.set_wrong(tmp_path, "client", HOUR)
            late = ships.enqueue("count", number=1)
            wrong_clocks.set_wrong(tmp_path, "client", -HOUR)
            early = ships.enqueue("count", number=2)
        ships.crew()
        after = ships.enqueue("count", number=3)
        for job in (early, after):
            ships.until_state(job, "completed", within=START)
        view = ships.view(late)
        assert (view.state, view.attempt) == ("scheduled", 0)
        assert [finding.level for finding in ships.app.check() if finding.name == "clock"] == ["warning"]
        ships.app.jobs.reschedule([late], delay="0s")
        assert ships.until_state(late, "completed", within=START).attempt == 1

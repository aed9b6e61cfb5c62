"""Jobs that report no progress, or do not end, under real supervisors."""

from pathlib import Path

from tests.e2e.fleet import START, fleet
from tests.e2e.waiting import until


def test_code_without_progress_is_stopped_and_its_worker_lives_on(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()
        (worker,) = crew.workers()
        job, sibling = ships.enqueue("stand_still"), ships.enqueue("wait", gate="gate")
        view = ships.until_state(job, "failed", within=START)
        assert (view.reason, view.failures, view.crashes) == ("STALLED", 1, 0)
        assert view.attempts[0].outcome == "stalled"
        assert "in stand_still" in (view.attempts[0].stacks or "")
        assert crew.workers() == [worker]
        ships.open("gate")
        assert ships.until_state(sibling, "completed", within=START).attempt == 1


def test_a_long_job_that_moves_is_left_alone(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        ships.crew()
        job = ships.enqueue("move_slowly", seconds=6.0)
        assert ships.until_state(job, "completed", within=20).attempt == 1


def test_s9_a_thread_past_its_limit_costs_its_worker_and_only_itself(tmp_path: Path) -> None:
    with fleet(tmp_path, grace="1s") as ships:
        crew = ships.crew()
        (worker,) = crew.workers()
        job, sibling = ships.enqueue("overstay", gate="never"), ships.enqueue("wait", gate="gate")
        ships.entry(sibling, "start")
        view = ships.until_state(job, "failed", within=20)
        assert (view.reason, view.failures, view.crashes) == ("TIMED_OUT", 1, 0)
        attempt = view.attempts[0]
        assert (attempt.outcome, attempt.signal) == ("timed_out", "SIGKILL")
        assert "overstay" in (attempt.stacks or "")
        until(lambda: crew.workers() not in ([], [worker]), within=START)
        ships.open("gate")
        beside = ships.until_state(sibling, "completed", within=START)
        assert (beside.crashes, beside.failures) == (0, 0)


def test_code_that_blocks_its_loop_past_its_limit_is_ended_too(tmp_path: Path) -> None:
    with fleet(tmp_path, grace="1s") as ships:
        ships.crew()
        job = ships.enqueue("overstay_on_the_loop")
        view = ships.until_state(job, "failed", within=20)
        assert (view.reason, view.attempts[0].outcome) == ("TIMED_OUT", "timed_out")
        assert "overstay_on_the_loop" in (view.attempts[0].stacks or "")

"""Handlers that take more memory than there is: the kernel ends their process, and the attempt records it."""

from pathlib import Path

import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.memory_limits import cage
from tests.e2e.waiting import until


@pytest.mark.parametrize("version", [1, 2])
def test_s9_a_job_that_takes_all_memory_is_quarantined_after_three_kills_and_each_records_why(
    tmp_path: Path, version: int
) -> None:
    with cage(tmp_path, version) as caged, fleet(tmp_path) as ships:
        ships.main, ships.target = caged.main, "tests.e2e.fault_jobs:app"
        if caged.counter is not None:
            ships.environment["E2E_MEMORY_KILLS"] = str(caged.counter)
        ships.crew("--concurrency", "4")
        sibling = ships.enqueue("wait", gate="gate")
        ships.entry(sibling, "start")
        glutton = ships.enqueue("eat")
        view = ships.until_state(glutton, "failed", within=2 * START)
        assert (view.reason, view.crashes, view.failures) == ("WORKER_CRASHED", 3, 0)
        assert {each.signal for each in view.attempts} == {"SIGKILL (out of memory)"}
        assert len(ships.journal.read(glutton, "start")) == 3
        ships.open("gate")
        innocent = ships.until_state(sibling, "completed", within=START)
        assert innocent.crashes < 3


def test_s9_a_runner_that_takes_all_memory_ends_without_others_and_its_attempt_records_why(tmp_path: Path) -> None:
    with cage(tmp_path, 1) as caged, fleet(tmp_path) as ships:
        ships.main, ships.target = caged.main, "tests.e2e.fault_jobs:app"
        if caged.counter is not None:
            ships.environment["E2E_MEMORY_KILLS"] = str(caged.counter)
        crew = ships.crew()
        (worker,) = crew.workers()
        sibling = ships.enqueue("wait", gate="gate")
        ships.entry(sibling, "start")
        glutton = ships.enqueue("eat_in_runner")
        view = until(lambda: (view := ships.view(glutton)).attempts and view, within=START)
        assert view.attempts[0].signal == "SIGKILL (out of memory)"
        assert crew.workers() == [worker]
        ships.open("gate")
        assert ships.until_state(sibling, "completed", within=START).crashes == 0

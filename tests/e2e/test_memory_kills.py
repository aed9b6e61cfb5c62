"""Handlers that allocate more memory than there is: the kernel kills their process, and the attempt records it."""

from pathlib import Path

import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.memory_limits import limited_memory
from tests.e2e.waiting import until


@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.prove), 2])
def test_s9_a_job_that_takes_all_memory_is_quarantined_after_three_kills_and_each_records_why(
    tmp_path: Path, version: int
) -> None:
    with limited_memory(tmp_path, version, protects_supervisor=True) as limit, fleet(tmp_path) as ships:
        ships.main, ships.target = limit.main, "tests.e2e.fault_jobs:app"
        if limit.counter is not None:
            ships.environment["E2E_MEMORY_KILLS"] = str(limit.counter)
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
    with limited_memory(tmp_path, 1) as limit, fleet(tmp_path) as ships:
        ships.main, ships.target = limit.main, "tests.e2e.fault_jobs:app"
        if limit.counter is not None:
            ships.environment["E2E_MEMORY_KILLS"] = str(limit.counter)
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

"""Signals for a crew whose jobs run in separate processes."""

import signal
from pathlib import Path

import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.scripted_workers import is_alive
from tests.e2e.waiting import until


@pytest.mark.parametrize(
    ("task", "payload"), [pytest.param("wait_in_runner", {"gate": "gate"}, marks=pytest.mark.prove), ("breed", {})]
)
def test_l7_a_second_signal_ends_runners_at_once_with_all_they_started(
    tmp_path: Path, task: str, payload: dict[str, str]
) -> None:
    with fleet(tmp_path, grace="600s") as ships:
        ships.target = "tests.e2e.runner_jobs:app"
        crew = ships.crew()
        job = ships.enqueue(task, **payload)
        started = ships.entry(job, "start")
        crew.send(signal.SIGTERM)
        until(lambda: "drain" in crew.log_text(), within=START)
        assert ships.view(job).state == "running"
        assert is_alive(started["pid"])
        crew.send(signal.SIGTERM)
        assert crew.wait(START) == 0
        assert not [pid for pid in (started["pid"], *started.get("children", ())) if is_alive(pid)]
        view = ships.view(job)
        assert (view.state, view.crashes, view.failures) == ("available", 0, 0)

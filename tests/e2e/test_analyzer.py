"""The demo's analysis under real workers: killed repeatedly, it gives the results of an undisturbed run."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from analyzer.bookmark import Bookmark
from analyzer.sample import generate

from holdfast import App, JobView
from tests.e2e.waiting import until

REPOSITORY = os.environ.get("E2E_REPOSITORY")
KILLS = 3
TASKS = """
from holdfast import App
from analyzer.task import analyze

app = App("sqlite:///jobs.db", poll_interval="50ms")
app.task(name="analyze", max_crashes=20)(analyze)
"""


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_results_of_a_killed_analysis_are_byte_for_byte_those_of_an_undisturbed_one(tmp_path: Path) -> None:
    repository = REPOSITORY or str(tmp_path / "sample.git")
    if not REPOSITORY:
        generate(tmp_path / "sample.git", 200)
    (tmp_path / "tasks.py").write_text(TASKS)
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    command = [sys.executable, "-m", "holdfast.cli", "worker", "tasks", "--processes", "2", "--log-level", "error"]
    worker = subprocess.Popen(command, cwd=tmp_path)
    try:
        calm = app.enqueue("analyze", repo=repository, out=str(tmp_path / "calm"), batch=5)
        calm.result(timeout=60)
        hurt = app.enqueue("analyze", repo=repository, out=str(tmp_path / "hurt"), batch=5, pace=0.05)
        for kill in range(1, KILLS + 1):
            _kill_the_owner(app, hurt.get, attempt=kill)
        hurt.result(timeout=60)
        view = hurt.get()
    finally:
        worker.terminate()
        worker.wait(20)
        app.close()
    assert view.attempt == KILLS + 1
    assert [attempt.outcome for attempt in view.attempts] == ["crashed"] * KILLS + ["completed"]
    for kind in ("json", "csv"):
        assert (tmp_path / "hurt" / f"evolution.{kind}").read_bytes() == (tmp_path / "calm" / f"evolution.{kind}").read_bytes()
    assert json.loads((tmp_path / "hurt" / "evolution.json").read_text())["commits"]


def _kill_the_owner(app: App, look: Callable[[], JobView], *, attempt: int) -> None:
    """Kill the worker once it has counted a random part of the history."""
    part = random.Random(attempt).uniform(attempt - 1, attempt) / (KILLS + 1)

    def has_counted_so_far() -> JobView | None:
        view = look()
        assert view.state not in ("completed", "failed"), "it ended before it could be killed"
        found = Bookmark.from_json(view.checkpoint)
        is_far = found is not None and found.next >= part * found.sampled
        return view if view.state == "running" and view.attempt == attempt and is_far else None

    seen = until(has_counted_so_far, within=30)
    owner = next(each for each in app.workers.list() if each.worker == seen.worker)
    os.kill(owner.process.pid, signal.SIGKILL)

"""A process that dies inside a write of a workflow leaves nothing of that write, and the workflow goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.fleet import ROOT, START, Fleet, fleet
from tests.e2e.waiting import until

WIDTH = 10_000


def die(ships: Fleet, *words: str) -> None:
    """Run a process that dies in its write."""
    environment = {**os.environ, **ships.environment, "E2E_FOLDER": str(ships.folder), "HOLDFAST_URL": ships.url}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.e2e.half_written", *words], cwd=ROOT, env=environment, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL


def counts(ships: Fleet) -> dict[str, int]:
    return {state: number for state, number in ships.app.jobs.counts().items() if number}


@pytest.mark.timeout(120)
def test_s19_a_worker_killed_in_the_middle_of_a_wide_release_leaves_all_of_its_dependents_waiting(
    tmp_path: Path, store_url: str
) -> None:
    with fleet(tmp_path, url=store_url) as ships:
        ships.target = "tests.e2e.wide_app:app"
        ships.app.migrate()
        die(ships, "run", str(WIDTH))
        assert counts(ships) == {"running": 1, "blocked": WIDTH + 1}
        ships.crew("--queues", "default")
        until(lambda: counts(ships) == {"completed": 1, "available": WIDTH, "blocked": 1}, within=4 * START)
        assert len(ships.journal.read(what="start")) == 2
        (root,) = ships.app.workflows.list()
        assert ships.app.workflows.recover_stuck(root.id).repairs == ()


@pytest.mark.timeout(120)
def test_s10_a_retry_killed_in_its_write_changes_nothing_and_can_be_sent_again(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url) as ships:
        ships.target = "tests.e2e.wide_app:app"
        ships.app.migrate()
        ships.open("broken")
        handle = ships.app.enqueue("wide", width=100)
        ships.crew("--until-empty", is_ready=False).wait(START)
        assert counts(ships) == {"failed": 102}
        die(ships, "workflows", "retry", str(handle.id))
        assert counts(ships) == {"failed": 102}
        (tmp_path / "broken").unlink()
        assert ships.app.workflows.retry(handle.id) == "blocked"
        ships.crew("--until-empty", is_ready=False).wait(2 * START)
        assert counts(ships) == {"completed": 102}

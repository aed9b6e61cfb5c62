"""Real processes killed and frozen over and over, and a checker that reads what really happened to every row."""

import os
import random
from pathlib import Path

import pytest

from holdfast.testing.checker import Rules
from tests.e2e.fleet import fleet
from tests.e2e.machines import HERE
from tests.e2e.tormentor import SEED, Tormentor

CYCLES, JOBS = int(os.environ.get("E2E_CYCLES", "50")), int(os.environ.get("E2E_JOBS", "500"))
FREEZES = int(os.environ.get("E2E_FREEZES", "3"))


@pytest.mark.timeout(600)
def test_nothing_is_lost_owned_twice_or_stuck_however_often_workers_are_killed(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.5s") as ships:
        tormentor = Tormentor(ships, random.Random(SEED), [HERE, HERE])
        for cycle in range(CYCLES):
            tormentor.enqueue(JOBS * (cycle + 1) // CYCLES - tormentor.jobs)
            tormentor.pause(0.3)
            tormentor.kill_somebody()
        report = tormentor.stop(Rules(bound=3.003 + 0.5 + 2.0))
        assert report.starts > JOBS
        assert report.checked["L1"] > 0
        assert sum(deed.what == "process.end" for deed in tormentor.deeds) >= CYCLES


@pytest.mark.timeout(600)
def test_zombies_change_nothing_however_often_they_wake(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.5s") as ships:
        tormentor = Tormentor(ships, random.Random(SEED), [HERE, HERE])
        for cycle in range(FREEZES):
            tormentor.enqueue(30)
            tormentor.pause(0.5)
            tormentor.freeze_crew(tormentor.crews[cycle % 2], 4.0)
        report = tormentor.stop(Rules(bound=3.003 + 0.5 + 2.0))
        assert report.starts > tormentor.jobs

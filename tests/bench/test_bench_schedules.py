"""`python -m bench.schedules` finds one job for each tick; no test judges its figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_killed_supervisors_with_wrong_clocks_fire_each_tick_once(tmp_path: Path) -> None:
    options = ["--schedules", "20", "--every", "1", "--supervisors", "2", "--seconds", "5", "--folder", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "bench.schedules", *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^(\d+) ticks, (\d+) jobs; ticks without a job 0, jobs without a tick 0$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    assert int(found[1]) >= 20
    assert list(tmp_path.iterdir()) == []

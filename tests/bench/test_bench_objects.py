"""`python -m bench.objects` measures each queue, and shows what faults do to each; no test judges its figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_only_the_design_by_hand_runs_jobs_twice() -> None:
    parts = ["rates", "contention", "faults", "--latency", "0.002", "--seconds", "0.2", "--writers", "2", "--jobs", "400"]
    done = subprocess.run([sys.executable, "-m", "bench.objects", *parts], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^│ (5%|the broker)[^│]*│ ([^│]*?) *│ (\d+) *│ (\d+) *│ (\d+) *│ (\d+) *│$", done.stdout, re.MULTILINE)
    assert len(rows) == 4, done.stdout
    for _, name, *numbers in rows:
        jobs, once, more, left = map(int, numbers)
        assert once + more + left == jobs
        assert (once == jobs) is (name == "holdfast"), done.stdout

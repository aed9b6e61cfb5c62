"""`python -m bench.backlog` kills workers behind a backlog and times every job; no test judges the figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("store", ["memory", *(pytest.param(each, marks=pytest.mark.prove) for each in ("sqlite", "postgres"))])
def test_every_job_of_a_killed_worker_is_timed(store: str, tmp_path: Path) -> None:
    small = ["--store", store, "--waiting", "500", "--kills", "2", "--concurrency", "4", "--seconds", "0.5"]
    command = [sys.executable, "-m", "bench.backlog", *small, "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"2 kills, (\d+) jobs cut short\n.*p50 ([\d.]+) s, p99 ([\d.]+) s, max ([\d.]+) s\ntarget", done.stdout)
    assert found is not None, done.stdout
    jobs, *figures = found.groups()
    assert 1 <= int(jobs) <= 8
    assert 0.0 < float(figures[0]) <= float(figures[1]) <= float(figures[2])
    assert list(tmp_path.iterdir()) == []

"""`python -m bench.workflows` prints a figure of each kind on each store; no test judges its figures."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ["--nodes", "60", "--room", "10", "--depth", "20", "--children", "50", "--layers", "20", "--rounds", "1"]


@pytest.mark.prove
@pytest.mark.timeout(120)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_members_of_workflows_are_measured_beside_plain_jobs(store: str, tmp_path: Path) -> None:
    options = [*SMALL, "--store", store, "--folder", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "bench.workflows", *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == [
        "60 nodes in layers of 10",
        "a chain of 20",
        "one parent releases 50 children",
        "the first of a chain of 20 fails",
        "a worker, 20 ordered nodes in layers of 10",
        "a worker, 20 typed nodes in layers of 10",
    ]
    assert list(tmp_path.iterdir()) == []

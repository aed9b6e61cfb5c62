"""`python -m bench.runners` replaces leaking processes and kills late ones; no test judges its figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_leaking_processes_are_replaced_and_a_late_one_is_killed_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.runners", "--jobs", "24", "--limits", "1", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"50 MB: (\d+) processes, at most (\d+) jobs in one\ncrashes 0;", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= 2
    assert int(found[2]) <= 10
    assert "siblings untouched" in done.stdout
    assert "wrong" not in done.stdout
    assert "did not complete" not in done.stdout
    assert list(tmp_path.iterdir()) == []

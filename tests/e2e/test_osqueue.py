"""examples/osqueue: a broker and a worker are killed, and every job completes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = Path(__file__).parents[2] / "examples" / "osqueue" / "show.py"


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_every_job_completes_though_the_leader_and_a_worker_are_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SHOW, "--jobs", "10"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 10 jobs have completed" in done.stdout
    assert re.search(r"^ +7 jobs needed 1 attempt\n +3 jobs needed 2 attempts$", done.stdout, re.MULTILINE), done.stdout

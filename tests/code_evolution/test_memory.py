"""A worker stays small at any length of history: measured in a real one, git apart."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import App
from tests.code_evolution.support import git, make_repository

COMMITS = 3200
FILES = 40
TASKS = """
import re
from pathlib import Path

from holdfast import App, Job
from analyzer.task import analyze

app = App("sqlite:///jobs.db", poll_interval="50ms")


@app.task
async def measured(job: Job, repo: str, out: str) -> dict:
    found = await analyze(job, repo, out, batch=200)
    status = Path("/proc/self/status").read_text()
    return {"commits": found["commits"], "peak": int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024}
"""


def history(commits: int) -> bytes:
    """A stream for fast-import: every commit changes two files of a tree of forty."""
    parts = []
    for number in range(commits):
        parts.append(b"commit refs/heads/main\ncommitter A <a> %d +0000\ndata 0\n" % (1_600_000_000 + number * 3600))
        for place in (number % FILES, number * 7 % FILES):
            content = b"line %d\n" % number * (20 + number % 60)
            parts.append(b"M 644 inline d%d/f%d.py\ndata %d\n" % (place % 5, place, len(content)) + content)
    return b"".join(parts)


@pytest.mark.prove
@pytest.mark.timeout(90)
def test_memory_does_not_grow_with_history(tmp_path: Path) -> None:
    """The peak of one worker process after a short history, and after a long one; in MB."""
    for name, commits in {"short": 60, "long": COMMITS}.items():
        git(make_repository(tmp_path / name), "fast-import", "--quiet", stdin=history(commits))
    (tmp_path / "tasks.py").write_text(TASKS)
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    command = [sys.executable, "-m", "holdfast.cli", "worker", "tasks", "--processes", "1", "--log-level", "error"]
    worker = subprocess.Popen(command, cwd=tmp_path)
    try:
        peaks = {}
        for name, commits in {"short": 60, "long": COMMITS}.items():
            job = app.enqueue("measured", repo=str(tmp_path / name), out=str(tmp_path / f"out-{name}"))
            result = job.result(timeout=60)
            assert isinstance(result, dict)
            assert result["commits"] == commits
            peaks[name] = float(str(result["peak"]))
    finally:
        worker.terminate()
        worker.wait(20)
        app.close()
    assert 10 < peaks["short"] < peaks["long"] + 1
    assert peaks["long"] < 120
    assert peaks["long"] - peaks["short"] < 5  # the bounded cache of counted blobs, and buffers

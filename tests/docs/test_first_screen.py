"""The first screen of the README: its commands are typed as they stand there, and answer as it shows.

Only the wait before the kill is another one: the test waits for the job's progress, because a busy machine may need longer than
a reader's. Nothing is installed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from holdfast import App
from tests.docs.pages import ROOT, Command, blocks_of, commands_of

CODE, TYPED, *_ = blocks_of(ROOT / "README.md")
ENVIRONMENT, INSTALL, ENQUEUE, WORK = commands_of(TYPED)
WAIT = "sleep 4;"
PATTERNS = {
    r"\d\d:\d\d:\d\d\.\d{3}": "TIME",
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "ID",
    r"\bcount [0-9a-f]{6}\b": "count ID",
    r"\bfrom \S+-\d+-[0-9a-f]{8}\b": "from WORKER",
    r"\b\d+ %": "PART %",
    r"\b(after|in) [\d.]+ m?s\b": r"\1 SECONDS",
}


def sentences(text: str) -> list[str]:
    """Return the lines about the job, with patterns for what differs from run to run."""
    lines = [line for line in text.splitlines() if re.match(r"\S+ (warning|info) +count ", line)]
    for pattern, word in PATTERNS.items():
        lines = [re.sub(pattern, word, line) for line in lines]
    return lines


def shown(command: Command) -> str:
    assert command.answer is not None
    return command.answer


def type_it(command: str, folder: Path) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(
        ["bash", "--norc", "-c", command], cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=both, text=True
    )


def progress_of(url: str, id: UUID) -> None:
    """Return once the job has a checkpoint."""
    app = App(url)
    try:
        assert any(job.checkpoint for job in app.jobs.follow(id, every="100ms"))
    finally:
        app.close()


@pytest.mark.timeout(120)
def test_the_job_of_the_first_screen_survives_as_it_shows(tmp_path: Path) -> None:
    assert CODE.file is not None
    (tmp_path / CODE.file).write_text(CODE.text)
    output, _ = type_it(ENQUEUE.text, tmp_path).communicate(timeout=60)
    job = UUID(output.strip())
    UUID(shown(ENQUEUE).strip())
    assert WAIT in WORK.text
    worker = type_it(WORK.text.replace(WAIT, "read -r _;"), tmp_path)
    progress_of(f"sqlite:///{tmp_path}/jobs.db", job)
    output, _ = worker.communicate("go on\n", timeout=100)
    killed, completed = sentences(output)
    assert [killed, completed] == sentences(shown(WORK))
    assert "taken from WORKER (SIGKILL)" in killed
    assert "crash 1 of 3" in killed
    assert "attempt 2, from its checkpoint" in completed


def test_it_is_short_and_shows_how_to_install() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert ENVIRONMENT.text.startswith("python3 -m venv")
    assert INSTALL.text.startswith("pip install")
    assert len([line for line in CODE.text.splitlines() if line.strip() and not line.startswith("#")]) <= 10

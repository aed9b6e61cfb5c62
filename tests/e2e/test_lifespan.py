"""``App(lifespan=…)`` in worker processes: entered once by each before it claims, left after its drain."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.e2e.waiting import until

APP = """
import os
from contextlib import asynccontextmanager
from pathlib import Path
from holdfast import App, Job, SyncJob

def say(what):
    with open("story.txt", "a") as file:
        file.write(what + "\\n")

@asynccontextmanager
async def lifespan(app):
    say("enter")
    if Path("broken").exists():
        raise OSError("no database")
    yield {"pid": os.getpid()}
    say("leave")

app = App("sqlite:///jobs.db", lifespan=lifespan, poll_interval="50ms", ttl="6s")

@app.task
async def ask(job: Job) -> bool:
    say("job")
    return job.state["pid"] == os.getpid()

@app.task
def ask_in_a_thread(job: SyncJob) -> bool:
    say("job")
    return job.state["pid"] == os.getpid()

@app.task(process=True)
def ask_in_a_process(job: SyncJob) -> bool:
    return job.state["pid"] == os.getpid()
"""


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    (folder / "shop.py").write_text(APP)
    command = [sys.executable, "-m", "holdfast.cli", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def holdfast(folder: Path, *words: str) -> str:
    done = start(folder, *words)
    output, errors = done.communicate(timeout=40)
    assert done.returncode == 0, errors
    return output


def story(folder: Path) -> list[str]:
    path = folder / "story.txt"
    return path.read_text().split() if path.exists() else []


def test_each_worker_enters_before_its_first_claim_and_leaves_after_its_drain(tmp_path: Path) -> None:
    jobs = [holdfast(tmp_path, "enqueue", "shop", task).strip() for task in ("ask", "ask_in_a_thread", "ask_in_a_process")]
    worker = start(tmp_path, "worker", "shop", "--log-level", "error")
    try:
        until(lambda: json.loads(holdfast(tmp_path, "jobs", "counts", "--app", "shop", "--json"))["completed"] == 3, within=40)
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=30)
    finally:
        worker.kill()
    for job in jobs:
        assert json.loads(holdfast(tmp_path, "jobs", "show", job, "--app", "shop", "--json"))["result"] is True
    ours = [line for line in story(tmp_path) if line != "job"]
    assert (story(tmp_path)[0], ours.count("enter"), ours.count("leave")) == ("enter", 2, 2)  # the runner has a separate one


def test_a_lifespan_that_fails_keeps_the_worker_from_starting_and_reports_why(tmp_path: Path) -> None:
    job = holdfast(tmp_path, "enqueue", "shop", "ask").strip()
    (tmp_path / "broken").touch()
    worker = start(tmp_path, "worker", "shop", "--log-level", "error")
    output = worker.communicate(timeout=40)[1]
    assert worker.returncode == 2, output
    assert "error: lifespan failed: OSError: no database" in output
    assert json.loads(holdfast(tmp_path, "jobs", "show", job, "--app", "shop", "--json"))["attempt"] == 0
    assert json.loads(holdfast(tmp_path, "workers", "list", "--app", "shop", "--json")) == []

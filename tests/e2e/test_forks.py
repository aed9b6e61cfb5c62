"""A handler that forks: its child runs no job, from a coroutine, a thread and a separate process."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

APP = """
import asyncio, json, os
from holdfast import App, SyncJob

app = App("sqlite:///jobs.db", poll_interval="50ms")


def note(what, number):
    with open("ran.jsonl", "a") as file:
        file.write(json.dumps([what, number]) + "\\n")


@app.task
async def fork_and_return(number: int) -> int:
    note("fork", number)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return number


@app.task
async def fork_and_wait(number: int) -> int:
    note("fork", number)
    child = os.fork()
    if not child:
        await asyncio.sleep(0.01)
    os.waitpid(child, 0)
    return number


@app.task
def fork_in_a_thread(number: int) -> int:
    note("fork", number)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return number


@app.task(process=True)
def fork_in_a_runner(number: int) -> int:
    note("fork", number)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return number


@app.task
async def neighbour(number: int) -> int:
    note("neighbour", number)
    await asyncio.sleep(0)
    note("neighbour ends", number)
    return number
"""
ENQUEUE = """
import sys
from tasks import app
for number in range(4):
    for name in (sys.argv[1], "neighbour"):
        app.enqueue(name, number=number)
"""


@pytest.mark.parametrize(
    "task",
    [
        "fork_and_return",
        *(pytest.param(each, marks=pytest.mark.prove) for each in ("fork_and_wait", "fork_in_a_thread", "fork_in_a_runner")),
    ],
)
def test_a_forked_child_that_returns_from_the_handler_runs_no_job_of_its_parent(tmp_path: Path, task: str) -> None:
    (tmp_path / "tasks.py").write_text(APP)
    python(tmp_path, "-c", ENQUEUE, task)
    holdfast(tmp_path, "worker", "tasks", "--until-empty", "--log-level", "error")
    ran = Counter(tuple(json.loads(line)) for line in (tmp_path / "ran.jsonl").read_text().splitlines())
    assert set(ran.values()) == {1}
    assert len(ran) == 12
    counts = json.loads(holdfast(tmp_path, "jobs", "counts", "--app", "tasks", "--json"))
    assert counts["completed"] == 8


def holdfast(folder: Path, *words: str) -> str:
    return python(folder, "-m", "holdfast.cli", *words)


def python(folder: Path, *words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Workers and producers that reach their store through a broker only, while brokers and workers are killed."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, JobView, State
from tests.broker.processes import HOLDFAST, BrokerProcess
from tests.e2e.waiting import until

START, END = 30.0, 90.0
TASKS = """
import asyncio
from pathlib import Path

from holdfast import App, Job

app = App(ttl="{ttl}", recovery_interval="0.5s", poll_interval="0.2s", grace="5s")


@app.task
async def note(job: Job, number: int) -> int:
    await asyncio.sleep(0.05)
    with Path("notes").open("a") as file:
        file.write(f"{{number}}\\n")
    return number


@app.task
async def wait(job: Job) -> str:
    while not Path("gate").exists():
        await asyncio.sleep(0.02)
    return "through"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TASKS.format(ttl="3s"))
    return tmp_path


@contextmanager
def worker(folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker with that store in its environment, and with nothing else that leads to one."""
    with (folder / "log").open("ab") as log:
        environment = {**os.environ, "HOLDFAST_URL": url}
        words = [*HOLDFAST, "worker", "shop"]
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stderr=log, stdout=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(START) == 0


def broker_of(folder: Path) -> BrokerProcess:
    return BrokerProcess("--url", f"sqlite:///{folder}/jobs.db")


def finished(app: App, count: int) -> list[JobView] | None:
    """Return all jobs once that many have completed."""
    jobs = app.jobs.list(state="completed", limit=1000)
    return jobs if len(jobs) == count else None


@pytest.mark.timeout(180)
def test_a_broker_that_is_killed_and_started_again_loses_no_job_and_runs_none_twice(folder: Path) -> None:
    (folder / "shop.py").write_text(TASKS.format(ttl="30s"))
    count = 60
    with broker_of(folder) as broker:
        app = App(broker.url)
        with worker(folder, broker.url):
            for number in range(count):
                app.enqueue("note", number=number)
                if number in (20, 40):
                    broker.kill()
                    broker.start()
            jobs = until(lambda: finished(app, count), within=END)
        app.close()
    assert sorted(int(line) for line in (folder / "notes").read_text().split()) == list(range(count))
    assert {(job.attempt, job.crashes) for job in jobs} == {(1, 0)}


@pytest.mark.timeout(180)
def test_a_killed_worker_behind_a_broker_is_recovered_by_another_one(folder: Path) -> None:
    with broker_of(folder) as broker:
        app = App(broker.url)
        job = app.enqueue("wait")
        with worker(folder, broker.url) as first:
            until(lambda: job.get().state is State.RUNNING, within=START)
            (pid,) = [view.process.pid for view in app.workers.list() if view.tasks]
            os.kill(first.pid, signal.SIGKILL)  # its supervisor first, which would recover the job at once
            os.kill(pid, signal.SIGKILL)
            first.wait(START)
        with worker(folder, broker.url):
            until(lambda: job.get().attempt == 2, within=START)
            (folder / "gate").touch()
            assert job.result(timeout=START) == "through"
        view = job.get()
        app.close()
    assert (view.crashes, view.failures) == (1, 0)


def call(url: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(f"{url}/api/v1{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=START) as answer:
        return json.loads(answer.read() or b"null")


@pytest.mark.timeout(180)
def test_the_broker_itself_rescues_the_job_of_a_silent_worker_in_another_language(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))))
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{folder}/jobs.db")
    with BrokerProcess("shop:app") as broker:
        job = call(broker.url, "/jobs", {"task": "resize"})["id"]
        (first,) = call(broker.url, "/jobs/claim", {"worker": "a", "tasks": ["resize"]})
        (second,) = call(broker.url, "/jobs/claim", {"worker": "b", "tasks": ["resize"], "wait": 30}) or [None]
        assert (first["id"], second["id"], second["attempt"]) == (job, job, 2)
        assert call(broker.url, f"/jobs/{job}/complete", {"token": second["token"], "result": 7}) == {"state": "completed"}
        with pytest.raises(urllib.error.HTTPError, match="409"):
            call(broker.url, f"/jobs/{job}/complete", {"token": first["token"], "result": 8})

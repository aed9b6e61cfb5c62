"""Cancellation ends an analysis at once, at every point, and with it every process and thread."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from analyzer.analysis import Request, analyze_repository
from analyzer.errors import ChartFailed
from analyzer.journal import rows_of
from analyzer.processes import Children, Ended, Workshop

from holdfast import App
from tests.code_evolution.support import FakeJob, analyze, at_once, children_of_this_process
from tests.e2e.waiting import until


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("holdfast-demo"):
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize("stage", ["clone", "walk", "count", "report"])
def test_in_every_stage_nothing_is_left_running(sample: Path, tmp_path: Path, stage: str) -> None:
    before = children_of_this_process()  # servers of other tests
    job = FakeJob(cancel_at_progress=lambda now, fraction: now == stage)
    with pytest.raises(asyncio.CancelledError):
        analyze(job, Request(str(sample), str(tmp_path), batch=7))
    assert children_of_this_process() <= before


def test_a_server_which_never_answers_does_not_hold_a_cancelled_analysis(tmp_path: Path) -> None:
    before = children_of_this_process()  # servers of other tests
    with socket.create_server(("127.0.0.1", 0)) as server:
        request = Request(f"http://127.0.0.1:{server.getsockname()[1]}/silent.git", str(tmp_path))

        async def main() -> None:
            analysis = asyncio.create_task(analyze_repository(FakeJob(), request, sleep=at_once))
            connection, _ = await asyncio.get_running_loop().run_in_executor(None, server.accept)
            assert children_of_this_process() - before
            analysis.cancel()
            done, _ = await asyncio.wait((analysis,), timeout=5)
            connection.close()
            assert done
            assert analysis.cancelled()

        asyncio.run(main())
    assert children_of_this_process() <= before


async def test_cancelled_twice_it_still_tidies_up() -> None:
    started = threading.Event()
    release = threading.Event()

    def step() -> None:
        started.set()
        release.wait(5)

    async def work() -> None:
        async with Workshop() as workshop:
            await workshop.run(step)

    task = asyncio.create_task(work())
    await asyncio.get_running_loop().run_in_executor(None, started.wait)
    task.cancel()
    await asyncio.wait((task,), timeout=0.01)
    task.cancel()
    await asyncio.wait((task,), timeout=0.01)
    assert not task.done()  # its thread still works
    release.set()
    await asyncio.wait((task,), timeout=5)
    assert task.cancelled()


def test_no_child_starts_after_the_end() -> None:
    children = Children()
    children.kill()
    with pytest.raises(Ended):
        children.start(["true"], environment={})


def test_a_chart_which_cannot_be_drawn_is_not_the_repositorys_fault(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyzer.analysis.sys.executable", "false")
    with pytest.raises(ChartFailed, match="exit code 1"):
        analyze(FakeJob(), Request(str(sample), str(tmp_path)))


TASKS = """
from holdfast import App
from analyzer.task import analyze

app = App("sqlite:///jobs.db", poll_interval="50ms")
app.task(name="analyze", max_crashes=1)(analyze)
"""
NAP = "73.19"  # seconds, and how to find who sleeps


def sleepers() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if NAP.encode() in command and command.startswith(b"sleep"):
                found.append(entry.name)
    return found


def stuck_git(folder: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """A git which never ends, and starts a helper which does not either, when its command line holds the words."""
    git = shutil.which("git")
    (folder / "bin").mkdir()
    program = folder / "bin" / "git"
    stuck = f"sleep {NAP} & touch {folder}/reached; exec sleep {NAP}"
    program.write_text(f'#!/bin/sh\ncase "$*" in *"{words}"*) {stuck};; *) exec {git} "$@";; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin", prepend=":")


def stuck_chart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "python"
    program.write_text(f'#!/bin/sh\ntouch "$(dirname "$5")/.evolution.svg.$$.part" {folder}/reached\nexec sleep {NAP}\n')
    program.chmod(0o755)
    monkeypatch.setattr("analyzer.analysis.sys.executable", str(program))


def endless_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pause = threading.Event()

    def rows(path: Path, length: int) -> Iterator[dict[str, object]]:
        (row,) = list(rows_of(path, length))[:1]
        (folder / "reached").touch()
        for _ in range(2000):  # twenty seconds
            pause.wait(0.01)
            yield row

    monkeypatch.setattr("analyzer.analysis.rows_of", rows)


def seconds_to_cancel(request: Request, reached: Path) -> float:
    """How long a cancelled analysis still takes, once it is in the middle of what never ends; the best of three.

    Of three, because a slow machine must not fail the test.
    """
    found = []
    for _ in range(3):
        reached.unlink(missing_ok=True)
        found.append(asyncio.run(_cancelled_once(request, reached.exists)))
    return min(found)


async def _cancelled_once(request: Request, is_reached: Callable[[], bool]) -> float:
    loop = asyncio.get_running_loop()
    analysis = asyncio.create_task(analyze_repository(FakeJob(), request, sleep=at_once))
    while not is_reached():
        assert not analysis.done(), analysis.exception()
        await asyncio.wait((analysis,), timeout=0.01)
    began = loop.time()
    analysis.cancel()
    await asyncio.wait((analysis,), timeout=20)
    assert analysis.cancelled()
    return loop.time() - began


@pytest.mark.parametrize(
    "place", [" clone ", "rev-list --count", "rev-list --topo-order", "diff-tree", "--batch=", "rows", "chart"]
)
def test_it_ends_within_a_second_at_every_point_and_leaves_nothing_half_written(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    match place:
        case "rows":
            endless_rows(tmp_path, monkeypatch)
        case "chart":
            stuck_chart(tmp_path, monkeypatch)
        case words:
            stuck_git(tmp_path, monkeypatch, words)
    request = Request(str(sample), str(tmp_path / "out"))
    assert seconds_to_cancel(request, tmp_path / "reached") < 1.0
    assert sleepers() == []
    left = {path.name for path in (tmp_path / "out").iterdir()} - {".work"}
    assert left == ({"evolution.json", "evolution.csv"} if place == "chart" else set())


@pytest.mark.parametrize("words", [" clone ", " fetch "])
def test_a_cancelled_transfer_into_the_cache_ends_within_a_second(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    request = Request(f"file://{sample}", str(tmp_path / "out"))
    monkeypatch.setattr("analyzer.analysis._run_child", lambda workshop, command: None)
    if words == " fetch ":
        analyze(FakeJob(), request)
    with monkeypatch.context() as patch:
        stuck_git(tmp_path, patch, words)
        assert seconds_to_cancel(request, tmp_path / "reached") < 1.0
    assert sleepers() == []
    assert analyze(FakeJob(), request)["commits"] == 120


@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", ["cancelled", "worker killed"])
def test_no_git_outlives_its_job_in_a_real_worker(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    with monkeypatch.context() as patch:
        stuck_git(tmp_path, patch, "rev-list --topo-order")
        app = App(f"sqlite:///{tmp_path}/jobs.db")
        command = [sys.executable, "-m", "holdfast.cli", "worker", "tasks", "--processes", "1", "--log-level", "error"]
        worker = subprocess.Popen(command, cwd=tmp_path)
    try:
        job = app.enqueue("analyze", repo=str(sample), out=str(tmp_path / "out"))
        until((tmp_path / "reached").exists, within=30)
        assert sleepers()
        if how == "cancelled":
            app.jobs.cancel(job.id)
            until(lambda: job.get().state == "cancelled", within=30)
            assert sleepers() == []  # by the time it is settled, not only soon after
        else:
            owner = job.get().worker
            (pid,) = (each.process.pid for each in app.workers.list() if each.worker == owner)
            os.kill(pid, signal.SIGKILL)
            until(lambda: job.get().state == "failed", within=30)
            until(lambda: not sleepers(), within=30)
    finally:
        worker.terminate()
        worker.wait(30)
        app.close()

"""Handlers in separate processes: they can be ended, and their faults cost only their own job."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._engine.runners import messages
from holdfast._engine.runners.options import RunnerOptions
from holdfast._ports.host import Exit
from holdfast._system.runner_host import SystemRunnerHost
from tests.e2e.fleet import ROOT, START, Fleet, fleet, thaw
from tests.e2e.scripted_workers import end, guard_of, is_alive, living, run
from tests.e2e.waiting import STALL, until


@contextmanager
def runners(folder: Path, **settings: str) -> Iterator[Fleet]:
    with fleet(folder, **settings) as ships:
        ships.target = "tests.e2e.runner_jobs:app"
        yield ships


def test_a_handler_runs_in_a_separate_group_of_the_workers_session_and_can_report_everything(tmp_path: Path) -> None:
    with runners(tmp_path) as ships:
        crew = ships.crew()
        views = [ships.until_state(ships.enqueue("compute", number=n), "completed", within=START) for n in range(3)]
        (worker,) = crew.workers()
        for number, view in enumerate(views):
            result = view.result
            assert (result["number"], result["saved"], result["stdin"]) == (number, {"number": number}, "/dev/null")
            assert (result["group"], result["session"]) == (result["pid"], worker)
            assert (view.stage, view.fraction, view.message, view.checkpoint) == ("half", 0.5, "so far", {"number": number})
        assert len({view.result["pid"] for view in views}) == 1, "one runner, used again"
        failed = ships.until_state(ships.enqueue("object_to_it"), "failed", within=START)
        assert str(failed.error) == "ValueError: not like this"
        assert "in object_to_it" in failed.error.traceback
        child = UUID(ships.until_state(ships.enqueue("parent"), "completed", within=START).result)
        assert ships.until_state(child, "completed", within=START).result["number"] == 7


def test_an_unresponsive_handler_ends_with_its_stacks_within_the_grace_while_its_siblings_go_on(tmp_path: Path) -> None:
    with runners(tmp_path, grace="1s") as ships:
        crew = ships.crew()
        (worker,) = crew.workers()
        sibling = ships.enqueue("wait_in_thread", gate="gate")
        ships.entry(sibling, "start")
        unresponsive = ships.enqueue("spin")
        runner = ships.entry(unresponsive, "start")["pid"]
        cancelled = time.monotonic()
        ships.app.jobs.cancel([unresponsive])
        view = ships.until_state(unresponsive, "cancelled", within=START)
        took = time.monotonic() - cancelled
        assert not is_alive(runner)
        assert 1.0 <= took <= 1.0 + STALL, took
        assert (view.reason, view.attempts[0].outcome, view.crashes) == ("BY_OPERATOR", "cancelled", 0)
        assert "in spin" in view.attempts[0].stacks
        ships.open("gate")
        completed = ships.until_state(sibling, "completed", within=START)
        assert (completed.attempt, completed.crashes) == (1, 0)
        assert crew.workers() == [worker]
        after = ships.until_state(ships.enqueue("compute", number=1), "completed", within=START)
        assert after.result["pid"] != runner


def test_a_handler_that_looks_ends_at_once_when_cancelled_and_its_runner_lives_on(tmp_path: Path) -> None:
    with runners(tmp_path) as ships:
        ships.crew()
        job = ships.enqueue("wait_in_runner", gate="gate")
        runner = ships.entry(job, "start")["pid"]
        ships.app.jobs.cancel([job])
        ships.until_state(job, "cancelled", within=2.0)
        assert is_alive(runner)
        assert ships.until_state(ships.enqueue("compute", number=1), "completed", within=START).result["pid"] == runner


@pytest.mark.parametrize(
    ("how", "signal"),
    [
        ("kill", "SIGKILL"),
        *(pytest.param(*each, marks=pytest.mark.prove) for each in (("segfault", "SIGSEGV"), ("exit", "exit code 3"))),
    ],
)
def test_s9_a_runner_that_dies_charges_its_own_job_only(tmp_path: Path, how: str, signal: str) -> None:
    with runners(tmp_path) as ships:
        crew = ships.crew()
        (worker,) = crew.workers()
        innocent = [ships.enqueue(task, gate="gate") for task in ("wait", "wait_in_thread", "wait_in_runner")]
        for job in innocent:
            ships.entry(job, "start")
        culprit = ships.enqueue("stumble", how=how)
        view = ships.until_state(culprit, "completed", within=START)
        assert (view.attempt, view.crashes, view.failures) == (2, 1, 0)
        assert (view.attempts[0].outcome, view.attempts[0].signal) == ("crashed", signal)
        assert ("in stumble" in (view.attempts[0].stacks or "")) is (how == "segfault")
        ships.open("gate")
        for job in innocent:
            done = ships.until_state(job, "completed", within=START)
            assert (done.attempt, done.crashes) == (1, 0)
        assert crew.workers() == [worker]


def test_a_killed_runner_leaves_no_child_behind(tmp_path: Path) -> None:
    with runners(tmp_path, grace="0.2s") as ships:
        ships.crew()
        job = ships.enqueue("breed")
        started = ships.entry(job, "start")
        ships.app.jobs.cancel([job])
        ships.until_state(job, "cancelled", within=START)
        assert not [pid for pid in (started["pid"], *started["children"]) if is_alive(pid)]


def test_s6_a_killed_worker_leaves_no_runner_behind(tmp_path: Path) -> None:
    with runners(tmp_path) as ships:
        ships.crew()
        job = ships.enqueue("breed")
        started = ships.entry(job, "start")
        worker = started["session"]
        end(worker)
        again = ships.entry(job, "start", number=2, within=3 * START)  # the next worker may stall and lose its lease, too
        assert not [pid for pid in (started["pid"], *started["children"], *living(worker)) if is_alive(pid)]
        assert again["session"] != worker


def test_a_runner_dies_with_an_unsupervised_worker(tmp_path: Path) -> None:
    """Neither supervisor nor guard can end the runner, so the kernel does."""
    with runners(tmp_path) as ships:
        crew = ships.crew()
        job = ships.enqueue("spin")
        started = ships.entry(job, "start")
        assert is_alive(started["pid"])
        for pid in (crew.pid, guard_of(started["session"]), started["session"]):
            end(pid)
        until(lambda: not is_alive(started["pid"]), within=2.0)


@pytest.mark.parametrize(
    ("task", "payload"), [pytest.param("wait_in_runner", {"gate": "gate"}, marks=pytest.mark.prove), ("spin", {})]
)
def test_l7_a_drain_releases_the_jobs_of_runners_free_of_charge(tmp_path: Path, task: str, payload: dict[str, str]) -> None:
    with runners(tmp_path, grace="0.5s") as ships:
        crew = ships.crew()
        job = ships.enqueue(task, **payload)
        started = ships.entry(job, "start")
        crew.send(signal.SIGTERM)
        assert crew.wait(START) == 0
        assert not is_alive(started["pid"])
        view = ships.view(job)
        assert (view.state, view.crashes, view.failures, view.attempts[0].outcome) == ("available", 0, 0, "released")


def test_idle_runners_end_with_the_drain(tmp_path: Path) -> None:
    with runners(tmp_path) as ships:
        crew = ships.crew()
        runner = ships.until_state(ships.enqueue("compute", number=1), "completed", within=START).result["pid"]
        assert is_alive(runner)
        crew.send(signal.SIGTERM)
        assert crew.wait(START) == 0
        assert not is_alive(runner)


def test_s3_a_zombies_runner_is_refused_everything_it_writes(tmp_path: Path) -> None:
    with runners(tmp_path) as ships:
        zombies = ships.crew()
        job = ships.enqueue("insist_in_runner", gate="gate")
        first = ships.entry(job, "start")
        guardian = guard_of(first["session"])
        frozen = zombies.freeze_outside_of_writes()
        ships.crew()
        second = ships.entry(job, "start", number=2)
        woken = time.monotonic()
        thaw(pid for pid in frozen if pid != guardian)
        refused = ships.entry(job, "refused")
        assert (refused["pid"], refused["token"]) == (first["pid"], first["token"])
        assert refused["error"] in ("JobLost", "CancelledError")
        assert refused["time"] - woken <= STALL
        until(lambda: ships.view(job).checkpoint == {"by": second["token"]}, within=START)
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert (view.result, view.checkpoint, view.message) == (second["token"], {"by": second["token"]}, second["token"])


def test_embedded_workers_have_runners_too(tmp_path: Path) -> None:
    """Run in a separate program, because a worker's settings are read when its module is."""
    environment = {"E2E_FOLDER": str(tmp_path), "E2E_TTL": "3s", "E2E_RECOVERY": "0.5s", "E2E_POLL": "0.2s", "E2E_GRACE": "0.5s"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.test_runner_processes"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=START * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    number, state, runner = done.stdout.split()
    assert (number, state) == ("5", "cancelled")
    assert not is_alive(int(runner))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_runner_that_cannot_be_started_is_an_error_and_leaves_no_descriptor_open() -> None:
    async def scenario() -> None:
        before = open_files()
        for _ in range(3):
            with pytest.raises(FileNotFoundError):
                await SystemRunnerHost(command=("/not/there",)).spawn()
        assert open_files() == before

    run(scenario)


def test_a_runner_without_an_app_refuses_ends_and_leaves_no_descriptor_open() -> None:
    async def scenario() -> None:
        before = open_files()
        for _ in range(2):
            child = await SystemRunnerHost([RunnerOptions(target="not_there:app").encode()]).spawn()
            data = await child.channel.receive()
            assert isinstance(message := messages.decode(data or b""), messages.Refused)
            assert "there is no module 'not_there'" in message.problems[0]
            assert await child.wait() == Exit(2)
            assert await child.channel.receive() is None
            child.channel.close()
        assert open_files() == before

    run(scenario)


async def _embedded() -> None:
    from tests.e2e.runner_jobs import app, compute, spin

    async with app.worker():
        result = await (await compute.aenqueue(number=5)).aresult(timeout=START)
        unresponsive = await spin.aenqueue()
        while (await unresponsive.aget()).state != "running":  # noqa: ASYNC110 - a worker changes it
            await asyncio.sleep(0.01)
        await unresponsive.acancel()
        while (state := (await unresponsive.aget()).state) == "running":  # noqa: ASYNC110 - a worker changes it
            await asyncio.sleep(0.01)
        print(result["number"], state, result["pid"])


if __name__ == "__main__":
    asyncio.run(_embedded())

"""Signals that drain, end the grace early, or show stacks."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.scripted_workers import is_alive
from tests.e2e.waiting import until

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def test_one_signal_lets_running_jobs_end_and_starts_no_other(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="1s", recovery="0.2s", grace="20s") as ships:
        crew = ships.crew("--concurrency", "1")
        running = ships.enqueue("wait", gate="gate")
        ships.entry(running, "start")
        waiting = ships.enqueue("wait", gate="gate")
        crew.send(signal.SIGTERM)
        until(lambda: "drain" in crew.log_text(), within=START)
        # Longer than its ttl: the lease of a draining worker is renewed to the end.
        signalled = time.monotonic()
        until(lambda: time.monotonic() - signalled > 1.5, within=START)
        assert ships.view(running).state == "running"
        ships.open("gate")
        assert crew.wait(START) == 0
        view = ships.view(running)
        assert (view.state, view.attempt, view.crashes) == ("completed", 1, 0)
        assert ships.view(waiting).state == "available"
        assert ships.view(waiting).attempt == 0


@pytest.mark.parametrize("task", ["wait", pytest.param("wait_in_thread", marks=pytest.mark.prove), "ignore_cancellation"])
def test_jobs_that_outlast_the_grace_are_released_free_of_charge(tmp_path: Path, task: str) -> None:
    with fleet(tmp_path, grace="0.5s") as ships:
        crew = ships.crew()
        job = ships.enqueue(task, gate="gate")
        worker = ships.entry(job, "start")["pid"]
        crew.send(signal.SIGTERM)
        assert crew.wait(START) == 0
        assert not is_alive(worker)
        view = ships.view(job)
        assert (view.state, view.attempt, view.crashes, view.failures) == ("available", 1, 0, 0)
        assert [each.outcome for each in view.attempts] == ["released"]
        assert ships.journal.read(job, "end") == []
        assert ships.app.workers.list() == []


@pytest.mark.parametrize("number", [ENDING[0], *(pytest.param(each, marks=pytest.mark.prove) for each in ENDING[1:])])
def test_a_second_signal_cuts_the_grace_short(tmp_path: Path, number: signal.Signals) -> None:
    with fleet(tmp_path, grace="600s") as ships:
        crew = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        crew.send(number)
        until(lambda: "drain" in crew.log_text(), within=START)
        assert ships.view(job).state == "running"
        crew.send(number)
        assert crew.wait(5) == 0
        assert (ships.view(job).state, ships.view(job).crashes) == ("available", 0)


def test_a_released_job_runs_elsewhere_at_once(tmp_path: Path) -> None:
    with fleet(tmp_path, grace="0s") as ships:
        crew = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        first = ships.entry(job, "start")["pid"]
        ships.crew()
        crew.send(signal.SIGTERM)
        assert ships.entry(job, "start", number=2)["pid"] != first


def test_a_signal_to_a_worker_is_left_to_its_supervisor(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        ships.crew()
        job = ships.enqueue("wait", gate="gate")
        worker = ships.entry(job, "start")["pid"]
        for number in ENDING:
            os.kill(worker, number)
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert view.attempt == 1
        assert is_alive(worker)


def test_sigquit_shows_the_stacks_of_all_processes_and_ends_nothing(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()
        jobs = []
        # One after the other: a handler that holds the GIL keeps the other from recording its start.
        for task, values in (("wait_in_thread", {"gate": "gate"}), ("hold_the_gil", {"seconds": 1.0})):
            jobs.append(ships.enqueue(task, **values))
            ships.entry(jobs[-1], "start")
        crew.send(signal.SIGQUIT)
        until(lambda: "in wait_in_thread" in crew.log_text() and "in hold_the_gil" in crew.log_text(), within=START)
        assert "stacks of the supervisor" in crew.log_text()
        ships.open("gate")
        for job in jobs:
            assert ships.until_state(job, "completed", within=START).attempt == 1


def test_until_empty_ends_when_everything_is_done(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        jobs = [ships.enqueue("count", number=number) for number in range(50)]
        crew = ships.crew("--until-empty", is_ready=False)
        assert crew.wait(START) == 0
        assert [ships.view(job).result for job in jobs] == list(range(50))


def test_signals_up_to_the_last_moment_change_nothing(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        crew = ships.crew()

        def has_ended() -> bool:
            crew.send(signal.SIGTERM)
            return crew.process.poll() is not None

        until(has_ended, within=START)
        assert crew.wait(START) == 0
        assert "exit code 0" in crew.log_text()


def test_l7_an_operator_drains_one_worker_of_two_and_then_the_other(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="1s", recovery="0.2s", grace="20s") as ships:
        crew = ships.crew("--processes", "2", "--concurrency", "1")
        running = ships.enqueue("wait", gate="gate")
        pid = ships.entry(running, "start")["pid"]
        (name,) = [each.worker for each in ships.app.workers.list() if each.process.pid == pid]
        ships.app.workers.drain(name)
        until(lambda: f"draining worker={name}" in crew.log_text(), within=START)
        assert ships.view(running).state == "running"
        ships.open("other gate")
        ships.until_state(ships.enqueue("wait", gate="other gate"), "completed", within=START)
        ships.open("gate")
        until(lambda: len(ships.app.workers.list()) == 1, within=START)
        view = ships.view(running)
        assert (view.state, view.attempt, view.crashes) == ("completed", 1, 0)
        until(lambda: len(crew.workers()) == 1, within=START)
        assert not crew.has_ended()
        ships.app.workers.drain(ships.app.workers.list()[0].worker)
        assert crew.wait(START) == 0
        assert ships.app.workers.list() == []
        assert "drained by an operator" in crew.log_text()

"""The guard: code ends at its deadline, in every state of the worker and its supervisor."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast._ports.host import Exit
from holdfast._system import guard
from holdfast._system.host import SystemChild
from tests.e2e.scripted_workers import ask, end, guard_of, is_alive, living, run, scripted_worker
from tests.e2e.waiting import eventually, until

SOON = 2.0
"""Seconds that even a busy machine needs to notice that a deadline has passed."""


async def death(child: SystemChild) -> float:
    """Return when the guard killed the worker."""
    assert await child.wait() == Exit(signal="SIGKILL")
    return time.monotonic()


def test_running_code_is_killed_at_the_deadline_with_all_it_started() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            grandchild = await ask(child, "start", "in_own_group")
            await ask(child, "flag", True)
            deadline = time.monotonic() + 0.2
            child.set_deadline(deadline)
            assert deadline <= await death(child) < deadline + SOON
            assert not is_alive(grandchild)

    run(scenario)


def test_code_that_holds_the_gil_is_killed_too() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "flag", True)
            await ask(child, "hang")
            deadline = time.monotonic() + 0.2
            child.set_deadline(deadline)
            assert deadline <= await death(child) < deadline + SOON

    run(scenario)


def test_a_stopped_worker_is_killed_too() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "flag", True)
            child.channel.send(b'["stop", null]')
            await eventually(child.is_stopped, within=SOON)
            child.set_deadline(deadline := time.monotonic())
            assert await death(child) < deadline + SOON

    run(scenario)


def test_the_last_deadline_counts() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "flag", True)
            now = time.monotonic()
            for seconds in (0.1, 0.2, 0.6):
                child.set_deadline(now + seconds)
            assert now + 0.6 <= await death(child) < now + 0.6 + SOON

    run(scenario)


def test_an_idle_worker_outlives_its_deadline_until_code_runs_in_it() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "flag", True)
            await ask(child, "flag", False)
            child.set_deadline(time.monotonic() - 1)
            until_judged = time.monotonic() + 5 * guard.RECHECK
            await eventually(lambda: time.monotonic() > until_judged, within=SOON)
            assert await ask(child, "echo", 1) == 1
            await ask(child, "flag", True)
            await asyncio.wait_for(death(child), SOON)

    run(scenario)


def test_a_renewed_right_lets_late_code_run_on() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            child.set_deadline(time.monotonic() - 1)
            renewed = time.monotonic() + 0.5
            child.set_deadline(renewed)
            await ask(child, "flag", True)
            assert await death(child) >= renewed

    run(scenario)


def test_a_frozen_guard_reads_what_it_missed_before_it_judges() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "flag", True)
            guardian = guard_of(child.process.pid)
            passed = time.monotonic() + 0.1
            child.set_deadline(passed)
            os.kill(guardian, signal.SIGSTOP)
            await eventually(lambda: stat_of(guardian) == "T", within=SOON)
            renewed = time.monotonic() + 0.8
            child.set_deadline(renewed)
            await eventually(lambda: time.monotonic() > passed, within=SOON)
            os.kill(guardian, signal.SIGCONT)
            assert renewed <= await death(child) < renewed + SOON

    run(scenario)


def stat_of(pid: int) -> str:
    found = guard.read_stat(pid)
    return "" if found is None else found.state


def test_no_signal_but_kill_and_stop_reaches_the_guard() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "flag", True)
            guardian = guard_of(child.process.pid)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP):
                os.kill(guardian, number)
            child.set_deadline(deadline := time.monotonic() + 0.1)
            assert deadline <= await death(child) < deadline + SOON

    run(scenario)


def test_the_guard_is_not_a_child_that_code_in_the_worker_would_wait_for() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "echo")
            found = guard.read_stat(guard_of(child.process.pid))
            assert found is not None
            assert found.parent != child.process.pid

    run(scenario)


def test_the_guard_is_small() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "echo")
            assert kilobytes_of(guard_of(child.process.pid)) < 10_000

    run(scenario)


def kilobytes_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (found,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    return found


def test_a_clock_that_runs_through_suspend_serves_as_well() -> None:
    async def scenario() -> None:
        async with scripted_worker("--clock", "boottime") as child:
            await ask(child, "flag", True)
            deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + 0.2
            child.set_deadline(deadline)
            await death(child)
            assert deadline <= time.clock_gettime(time.CLOCK_BOOTTIME) < deadline + SOON

    run(scenario)


@contextmanager
def scripted_supervisor(
    is_running: bool, seconds: float | None, *start: str
) -> Iterator[tuple["subprocess.Popen[bytes]", list[int]]]:
    """Start a supervisor that can be killed and frozen; yield it, and the pids of its worker and the processes started there."""
    words = [str(int(is_running)), "none" if seconds is None else str(seconds), *start]
    process = subprocess.Popen([sys.executable, "-m", "tests.e2e.scripted_supervisor", *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pids = json.loads(process.stdout.readline())
    try:
        yield process, pids
    finally:
        process.kill()
        for pid in [*pids, *living(pids[0])]:
            end(pid)
        process.communicate()  # the started processes have its other end open


def test_without_its_supervisor_code_may_run_until_its_deadline_and_no_longer() -> None:
    with scripted_supervisor(True, 0.8, "in_own_group") as (supervisor, (worker, grandchild)):
        supervisor.kill()
        killed = time.monotonic()
        supervisor.wait()
        until(lambda: not is_alive(worker), within=0.8 + SOON)
        assert time.monotonic() - killed > 0.2
        until(lambda: not is_alive(grandchild) and living(worker) == [], within=SOON)


def test_without_its_supervisor_a_worker_without_running_code_may_finish_by_itself() -> None:
    with scripted_supervisor(False, 0.0) as (supervisor, (worker,)):
        supervisor.kill()
        supervisor.wait()
        until_judged = time.monotonic() + 5 * guard.RECHECK
        until(lambda: time.monotonic() > until_judged, within=SOON)
        assert is_alive(worker)


def test_without_its_supervisor_a_worker_that_never_had_a_lease_ends() -> None:
    with scripted_supervisor(False, None) as (supervisor, (worker,)):
        assert living(worker)
        supervisor.kill()
        until(lambda: living(worker) == [], within=SOON)


def test_a_worker_that_dies_without_a_supervisor_leaves_nothing_behind() -> None:
    with scripted_supervisor(True, 600, "in_own_group", "forked") as (supervisor, (worker, *started)):
        supervisor.kill()
        supervisor.wait()
        os.kill(worker, signal.SIGKILL)
        until(lambda: living(worker) == [], within=SOON)
        assert not any(is_alive(pid) for pid in started)


def test_a_worker_that_dies_under_a_frozen_supervisor_leaves_nothing_behind() -> None:
    with scripted_supervisor(True, 600, "plain") as (supervisor, (worker, started)):
        os.kill(supervisor.pid, signal.SIGSTOP)
        assert is_alive(started)
        os.kill(worker, signal.SIGKILL)
        until(lambda: not is_alive(started) and living(worker) == [], within=SOON)

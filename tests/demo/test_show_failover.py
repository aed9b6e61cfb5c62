"""`holdfast demo` on a replica set that loses its primary in the middle: that costs seconds, and nothing else."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.testing.servers import MongoSet

SECONDS = 3
MOST = 40.0
"""Seconds from the job's start to its end. With a paused primary, writes may stall for 16 s although another one is elected after 2 s."""


@pytest.fixture
def servers(mongo_trio: MongoSet) -> Iterator[MongoSet]:
    yield mongo_trio
    for member in mongo_trio.members:
        if member.is_paused:
            member.resume()
    mongo_trio.start()


def show(folder: Path, servers: MongoSet, fault: Callable[[MongoSet], object], *options: str, line: str) -> str:
    """Play the show, and harm the servers when it prints the first line that begins so; return all it printed."""
    command = [sys.executable, "-m", "holdfast.cli", "demo", "--url", servers.create_database(), f"--seconds={SECONDS}", *options]
    output = ""
    with (folder / "errors").open("w+") as errors:
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True) as demo:
            assert demo.stdout is not None
            for text in demo.stdout:
                is_first = text.startswith(line) and f"\n{line}" not in output
                output += text
                if is_first:
                    fault(servers)
        errors.seek(0)
        assert (demo.returncode, errors.read()) == (0, ""), output
    (seconds,) = re.findall(r"^timeline \((\d+\.\d) s\)$", output, re.MULTILINE)
    assert float(seconds) < MOST
    assert Path(output.splitlines()[-1]) == folder / "holdfast-demo" / "sample" / "evolution.png"
    assert re.search(r"attempt \d .* completed", output)
    return output


def kill(servers: MongoSet) -> None:
    """End the primary with SIGKILL."""
    servers.primary().kill()


def pause(servers: MongoSet) -> None:
    """Stop the primary with SIGSTOP."""
    servers.primary().pause()


def step_down(servers: MongoSet) -> None:
    """Make the primary step down, as an operator does for an upgrade."""
    servers.step_down()


@pytest.mark.prove
@pytest.mark.timeout(90)
def test_a_primary_killed_while_the_job_runs_costs_seconds_and_no_attempt_fails(tmp_path: Path, servers: MongoSet) -> None:
    output = show(tmp_path, servers, kill, "--no-kill", line="worker ")
    # The ttl of the show is 3 s: a worker that could not renew its lease in time has released the job, and no crash is charged.
    assert set(re.findall(r"^  attempt \d \S+ .* s (\w+) ", output, re.MULTILINE)) <= {"released", "completed"}


@pytest.mark.prove
@pytest.mark.timeout(150)
@pytest.mark.parametrize("line", ["worker ", "killed worker "])
@pytest.mark.parametrize("fault", [kill, pause, step_down])
def test_a_primary_lost_beside_a_worker_costs_seconds_and_one_crash_at_most(
    tmp_path: Path, servers: MongoSet, fault: Callable[[MongoSet], object], line: str
) -> None:
    output = show(tmp_path, servers, fault, line=line)
    outcomes = re.findall(r"^  attempt \d \S+ .* s (\w+) ", output, re.MULTILINE)
    assert outcomes.count("crashed") == output.count("killed worker ")
    assert set(outcomes) <= {"released", "crashed", "completed"}

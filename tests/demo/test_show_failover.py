"""`holdfast demo` on a replica set that loses its primary in the middle: that costs seconds, and nothing else."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast._system.clock import SystemClock
from holdfast.testing.servers import MongoSet

SECONDS = 3
LONGEST = 60.0


class Shown(NamedTuple):
    """What one show printed, and how long it took."""

    output: str
    seconds: float


@pytest.fixture
def servers(mongo_trio: MongoSet) -> Iterator[MongoSet]:
    yield mongo_trio
    for member in mongo_trio.members:
        if member.is_paused:
            member.resume()
    mongo_trio.start()


def show(folder: Path, servers: MongoSet, fault: Callable[[MongoSet], object], *options: str, line: str) -> Shown:
    """Play the show, and harm the servers once it has printed a line that begins so."""
    command = [sys.executable, "-m", "holdfast.cli", "demo", "--url", servers.create_database(), f"--seconds={SECONDS}", *options]
    started, output = SystemClock().monotonic(), ""
    with (folder / "errors").open("w+") as errors:
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True) as demo:
            assert demo.stdout is not None
            for text in demo.stdout:
                output += text
                if text.startswith(line):
                    fault(servers)
        errors.seek(0)
        assert (demo.returncode, errors.read()) == (0, ""), output
    return Shown(output, SystemClock().monotonic() - started)


def kill(servers: MongoSet) -> None:
    """End the primary with SIGKILL."""
    servers.primary().kill()


def pause(servers: MongoSet) -> None:
    """Stop the primary with SIGSTOP."""
    servers.primary().pause()


def step_down(servers: MongoSet) -> None:
    """Make the primary step down, as an operator does for an upgrade."""
    servers.step_down()


def require_two_attempts(shown: Shown, folder: Path) -> None:
    """Require what the show prints without a fault: one kill, one rescue that resumes from the checkpoint, and a chart."""
    output = shown.output
    assert len(re.findall(r"^killed worker ", output, re.MULTILINE)) == 1
    assert len(re.findall(r"^rescued by worker (\S+) after (\d+\.\d+) s: attempt 2$", output, re.MULTILINE)) == 1
    assert re.search(r"^resumed from checkpoint: commit \d+ of 400 \(\d+ %\)$", output, re.MULTILINE)
    assert re.search(r"attempt 2 .* completed", output)
    assert "attempt 3" not in output
    assert Path(output.splitlines()[-1]) == folder / "holdfast-demo" / "sample" / "evolution.png"
    assert shown.seconds < LONGEST


@pytest.mark.timeout(90)
def test_a_primary_killed_while_the_job_runs_costs_seconds_and_no_attempt(tmp_path: Path, servers: MongoSet) -> None:
    shown = show(tmp_path, servers, kill, "--no-kill", line="worker ")
    assert re.findall(r"^  attempt (\d) ", shown.output, re.MULTILINE) == ["1"]
    assert "completed" in shown.output
    assert Path(shown.output.splitlines()[-1]).is_file()


@pytest.mark.prove
@pytest.mark.timeout(120)
@pytest.mark.parametrize("line", ["worker ", "killed worker "])
@pytest.mark.parametrize("fault", [kill, pause, step_down])
def test_a_primary_lost_beside_the_worker_costs_seconds_and_nothing_else(
    tmp_path: Path, servers: MongoSet, fault: Callable[[MongoSet], object], line: str
) -> None:
    require_two_attempts(show(tmp_path, servers, fault, line=line), tmp_path)

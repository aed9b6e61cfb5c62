"""A worker started in a bare environment: nowhere to write to, no home, a folder that takes no files, a strange umask."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.fleet import HOLDFAST, ROOT, START, fleet

READ_ONLY = "/proc"
"""A folder in which even root makes no file."""


def close_both() -> None:
    os.close(1)
    os.close(2)


def fill_both() -> None:
    for number in (1, 2):
        os.dup2(os.open("/dev/full", os.O_WRONLY), number)


def break_both() -> None:
    """Break the pipes: no process reads them any more."""
    read, write = os.pipe()
    for number in (1, 2):
        os.dup2(write, number)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    "spoil", [break_both, *(pytest.param(each, marks=pytest.mark.prove) for each in (close_both, fill_both))]
)
def test_a_worker_without_output_home_or_a_folder_to_write_in_does_its_work(tmp_path: Path, spoil: Callable[[], None]) -> None:
    with fleet(tmp_path) as ships:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("HOME", "USER", "LOGNAME", "TMPDIR", "LANG")},
            **ships.environment,
            "E2E_FOLDER": str(tmp_path),
            "HOME": "/nowhere",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }

        def prepare() -> None:
            os.umask(0o077)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as a shell leaves it; Python ignores it again
            spoil()

        jobs = [
            ships.enqueue("count", number=1),
            ships.enqueue("count_in_runner", number=2),
            ships.enqueue("die"),
            ships.enqueue("print_a_lot"),
        ]
        words = [sys.executable, *HOLDFAST, "worker", "tests.e2e.fault_jobs:app", "--until-empty", "--log-level", "debug"]
        process = subprocess.Popen(words, cwd=READ_ONLY, env=environment, stdin=subprocess.DEVNULL, preexec_fn=prepare)
        try:
            assert process.wait(2 * START) == 0
        finally:
            process.kill()
            process.wait()
        views = [ships.view(job) for job in jobs]
        assert [(view.state, view.result) for view in views[:2]] == [("completed", 1), ("completed", 2)]
        assert (views[2].reason, views[2].crashes) == ("WORKER_CRASHED", 2)
        # A handler that cannot print fails, and affects no other job.
        assert views[3].state == ("completed" if spoil is close_both else "failed")
        assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("jobs.db-wake")} <= {0}


def test_a_command_whose_reader_has_left_ends_without_a_traceback(tmp_path: Path) -> None:
    with fleet(tmp_path) as ships:
        for number in range(100):
            ships.enqueue("count", number=number)
        words = [sys.executable, *HOLDFAST, "jobs", "list", "--app", "tests.e2e.jobs_app:app", "--limit", "100"]
        environment = {**os.environ, **ships.environment, "E2E_FOLDER": str(tmp_path)}
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            words, cwd=ROOT, env=environment, stdout=write, stderr=subprocess.PIPE, text=True, timeout=START, check=False
        )
        os.close(write)
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr

"""``python -m bench.runners``: leaking runner processes, and how exactly a process is killed after its job's limit."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast import App, Handle, JobFailed, JobView

TARGET = "bench.runner_tasks:app"
WITHIN = 180.0


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return 0 also when a target is missed: a benchmark reports, it does not judge."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-bench-") as folder:
        os.environ["BENCH_URL"] = f"sqlite:///{folder}/jobs.db"
        app: App = importlib.import_module("bench.runner_tasks").app  # it reads BENCH_URL
        with _worker(Path(folder)):
            _leaks(app, options.jobs)
            _limits(app, Path(folder), options.limits)
        app.close()
    return 0


def _leaks(app: App, count: int) -> None:
    leak = importlib.import_module("bench.runner_tasks").leak  # its App reads BENCH_URL
    views = _ended([leak.enqueue() for _ in range(count)])
    runs = sorted((view.result for view in views if view.state == "completed"), key=lambda run: float(run["begun"]))
    if len(runs) < count:
        print(f"{count - len(runs)} of {count} jobs did not complete")
    processes = {run["pid"]: max(each["blocks"] for each in runs if each["pid"] == run["pid"]) for run in runs}
    print(f"{count} jobs that each leak 50 MB: {len(processes)} processes, at most {max(processes.values())} jobs in one")
    print(f"crashes {sum(view.crashes for view in views)}; longest time without a running job {_longest_idle(runs):.2f} s")
    print(f"longest idle time of a slot {max(_idle_slots(runs), default=0.0):.2f} s, target 1 s")


def _longest_idle(runs: Sequence[dict[str, float]]) -> float:
    """Return the longest time in which no job ran at all."""
    ended, longest = runs[0]["ended"], 0.0
    for run in runs[1:]:
        longest = max(longest, run["begun"] - ended)
        ended = max(ended, run["ended"])
    return longest


def _idle_slots(runs: Sequence[dict[str, float]]) -> list[float]:
    """Return how long each slot was free between two of its jobs: a job takes the slot that has been free for the longest time."""
    slots = sorted({len([r for r in runs if r["begun"] <= run["begun"] < r["ended"]]) for run in runs})[-1]
    free, idle = [runs[0]["begun"]] * slots, list[float]()
    for run in runs:
        free.sort()
        idle.append(run["begun"] - free[0])
        free[0] = run["ended"]
    return idle


def _limits(app: App, folder: Path, count: int) -> None:
    tasks = importlib.import_module("bench.runner_tasks")
    late = list[float]()
    for number in range(count):
        path = folder / f"spin-{number}"
        sibling = tasks.stand.enqueue(seconds=tasks.TIMEOUT + tasks.KILL_AFTER + 1.0)
        views = _ended([tasks.spin.enqueue(path=str(path)), sibling])
        beats = [float(line) for line in path.read_text(encoding="ascii").splitlines() if line]
        late.append(beats[-1] - beats[0] - tasks.TIMEOUT - tasks.KILL_AFTER)
        path.unlink()
        stopped, stood = views
        reason = stopped.attempts[0].outcome
        if (reason, stood.state, stood.attempt, stood.crashes) != ("timed_out", "completed", 1, 0):
            print(f"wrong: {reason}, sibling {stood.state} in attempt {stood.attempt}")
    print(f"{count} kills: code ran at most timeout + kill_after {max(late):+.3f} s, target +0.200 s; siblings untouched")


def _ended(handles: Sequence[Handle]) -> list[JobView]:
    for handle in handles:
        with suppress(JobFailed):
            handle.result(timeout=WITHIN)
    return [handle.get() for handle in handles]


@contextmanager
def _worker(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "holdfast.cli", "worker", TARGET]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.runners", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100, help="how many jobs leak; default 100")
    parser.add_argument("--limits", type=int, default=5, help="how many jobs pass their limit; default 5")
    parser.add_argument("--folder", type=Path, help="where the store is; default: the temporary folder")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

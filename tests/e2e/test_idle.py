"""The cost of a worker that has nothing to do."""

import os
import time
from collections.abc import Iterator, Sequence
from compileall import compile_dir
from pathlib import Path

import holdfast
from tests.e2e.fleet import fleet
from tests.e2e.waiting import until

MOST_MEGABYTES = 70
MOST_CPU = 0.01
OBSERVED = 2.0
APP = """
import os
from holdfast import App
app = App(os.environ["E2E_URL"])

@app.task
async def count(number: int) -> int:
    return number
"""
WINDOWS = 4  # a busy machine makes the same work dearer, so the cheapest window counts


def test_a_supervisor_with_an_idle_worker_is_small_and_hardly_computes(tmp_path: Path) -> None:
    compile_dir(Path(holdfast.__file__).parent, quiet=1)  # as pip does: a process that compiles needs more memory
    (tmp_path / "idle_app.py").write_text(APP)
    with fleet(tmp_path) as ships:
        ships.target = "idle_app:app"
        ships.environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        crew = ships.crew()
        processes = crew.processes()
        assert len(processes) == 3  # supervisor, worker, guard
        shares = list(windows(processes))
        own = {pid: kilobytes(pid, "RssAnon") / 1000 for pid in processes}
        files = max(kilobytes(pid, "RssFile") / 1000 for pid in processes)
        print(f"{sum(own.values()):.1f} MB {own}, {files:.1f} MB of libraries they share, {shares} of a core")
        assert sum(own.values()) + files <= MOST_MEGABYTES
        assert min(shares) <= MOST_CPU


def windows(processes: Sequence[int]) -> Iterator[float]:
    """Yield the share of a core that these processes used in each window, until one is small enough."""
    for _ in range(WINDOWS):
        began, before = time.monotonic(), sum(map(cpu_seconds, processes))
        until(lambda began=began: time.monotonic() - began > OBSERVED, within=2 * OBSERVED)
        share = (sum(map(cpu_seconds, processes)) - before) / (time.monotonic() - began)
        yield round(share, 4)
        if share <= MOST_CPU:
            return


def cpu_seconds(pid: int) -> float:
    """Return the time that the threads of a process ran; ``stat`` counts it in steps of 10 ms, half of what is allowed."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def kilobytes(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

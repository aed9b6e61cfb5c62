"""The cost of a worker that has nothing to do."""

import os
import time
from pathlib import Path

from tests.e2e.fleet import fleet
from tests.e2e.waiting import until

MOST_MEGABYTES = 90
MOST_CPU = 0.01
OBSERVED = 2.0


def test_a_supervisor_with_an_idle_worker_is_small_and_hardly_computes(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="30s", recovery="5s", poll="1s") as ships:
        crew = ships.crew()
        processes = crew.processes()
        assert len(processes) == 3  # supervisor, worker, guard
        began, before = time.monotonic(), sum(map(cpu_seconds, processes))
        until(lambda: time.monotonic() - began > OBSERVED, within=2 * OBSERVED)
        cpu = (sum(map(cpu_seconds, processes)) - before) / (time.monotonic() - began)
        megabytes = {pid: round(kilobytes(pid) / 1000, 1) for pid in processes}
        print(f"{sum(megabytes.values()):.1f} MB {list(megabytes.values())}, {cpu:.2%} of a core")
        assert sum(megabytes.values()) <= MOST_MEGABYTES
        assert cpu <= MOST_CPU


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

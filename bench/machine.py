"""On what is measured."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from holdfast.databases.sqlite.file_location import file_system_of

PAGE, PROBES = 8192, 400


def machine(folder: Path) -> dict[str, str]:
    """Describe the machine, how busy it is, and how long its disk takes."""
    mounts = Path("/proc/self/mountinfo")
    disk = file_system_of(folder.resolve(), mounts.read_text(encoding="utf-8")) if mounts.exists() else "unknown"
    usual, slow = _waits_for_disk(folder / "probe")
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "disk": f"{disk}{' - NOT A DISK: nothing is durable there' if disk in ('tmpfs', 'ramfs') else ''}, "
        f"fdatasync of a page p50 {usual:.2f} ms, p99 {slow:.2f} ms",
    }


def _waits_for_disk(probe: Path) -> tuple[float, float]:
    """Measure what each commit waits for under every library, in milliseconds: usually, and once in a hundred times."""
    waits = []
    with probe.open("wb", buffering=0) as file:
        file.write(bytes(PAGE * PROBES))
        os.fsync(file.fileno())
        for place in range(PROBES):
            os.pwrite(file.fileno(), b"x" * PAGE, place * PAGE)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            waits.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
    probe.unlink()
    return sorted(waits)[PROBES // 2], sorted(waits)[PROBES * 99 // 100]

"""The tasks of ``bench.runners``: one leaks, one does not stop, one waits beside it."""

from __future__ import annotations

import os
import time

from holdfast import App, Runners, SyncJob

LEAK = 50 * 2**20
TIMEOUT, KILL_AFTER = 2.0, 1.0

app = App(
    os.environ["BENCH_URL"], grace="20s", runners=Runners(max_memory="512MiB", max_growth=None, kill_after=f"{KILL_AFTER}s")
)
_leaked: list[bytearray] = []


@app.task(process=True, max_crashes=1, max_attempts=1)
def leak() -> dict[str, float]:
    """Keep 50 MB that nothing frees."""
    begun = time.monotonic()
    block = bytearray(LEAK)
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * (LEAK // os.sysconf("SC_PAGE_SIZE"))
    _leaked.append(block)
    time.sleep(0.25)
    return {"pid": os.getpid(), "begun": begun, "ended": time.monotonic(), "blocks": len(_leaked)}


@app.task(process=True, timeout=TIMEOUT, max_attempts=1)
def spin(path: str) -> None:
    """Write down when it begins and that it still runs, and never look at cancellation."""
    with open(path, "a", encoding="ascii") as file:
        while True:
            file.write(f"{time.monotonic()}\n")
            file.flush()
            time.sleep(0.001)


@app.task(process=True, max_attempts=1, max_crashes=1)
def stand(job: SyncJob, seconds: float) -> int:
    """Wait beside the one that spins."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not job.is_cancelled:
        time.sleep(0.01)
    return os.getpid()

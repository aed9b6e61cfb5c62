"""The cleanup as it happens, while a worker is killed every two seconds: ``python show.py --kill-every 2 --svg chart.svg``."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from app import app, contents, pastes
from chart import Moment, drawn, written
from rich.console import Console
from rich.live import Live

LOOK = 0.25
"""Seconds between two looks, or four times as many as one takes: counting a million rows is work, too."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=2.0, metavar="SECONDS", help="0: no worker is killed")
    parser.add_argument("--svg", type=Path, default=Path("chart.svg"))
    asked = parser.parse_args()
    app.migrate()
    moments: list[Moment] = []
    console = Console()
    with supervisor(asked.processes) as process, Live(console=console, auto_refresh=False) as screen:
        for moment in watched(process, asked.kill_every):
            moments.append(moment)
            screen.update(drawn(moments, console.width), refresh=True)
    asked.svg.write_text(written(moments))
    app.close()
    last, killed = moments[-1], sum(moment.killed for moment in moments)
    print(f"{last.deleted:,} pastes deleted in {last.time:.1f} s, {killed} workers killed: {asked.svg}")


@contextmanager
def supervisor(processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a supervisor as in production: it starts another worker for each that dies."""
    command = [sys.executable, "-m", "holdfast.cli", "worker", "app:app", "--processes", str(processes), "--concurrency", "2"]
    with Path("workers.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()


def watched(process: subprocess.Popen[bytes], kill_every: float) -> Iterator[Moment]:
    """Watch what it looks like, until nothing is left to be done."""
    began, last_kill, is_over = time.monotonic(), 0.0, False
    while not is_over:
        if process.poll() is not None:
            sys.exit("error: the workers have ended: workers.log says why")
        now = time.monotonic() - began
        is_killing = bool(kill_every) and now - last_kill >= kill_every and killed_one(process.pid)
        last_kill = now if is_killing else last_kill
        table, objects = pastes.states(), contents.states()
        deleting, deleted = table.rows.get("DELETING", 0), table.rows.get("DELETED", 0)
        kept = table.rows.get("LIVE", 0) - table.due
        yield Moment(now, max(kept, 0), table.due, deleting, deleted, objects.rows.get("GONE", 0), is_killing)
        is_over = not (table.due or deleting or objects.due or objects.rows.get("DELETING", 0))
        time.sleep(max(LOOK, 4 * (time.monotonic() - began - now)))


def killed_one(process: int) -> bool:
    """SIGKILL for one of its workers, if there are any just now."""
    workers = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    if workers:
        os.kill(int(Random().choice(workers)), signal.SIGKILL)
    return bool(workers)


if __name__ == "__main__":
    main()

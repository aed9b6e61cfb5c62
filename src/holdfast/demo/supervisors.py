"""The supervisors of a show: started here, killed with all their processes when the show wants it, and surely ended here."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast._system.guard import read_stat, sees_processes
from holdfast.demo.app import TRANSPORT

GRACE = 15.0


class Crew:
    """One supervisor and its workers. ``output``: the file their logs go to."""

    def __init__(self, url: str, transport: str | None, *, processes: int, concurrency: int | None, output: Path) -> None:
        worker = ["worker", "holdfast.demo.app:app", "--processes", str(processes), "--grace", "1s"]
        worker += [] if concurrency is None else ["--concurrency", str(concurrency)]
        environment = {**os.environ, "HOLDFAST_URL": url, TRANSPORT: transport or ""}
        with output.open("ab") as log:
            words = [sys.executable, "-m", "holdfast.cli", *worker]
            self._process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """The process id of the supervisor."""
        return self._process.pid

    def has(self, pid: int) -> bool:
        """Return whether that process is one of them."""
        return pid in self._pids()

    def kill(self) -> int:
        """SIGKILL for the supervisor and everything below it, as if the power went; how many processes that were."""
        pids = self._pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        return len(pids)

    def end(self) -> None:
        """SIGTERM, and SIGKILL for one that does not listen."""
        self._process.terminate()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.kill()

    def _pids(self) -> list[int]:
        """List the supervisor first, then its children, then theirs."""
        parents, found = _parents(), [self.pid]
        for known in found:
            found += [pid for pid, parent in parents.items() if parent == known]
        return found


@contextlib.contextmanager
def crews(
    count: int, url: str, transport: str | None, *, processes: int, concurrency: int | None = None, output: Path
) -> Iterator[list[Crew]]:
    """Start `count` supervisors with `processes` workers each, which run `concurrency` jobs at once; end them with the show."""
    made: list[Crew] = []
    try:
        for _ in range(count):
            made.append(Crew(url, transport, processes=processes, concurrency=concurrency, output=output))
        yield made
    finally:
        for crew in made:
            crew.end()


def _parents() -> dict[int, int]:
    """Read the parent of each process."""
    if sees_processes():
        stats = {int(name): read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
        return {pid: stat.parent for pid, stat in stats.items() if stat is not None}
    lines = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(pid): int(parent) for pid, parent in map(str.split, lines)}

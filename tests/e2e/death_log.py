"""A log of when workers die of any cause: their guard and their supervisor kill them as well, and notify no test.

It is a separate process of high priority. A supervisor that sees the same death acts at once. If its acts came first in
the history, the checker would report that it had moved jobs of living workers.
"""

import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast._core.identity import ProcessIdentity
from holdfast._system.host import identify
from proof.checker.process_log import ProcessEvent, read_from, tell
from tests.e2e.records import UP

ROOT = Path(__file__).parents[2]
LOOK = 0.02
"""Seconds between two searches for processes that have written their first line."""
EAGER = -10
END = "process.end"


class DeathLog:
    """Waits for the deaths of processes until ``until`` is readable, and logs each."""

    def __init__(self, deeds_file: Path, until: int) -> None:
        self._file, self._read, self._until = deeds_file, 0, until
        self._known: set[ProcessIdentity] = set()
        self._living: dict[int, ProcessIdentity] = {}
        self._poller = select.epoll()
        self._poller.register(until, select.EPOLLIN)

    def run(self) -> None:
        while True:
            for process in self._new_processes() - self._known:
                self._meet(process)
            for fd, _ in self._poller.poll(LOOK):
                if fd == self._until:
                    return
                self._note_death(self._living.pop(fd))
                self._poller.unregister(fd)
                os.close(fd)

    def _new_processes(self) -> set[ProcessIdentity]:
        """Read the processes that have written since the last look."""
        deeds, self._read = read_from(self._file, self._read)
        return {deed.process for deed in deeds}

    def _meet(self, process: ProcessIdentity) -> None:
        self._known.add(process)
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return self._note_death(process)
        # Another start time means that another process has the pid now. Host names may differ: a test names its machines.
        if identify(process.pid).start != process.start:
            os.close(fd)
            return self._note_death(process)
        self._living[fd] = process
        return self._poller.register(fd, select.EPOLLIN)

    def _note_death(self, process: ProcessIdentity) -> None:
        tell(self._file, ProcessEvent(time.time(), END, process))


class Watch:
    """What a test knows of its processes from the file they write to."""

    def __init__(self, deeds_file: Path) -> None:
        self._file, self._read = deeds_file, 0
        self._up: dict[ProcessIdentity, None] = {}
        self._dead: set[ProcessIdentity] = set()
        self.counts: Counter[str] = Counter()

    def up(self) -> list[ProcessIdentity]:
        """Return the workers that have begun a job and are alive."""
        deeds, self._read = read_from(self._file, self._read)
        for deed in deeds:
            self.counts[deed.what] += 1
            if deed.what == END:
                self._dead.add(deed.process)
            elif deed.what == UP:
                self._up[deed.process] = None
        self._up = {process: None for process in self._up if process not in self._dead}
        return list(self._up)


@contextmanager
def log_deaths(deeds_file: Path) -> Iterator[Watch]:
    """Start a log of the deaths of every process that writes to that file of deeds."""
    words = [sys.executable, "-m", "tests.e2e.death_log", str(deeds_file)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield Watch(deeds_file)
        process.stdin.close()


def main(deeds_file: str) -> None:
    """Log deaths until standard input ends."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, EAGER)
    made = DeathLog(Path(deeds_file), sys.stdin.fileno())
    print(flush=True)
    made.run()


if __name__ == "__main__":
    main(sys.argv[1])

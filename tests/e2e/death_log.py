"""Writes down when workers die of any cause: their guard and their supervisor kill them as well, and notify no test.

A separate process, as eager as it may be: a supervisor that sees the same death acts upon it at once, and a history in
which its acts come first would accuse it of having moved the jobs of the living.
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
from holdfast.testing.process_log import ProcessEvent, read_from, tell
from tests.e2e.records import UP

ROOT = Path(__file__).parents[2]
LOOK = 0.02
"""Seconds between two looks for processes that have written their first line."""
EAGER = -10
END = "process.end"


class Undertaker:
    """Sleeps until a process dies, or until ``until`` can be read."""

    def __init__(self, said: Path, until: int) -> None:
        self._said, self._read, self._until = said, 0, until
        self._known: set[ProcessIdentity] = set()
        self._living: dict[int, ProcessIdentity] = {}
        self._poller = select.epoll()
        self._poller.register(until, select.EPOLLIN)

    def run(self) -> None:
        while True:
            for process in self._speakers() - self._known:
                self._meet(process)
            for fd, _ in self._poller.poll(LOOK):
                if fd == self._until:
                    return
                self._bury(self._living.pop(fd))
                self._poller.unregister(fd)
                os.close(fd)

    def _speakers(self) -> set[ProcessIdentity]:
        """Read the processes that have written since the last look."""
        deeds, self._read = read_from(self._said, self._read)
        return {deed.process for deed in deeds}

    def _meet(self, process: ProcessIdentity) -> None:
        self._known.add(process)
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return self._bury(process)
        if identify(process.pid).start != process.start:  # the pid is another's by now; the host may be named otherwise there
            os.close(fd)
            return self._bury(process)
        self._living[fd] = process
        return self._poller.register(fd, select.EPOLLIN)

    def _bury(self, process: ProcessIdentity) -> None:
        tell(self._said, ProcessEvent(time.time(), END, process))


class Watch:
    """What a test knows of its processes from what they wrote."""

    def __init__(self, said: Path) -> None:
        self._said, self._read = said, 0
        self._up: dict[ProcessIdentity, None] = {}
        self._dead: set[ProcessIdentity] = set()
        self.heard: Counter[str] = Counter()

    def up(self) -> list[ProcessIdentity]:
        """Workers that have begun a job, and live."""
        deeds, self._read = read_from(self._said, self._read)
        for deed in deeds:
            self.heard[deed.what] += 1
            if deed.what == END:
                self._dead.add(deed.process)
            elif deed.what == UP:
                self._up[deed.process] = None
        self._up = {process: None for process in self._up if process not in self._dead}
        return list(self._up)


@contextmanager
def undertaker(said: Path) -> Iterator[Watch]:
    """Start one that watches every process that writes to that file of deeds."""
    words = [sys.executable, "-m", "tests.e2e.death_log", str(said)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield Watch(said)
        process.stdin.close()


def main(said: str) -> None:
    """Until standard input ends."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, EAGER)
    made = Undertaker(Path(said), sys.stdin.fileno())
    print(flush=True)
    made.run()


if __name__ == "__main__":
    main(sys.argv[1])

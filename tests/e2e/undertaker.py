"""Notes when workers die of whatever cause: their guard and their supervisor kill them as well, and tell no test."""

import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.system_host import identify
from holdfast.testing.deeds import Deed, told

LOOK = 0.02
"""Seconds between two looks for processes that have said their first word."""


class Undertaker:
    """A thread that sleeps until somebody dies."""

    def __init__(self, said: Path) -> None:
        self.deeds: list[Deed] = []
        self._said, self._read = said, 0
        self._known: set[ProcessIdentity] = set()
        self._living: dict[int, ProcessIdentity] = {}
        self._poller, self._is_over = select.epoll(), threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            for process in self._speakers() - self._known:
                self._meet(process)
            for fd, _ in self._poller.poll(LOOK):
                self._bury(self._living.pop(fd))
                self._poller.unregister(fd)  # closing alone does not, while a child that was just forked has a copy
                os.close(fd)

    def end(self) -> None:
        """No more."""
        self._is_over.set()

    def _speakers(self) -> set[ProcessIdentity]:
        """Of what was said since the last look."""
        deeds, self._read = told(self._said, self._read)
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
        self.deeds.append(Deed(time.time(), "process.end", process))


@contextmanager
def undertaker(said: Path) -> Iterator[Undertaker]:
    """One at work, who knows everybody that says something in that file of deeds."""
    made = Undertaker(said)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.end()
        thread.join()

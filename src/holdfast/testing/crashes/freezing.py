"""A worker process, its guard and its runners, stopped and woken: what a machine that is paused does to them."""

import os
import signal
import subprocess
from pathlib import Path

from holdfast._system import guard
from holdfast._system.clock import blocking_sleep

PAUSE = 0.005
# If the test's process ends, even by SIGKILL, the pipe that this one reads is closed: no other process would wake the stopped ones.
_KILL_AFTER_PARENT = 'read -r _; kill -KILL "$@"'


class FrozenProcesses:
    """All processes of a session. A guard that woke would kill them at once, so it is not woken."""

    def __init__(self, pid: int) -> None:
        self._session = os.getsid(pid)
        self._pids = self._living()
        script = ["sh", "-c", _KILL_AFTER_PARENT, "sh", *map(str, self._pids)]
        self._killer = subprocess.Popen(script, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    @property
    def is_gone(self) -> bool:
        """Whether the worker has ended."""
        stat = guard.read_stat(self._session)
        return stat is None or not stat.is_alive

    def stop(self) -> None:
        """Stop all processes; return when they stand still."""
        self._send(signal.SIGSTOP, self._pids)
        while any((stat := guard.read_stat(pid)) is not None and stat.state not in "TZX" for pid in self._pids):
            blocking_sleep(PAUSE)

    def thaw(self) -> None:
        """Let the processes go on, except for the guard."""
        self._send(signal.SIGCONT, [pid for pid in self._pids if not _is_guard(pid)])

    def melt(self) -> None:
        """Kill all processes that are left."""
        for pid in self._living():
            guard.kill_member(pid, self._session)
        self._killer.kill()
        assert self._killer.stdin is not None
        self._killer.stdin.close()
        self._killer.wait()

    def _living(self) -> list[int]:
        return [pid for pid, stat in guard.session_processes(self._session).items() if stat.is_alive]

    def _send(self, number: signal.Signals, pids: list[int]) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def _is_guard(pid: int) -> bool:
    try:
        return guard.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False

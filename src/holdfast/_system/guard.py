"""The guard: a small process in a worker's session that kills the session when code outlives its right to run.

Nothing inside the worker can do that: a timer there dies with a held GIL, or kills code that the supervisor still
beats for. The guard reads each deadline from a pipe whose write end only the supervisor holds, so it needs no
message to act, and it sees the supervisor's death as the end of that pipe.

It runs as a script, without site-packages, and imports next to nothing: there is one beside every worker.
"""

import _signal  # type: ignore[import-not-found]  # without the enum on top of it: 0.7 MB less in every guard
import os
import select
import sys
import time

SIGKILL = 9
MONOTONIC = getattr(time, "CLOCK_MONOTONIC", -1)  # Windows has none, and no worker runs there
CLOCKS = (MONOTONIC, getattr(time, "CLOCK_BOOTTIME", MONOTONIC))
"""The clocks that deadlines may be on: the kernel's monotonic one, and the one that runs through suspend."""
DEADLINE_BYTES = 8
RECHECK = 0.1
"""Seconds between two checks of what gives no event: the flag past the deadline, a worker without a pidfd."""
SUSPEND_CHECK = 1.0
"""Longest wait for a deadline on a clock that runs through suspend: a wait does not count that time."""
PAUSE = 0.002
KILL_TIMEOUT = 5.0
"""Seconds to wait for killed processes; only one stuck in the kernel takes longer, and it runs no code any more."""


class Stat:
    """The facts of /proc about one process; ``start`` in kernel ticks since boot."""

    def __init__(self, text: bytes) -> None:
        fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything, spaces and ")" included
        self.state = fields[0].decode()
        self.parent, self.group, self.session, self.start = (int(fields[number]) for number in (1, 2, 3, 19))
        self.is_alive = self.state not in "ZX"  # a zombie is not


def read_stat(pid: int) -> Stat | None:
    """Read the facts of that process; ``None`` if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Stat(file.read())
    except OSError:
        return None


def sees_processes() -> bool:
    """Return whether /proc shows this process's namespace; a container may have none, or another namespace's."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def session_processes(session: int) -> dict[int, Stat]:
    """Find the processes of a session by pid, zombies included; none where /proc cannot show them."""
    found = {}
    for name in os.listdir("/proc") if sees_processes() else ():
        if name.isdigit() and _session_of(int(name)) == session:
            stat = read_stat(int(name))
            if stat is not None:
                found[int(name)] = stat
    return found


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def open_pidfd(pid: int) -> int:
    """Open a descriptor of this very process, readable once it has died; -1 where the system has none."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except OSError:
        return -1


def kill_member(pid: int, session: int) -> None:
    """SIGKILL a process if it is still in that session. A pidfd names it: if the guard freezes after the check, the pid may be reused."""
    handle = open_pidfd(pid)
    try:
        if _session_of(pid) == session:
            if handle >= 0:
                _signal.pidfd_send_signal(handle, SIGKILL)
            else:
                os.kill(pid, SIGKILL)
    except OSError:
        pass  # it is gone, or the guard may not signal it
    finally:
        if handle >= 0:
            os.close(handle)


def kill_all(session: int, spare: int = 0) -> int:
    """SIGKILL every process of a session but one, and return how many were alive. The session's number must still be reserved."""
    found = {pid: stat for pid, stat in session_processes(session).items() if stat.is_alive and pid != spare}
    for group in {session, *(stat.group for stat in found.values())} - {os.getpgid(0)}:
        try:
            os.killpg(group, SIGKILL)  # at one blow, so that none of a group forks its way out
        except OSError:
            pass
    for pid in found:
        kill_member(pid, session)
    return len(found)


def kill_session(session: int, spare: int = 0) -> None:
    """Kill until no process is left in two checks: one check can miss a process that is just being forked."""
    until, quiet = time.monotonic() + KILL_TIMEOUT, 0
    while quiet < 2 and time.monotonic() < until:
        quiet = 0 if kill_all(session, spare) else quiet + 1
        time.sleep(PAUSE)


class Guard:
    """Watches one worker: its deadlines, its flags and its life. The first flag is set while user code runs. The second,
    set before there is any deadline, is the index in ``CLOCKS`` of the clock that deadlines are on."""

    def __init__(self, pipe: int, flags: int, worker: int) -> None:
        self._pipe, self._flags, self._worker = pipe, flags, worker
        self._clock = CLOCKS[0]
        self._deadline: float | None = None
        self._is_supervised = True
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self._death = select.poll()
        self._pidfd = open_pidfd(worker)
        if self._pidfd >= 0:
            self._poll.register(self._pidfd, select.POLLIN)
            self._death.register(self._pidfd, select.POLLIN)
        os.set_blocking(pipe, False)

    def watch(self) -> None:
        """Return when the session must end."""
        while True:
            # First the clock, then the pipe: a guard that was frozen in between knows every deadline given until "now".
            self._clock = CLOCKS[self._has_flag(1)]
            now = time.clock_gettime(self._clock)
            self._read_deadlines()
            if not self._is_worker_alive() or self._must_end(now):
                return
            wait = self._wait(now)
            self._poll.poll(None if wait is None else wait * 1000 + 1)

    def _read_deadlines(self) -> None:
        while self._is_supervised:
            try:
                data = os.read(self._pipe, 1024 * DEADLINE_BYTES)
            except BlockingIOError:
                return
            if data:
                self._deadline = memoryview(data).cast("d")[-1]
            else:
                self._is_supervised = False
                self._poll.unregister(self._pipe)

    def _is_worker_alive(self) -> bool:
        if self._pidfd >= 0:
            return not self._death.poll(0)
        return _session_of(self._worker) == self._worker

    def _must_end(self, now: float) -> bool:
        if self._deadline is None:  # no lease yet, so nothing to lose: code may hang there, but its supervisor is gone
            return not self._is_supervised
        return now >= self._deadline and self._has_flag(0)

    def _has_flag(self, place: int) -> bool:
        return os.pread(self._flags, 1, place) != b"\0"

    def _wait(self, now: float) -> float | None:
        """Return the seconds until there is something to judge; ``None``: only a message can change anything."""
        blind = None if self._pidfd >= 0 else RECHECK
        if self._deadline is None:
            return blind
        if now >= self._deadline:
            return RECHECK
        wait = self._deadline - now
        return wait if self._clock == time.CLOCK_MONOTONIC and blind is None else min(wait, blind or SUSPEND_CHECK)


def main(pipe: int, flags: int) -> None:
    """Arm the guard and exit with 0: it watches from a separate process, which the worker does not have to wait for."""
    worker = os.getppid()
    if os.getsid(0) != worker:
        sys.exit("the worker does not lead a session: start it with start_new_session=True")
    guard = Guard(pipe, flags, worker)
    if os.fork():
        os._exit(0)
    os.dup2(1, 2)  # the worker that armed the guard reads there until it is closed
    guard.watch()
    kill_session(worker, spare=os.getpid())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

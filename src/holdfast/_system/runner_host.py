"""Real runner processes: each leads a group in the worker's session, is killed with its group, and dies with the worker."""

import asyncio
import ctypes
import faulthandler
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

from holdfast._ports.clock import Clock
from holdfast._ports.host import Exit
from holdfast._system import guard
from holdfast._system.channel import SystemChannel
from holdfast._system.clock import SystemClock
from holdfast._system.host import MOST_STACKS, exit_of, shared_file, wait_for_exit
from holdfast._system.memory import resident
from holdfast._system.memory_kills import MemoryKills

# -P: as for workers; the runner itself adds the current folder to the path.
RUNNER_COMMAND = (sys.executable, "-P", "-m", "holdfast._processes.runner")
PR_SET_PDEATHSIG = 1
STACKS_WITHIN = 1.0
STACKS_PAUSE = 0.01
ARMED = b"\n"


class SystemRunnerHost:
    """Starts runners. ``arguments``: the command line of each, after its descriptors and the worker's pid."""

    def __init__(
        self, arguments: Sequence[str] = (), *, clock: Clock | None = None, command: Sequence[str] = RUNNER_COMMAND
    ) -> None:
        self._clock = clock or SystemClock()
        self._command, self._arguments = tuple(command), tuple(arguments)
        self._memory_kills = MemoryKills()

    async def spawn(self) -> "SystemRunner":
        """Start a runner. Call it from the thread of the event loop, which lives as long as the worker does."""
        self._memory_kills.poll()
        return SystemRunner(self._clock, self._command, self._arguments, self._memory_kills)


class SystemRunner:
    """A runner process. Its life is watched from the start, so it is reaped even if no caller waits."""

    def __init__(self, clock: Clock, command: Sequence[str], arguments: Sequence[str], memory_kills: MemoryKills) -> None:
        self._clock, self._memory_kills = clock, memory_kills
        ours, theirs = socket.socketpair()
        self._stacks = shared_file("holdfast-runner-stacks")
        passed = {"--channel": theirs.fileno(), "--stacks": self._stacks, "--worker": os.getpid()}
        words = [word for name, number in passed.items() for word in (name, str(number))]
        try:
            self._popen = subprocess.Popen(
                [*command, *words, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), self._stacks),
                process_group=0,
            )
        except BaseException:
            ours.close()
            self._close()
            raise
        finally:
            theirs.close()
        self._is_killed = False
        self._last_stacks = ""
        self._channel = SystemChannel(ours)
        self._ended = asyncio.get_running_loop().create_task(self._reap())

    @property
    def pid(self) -> int:
        """The process id of the runner, and the id of its group."""
        return self._popen.pid

    @property
    def channel(self) -> SystemChannel:
        """The worker's end of the runner's pipe."""
        return self._channel

    async def dump_stacks(self) -> str:
        """Return the stacks of the runner's threads; wait for them up to a second.

        A signal handler in the runner writes them, and needs neither the event loop nor the GIL.
        """
        if self._stacks < 0 or (before := os.fstat(self._stacks).st_size) == 0 or self._popen.returncode is not None:
            return ""  # reaped; or no handler yet, and the signal would kill it
        os.kill(self._popen.pid, signal.SIGUSR1)
        size = before
        for _ in range(round(STACKS_WITHIN / STACKS_PAUSE)):
            await self._clock.sleep(STACKS_PAUSE)
            now = os.fstat(self._stacks).st_size if self._stacks >= 0 else size
            if now == size > before:
                break
            size = now
        return os.pread(self._stacks, MOST_STACKS, before).decode("ascii", "replace") if self._stacks >= 0 else ""

    def last_stacks(self) -> str:
        """Return the last stacks that the runner wrote; they are known once it has been reaped."""
        return self._last_stacks

    def kill(self) -> None:
        """SIGKILL the runner's process group; ``wait`` kills what is left of it."""
        self._is_killed = True
        self._kill_group()

    async def wait(self) -> Exit:
        """Return how the runner ended, once it has been reaped and no process of its group is left."""
        return await asyncio.shield(self._ended)

    def _kill_group(self) -> None:
        if self._popen.returncode is None:  # its pid, and so its group's number, is reserved until it is reaped
            try:
                os.killpg(self._popen.pid, signal.SIGKILL)
            except OSError:
                pass  # no process of the group is left

    async def _reap(self) -> Exit:
        try:
            await wait_for_exit(self._popen)
            self._kill_group()
            until = self._clock.monotonic() + guard.KILL_TIMEOUT
            while _is_group_alive(self._popen.pid) and self._clock.monotonic() < until:
                await self._clock.sleep(guard.PAUSE)
            code = self._popen.wait()
            self._channel.finish()
        finally:
            self._close()
        return exit_of(code, self._memory_kills, is_ours=self._is_killed)

    def _close(self) -> None:
        if self._stacks >= 0:
            self._last_stacks = os.pread(self._stacks, MOST_STACKS, len(ARMED)).decode("ascii", "replace")
            os.close(self._stacks)
        self._stacks = -1


class SystemWorkerLink:
    """A runner process from inside."""

    def __init__(self, channel: SystemChannel) -> None:
        self.channel = channel

    @classmethod
    def adopt(cls, channel_fd: int, stacks_fd: int, worker: int) -> "SystemWorkerLink":
        """Take over what the worker passed, and die with it from now on. Call it first of all."""
        for fd in (channel_fd, stacks_fd):
            os.set_inheritable(fd, False)
        _exit_with_parent(worker)
        faulthandler.register(signal.SIGUSR1, file=stacks_fd, all_threads=True, chain=False)
        os.write(stacks_fd, ARMED)  # from now on the signal is safe to send
        faulthandler.enable(stacks_fd)  # the report of a crash in native code goes there too
        return cls(SystemChannel(socket.socket(fileno=channel_fd)))

    def die(self) -> None:
        """Exit with all children: the worker is dead, so their work has no use."""
        os.killpg(0, signal.SIGKILL)

    def memory(self) -> int:
        """Return the bytes of memory this process occupies; 0 where the system does not show it."""
        return resident() or 0


def _exit_with_parent(worker: int) -> None:
    """Have the kernel kill this process with the thread that started it; elsewhere the end of the pipe must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != worker:  # it died before the kernel was asked
        os._exit(1)


def _is_group_alive(group: int) -> bool:
    for name in os.listdir("/proc") if guard.sees_processes() else ():
        if name.isdigit() and _group_of(int(name)) == group:
            stat = guard.read_stat(int(name))
            if stat is not None and stat.is_alive:
                return True
    return False


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1

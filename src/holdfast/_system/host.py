"""Real worker processes: each leads a session and has pipes, a guard and an observed death."""

import asyncio
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence

from holdfast._core.identity import Look, ProcessIdentity, is_provably_dead, may_run
from holdfast._ports.clock import Clock
from holdfast._ports.host import Exit
from holdfast._system import guard
from holdfast._system.channel import SystemChannel
from holdfast._system.clock import SystemClock, blocking_sleep
from holdfast._system.memory import resident
from holdfast._system.memory_kills import MemoryKills

# -P: a file in the current folder that is named like a module of Holdfast or of the standard library is not imported.
WORKER_COMMAND = (sys.executable, "-P", "-m", "holdfast._processes.worker")
MARK = "HOLDFAST_WORKER"
"""In the environment of every worker and, unless they clear it, of everything it starts."""
EXEC_LOOKS = 10
MOST_STACKS = 16 * 1024
STACKS_WITHIN = 0.2


class SystemHost:
    """This machine. ``command`` is what a worker process runs, before its descriptors and arguments."""

    def __init__(self, clock: Clock | None = None, command: Sequence[str] = WORKER_COMMAND) -> None:
        self._clock = clock or SystemClock()
        self._command = tuple(command)
        self._memory_kills = MemoryKills()

    def process(self) -> ProcessIdentity:
        """Return the identity of this process."""
        return identify(os.getpid())

    def is_running(self, process: ProcessIdentity) -> bool:
        """Return whether the process runs on this machine; a zombie does not. In doubt return true."""
        if not guard.sees_processes():
            return _exists(process.pid)
        # Start times are shown shifted in another time namespace; then the pid alone must do.
        return may_run(process, _look(process.pid), are_starts_comparable=process.clock == self.process().clock)

    def memory(self, process: ProcessIdentity) -> int | None:
        """Return the bytes of memory that a process of this machine occupies; ``None`` where the system does not show it."""
        return resident(process.pid) if guard.sees_processes() else None

    def kill_orphans(self, process: ProcessIdentity) -> int:
        """Kill the remaining processes of a dead worker's session, and return how many there were.

        A session keeps its number until its last process is gone. But the number may have been free in between and
        lead another session since, so only processes that carry a worker's mark in their environment are killed.
        """
        if not is_provably_dead(process, self.process(), is_running=self.is_running(process)):
            return 0
        killed: set[int] = set()
        until = self._clock.monotonic() + guard.KILL_TIMEOUT
        while not self._is_taken(process) and (left := _marked_members(process.pid, killed)) and self._clock.monotonic() < until:
            for pid in left:
                guard.kill_member(pid, process.pid)
            killed.update(left)
            blocking_sleep(guard.PAUSE)
        return len(killed)

    def _is_taken(self, process: ProcessIdentity) -> bool:
        """Return whether that pid belongs to anything but this process' own zombie."""
        stat = guard.read_stat(process.pid)
        return stat is not None and (stat.is_alive or stat.start != process.start)

    async def spawn(self, arguments: Sequence[str]) -> "SystemChild":
        """Start a worker process from the main thread."""
        return SystemChild(self._clock, self._command, arguments, self._memory_kills)


class SystemChild:
    """A worker process. Its life is watched from the start, so it is reaped even if no caller waits."""

    def __init__(self, clock: Clock, command: Sequence[str], arguments: Sequence[str], memory_kills: MemoryKills) -> None:
        self._clock, self._memory_kills, self._is_killed = clock, memory_kills, False
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited: the kernel would reap, and the exit be lost
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ours, theirs = socket.socketpair()
        deadlines = self._deadlines = self._stacks = -1
        try:
            deadlines, self._deadlines = os.pipe()
            os.set_blocking(self._deadlines, False)
            self._stacks = shared_file("holdfast-stacks")
            passed = {"--channel": theirs.fileno(), "--guard": deadlines, "--stacks": self._stacks}
            words = [word for name, fd in passed.items() for word in (name, str(fd))]
            self._popen = subprocess.Popen(
                [*command, *words, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=tuple(passed.values()),
                start_new_session=True,
                env={**os.environ, MARK: "1"},
            )
        except BaseException:
            ours.close()
            self._close()
            raise
        finally:
            theirs.close()
            if deadlines >= 0:
                os.close(deadlines)
        self._process = identify(self._popen.pid)
        self._channel = SystemChannel(ours)
        self._ended = asyncio.get_running_loop().create_task(self._reap())

    @property
    def process(self) -> ProcessIdentity:
        """The identity of the worker process."""
        return self._process

    @property
    def channel(self) -> SystemChannel:
        """The supervisor's end of the worker's pipe."""
        return self._channel

    def set_deadline(self, guard_deadline: float) -> bool:
        """Send the worker's guard a deadline. A guard that has not read for hours misses some, and judges by an older one."""
        try:
            os.write(self._deadlines, struct.pack("d", guard_deadline))
        except BlockingIOError:
            pass
        except OSError:
            return False  # the guard has gone, or was reaped already
        return True

    def is_stopped(self) -> bool:
        """Return whether the worker is stopped: its process state is T, or t under a debugger."""
        self._memory_kills.poll()  # at every watch, so that a memory kill of another process is not taken for this one's
        stat = guard.read_stat(self._process.pid)
        return stat is not None and stat.state in "Tt"

    def dump_stacks(self) -> str:
        """Return the stacks of the worker's threads; wait for them up to 0.2 s.

        A signal handler in the worker writes them, and needs neither the event loop nor the GIL.
        """
        if self._stacks < 0 or (before := os.fstat(self._stacks).st_size) == 0:
            return ""  # reaped; or no handler yet, and the signal would kill it
        os.kill(self._process.pid, signal.SIGUSR1)
        size, until = before, self._clock.monotonic() + STACKS_WITHIN
        while self._clock.monotonic() < until:
            blocking_sleep(0.01)
            now = os.fstat(self._stacks).st_size
            if now == size > before:
                break
            size = now
        return os.pread(self._stacks, MOST_STACKS, before).decode("ascii", "replace")

    def kill(self) -> None:
        """SIGKILL every process of the worker's session; ``wait`` kills those that are being forked at this moment."""
        self._is_killed = True
        if self._popen.returncode is None:  # its pid is reserved until it is reaped
            guard.kill_all(self._process.pid)

    async def wait(self) -> Exit:
        """Return how the worker ended, once it has been reaped and no process of its session is left."""
        return await asyncio.shield(self._ended)

    async def _reap(self) -> Exit:
        try:
            await wait_for_exit(self._popen)
            until = self._clock.monotonic() + guard.KILL_TIMEOUT
            quiet = 0  # twice nothing, as in guard.kill_session, which would block the supervisor's loop
            while quiet < 2 and self._clock.monotonic() < until:
                quiet = 0 if guard.kill_all(self._process.pid) else quiet + 1
                await self._clock.sleep(guard.PAUSE)
            _reap_adopted(self._process.pid)
            code = self._popen.wait()
            self._channel.finish()
        finally:
            self._close()
        return exit_of(code, self._memory_kills, is_ours=self._is_killed)

    def _close(self) -> None:
        for fd in (self._deadlines, self._stacks):
            if fd >= 0:
                os.close(fd)
        self._deadlines = self._stacks = -1


class SystemSupervisorLink:
    """A worker process from inside. ``limits``: what this machine cannot promise, to be logged at start."""

    def __init__(self, channel: SystemChannel, flags: mmap.mmap, limits: Sequence[str]) -> None:
        self._channel, self._flags, self.limits = channel, flags, tuple(limits)

    @classmethod
    def adopt(cls, channel_fd: int, guard_fd: int, stacks_fd: int) -> "SystemSupervisorLink":
        """Take over what the supervisor passed and start the guard. Call it first of all, from the main thread."""
        for fd in (channel_fd, guard_fd, stacks_fd):
            os.set_inheritable(fd, False)
        flags_fd = shared_file("holdfast-flags")
        os.ftruncate(flags_fd, 2)
        limits = []
        problem = _start_guard(guard_fd, flags_fd)
        if problem:
            limits.append(f"no guard ({problem}): code that blocks this process may run past its lease")
        if not guard.sees_processes():
            limits.append("no /proc: a dead worker's jobs wait for its ttl, and child processes may outlive it")
        import faulthandler

        faulthandler.register(signal.SIGUSR1, file=stacks_fd, all_threads=True, chain=False)
        os.write(stacks_fd, b"\n")  # from now on the signal is safe to send
        cell = cls(SystemChannel(socket.socket(fileno=channel_fd)), mmap.mmap(flags_fd, 2), limits)
        os.close(guard_fd)
        os.close(flags_fd)
        return cell

    @property
    def channel(self) -> SystemChannel:
        """This end of the pipe to the supervisor."""
        return self._channel

    def process(self) -> ProcessIdentity:
        """Return the identity of this process."""
        return identify(os.getpid())

    def set_code_running(self, is_running: bool) -> None:
        """Set the guard's flag, one byte of shared memory: a system call could cost the thread the GIL."""
        self._flags[0] = is_running

    def set_lease_clock(self, *, runs_through_suspend: bool) -> None:
        """Tell the guard which clock deadlines are on, before there is one."""
        self._flags[1] = runs_through_suspend


def identify(pid: int) -> ProcessIdentity:
    """Identify an existing process of this machine. A fact that the system does not show stays empty: nothing is concluded from it."""
    stat = guard.read_stat(pid) if guard.sees_processes() else None
    return ProcessIdentity(
        host=socket.gethostname(),
        pid=pid,
        start=0 if stat is None else stat.start,
        boot=_boot_id(),
        pid_namespace=_namespace("pid"),
        clock=_namespace("time"),
    )


def _look(pid: int) -> Look:
    """Look up a process. Only an absent entry and a signal that finds nothing prove it gone; an error or a missing right does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = guard.Stat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return Look(has_no_entry=True, has_no_process=not _exists(pid))
    except (OSError, ValueError, IndexError):
        return Look()
    return Look(start=stat.start, is_alive=stat.is_alive)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _marked_members(session: int, known: set[int]) -> list[int]:
    """Return the living processes of a session that Holdfast has marked in their environment.

    ``known``: processes found so before. A process that is being killed may have lost its environment already.
    """
    return [pid for pid, stat in guard.session_processes(session).items() if stat.is_alive and (pid in known or _is_marked(pid))]


def _is_marked(pid: int) -> bool:
    for _ in range(EXEC_LOOKS):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            return False
        if environment:
            return any(entry.startswith(MARK.encode() + b"=") for entry in environment.split(b"\0"))
        blocking_sleep(guard.PAUSE)  # nothing can be read while it is being replaced by another program
    return False


def shared_file(name: str) -> int:
    """Create a file without a name, shared with child processes by its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _start_guard(guard_fd: int, flags_fd: int) -> str:
    """Start the guard and wait until it watches this process; return what went wrong, if anything."""
    # Signals stay blocked in it: it must outlive every signal that stops or ends the others.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        armed = subprocess.run(
            [sys.executable, "-I", "-S", guard.__file__, str(guard_fd), str(flags_fd)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(guard_fd, flags_fd),
            process_group=0,  # so that it can kill the worker's whole group at once
            cwd="/",
            check=False,
        )
    except OSError as error:
        return str(error)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return armed.stderr.decode(errors="replace").strip() or f"exit {armed.returncode}" if armed.returncode else ""


async def wait_for_exit(popen: "subprocess.Popen[bytes]") -> None:
    """Return when the process has ended, without reaping it: until then its pid and session number stay reserved.

    Never by the end of a pipe, which a forked child keeps open.
    """
    loop, died = asyncio.get_running_loop(), asyncio.Event()
    pidfd = guard.open_pidfd(popen.pid)
    if pidfd < 0:
        threading.Thread(target=_wait_in_thread, args=(popen, loop, died), daemon=True).start()
        await died.wait()
        return
    loop.add_reader(pidfd, died.set)
    try:
        await died.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _wait_in_thread(popen: "subprocess.Popen[bytes]", loop: asyncio.AbstractEventLoop, died: asyncio.Event) -> None:
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
    else:
        popen.wait()
    try:
        loop.call_soon_threadsafe(died.set)
    except RuntimeError:
        pass  # the loop is closed: no caller waits any more


def _reap_adopted(session: int) -> None:
    """Reap what a dead worker leaves: as process 1 of a container this process inherits it, and no other process would reap it."""
    for pid, stat in guard.session_processes(session).items():
        if pid != session and stat.parent == os.getpid():
            os.waitpid(pid, os.WNOHANG)


def exit_of(code: int, memory_kills: MemoryKills, *, is_ours: bool) -> Exit:
    """Interpret a return code. ``is_ours``: Holdfast sent the kill, so no other process needs to have done it."""
    if code >= 0:
        return Exit(code)
    is_out_of_memory = -code == signal.SIGKILL and not is_ours and memory_kills.had_recent_kill()
    return Exit(signal=_name_of(-code), is_out_of_memory=is_out_of_memory)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""One server process with a separate folder and port, which ends with the process that started it."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast._system.clock import SystemClock, blocking_sleep

_TIMEOUT = 60.0  # seconds for a start or a stop; a loaded machine needs a fraction of it
_PAUSE = 0.01
_PORTS = range(15_000, 32_000)  # below those that connections take, so that a restart finds its own again
_places = itertools.count(os.getpid() * 61)  # other processes begin elsewhere
_AS_OTHER_USER = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")
# If this process ends, even by SIGKILL, the pipe that this one reads is closed. The server may be paused.
_MOURNER = 'read -r _; kill -QUIT "$1" 2>/dev/null && kill -CONT "$1" 2>/dev/null && sleep 1; rm -rf "$2"'


class ServerMissing(RuntimeError):
    """There is no such program; the message names what to install."""


class Server(ABC):
    """A real server that a test can start, stop, kill and restart on the same port and data.

    Its output is in ``log``. Its folder is deleted by ``close``, at the latest when this process has ended.
    """

    name = "server"
    _gentle_signal = signal.SIGTERM

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{self.name}-"))
        self.log = self.folder / "log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._killer: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _words(self) -> Sequence[str | Path]:
        """Return the command line."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Return whether it answers."""

    @property
    def pid(self) -> int:
        """The number of the running process."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether there is a process."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_paused(self) -> bool:
        """Return whether the process is stopped by a signal."""
        return self.is_running and Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2][0] == "T"

    def start(self) -> Self:
        """Run it and return once it answers; a ``RuntimeError`` with the end of its log if it does not."""
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            words = [str(word) for word in self._words()]
            self._process = subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        script = ["sh", "-c", _MOURNER, "sh", str(self.pid), str(self.folder)]
        self._killer = subprocess.Popen(script, stdin=subprocess.PIPE, start_new_session=True)
        try:
            for _ in pauses(f"{self.name} does not answer", self.tail):
                if self._process.poll() is not None:
                    raise RuntimeError(f"{self.name} ended with status {self._process.returncode}:\n{self.tail()}")
                if self._is_ready():
                    break
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End it as its operators do, and wait until it has ended; do nothing if it does not run."""
        self._end(self._gentle_signal)

    def kill(self) -> None:
        """``kill -9`` it, and wait until every process of it is gone; do nothing if it does not run."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it, then start it."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Send SIGSTOP, and wait until it has stopped: its connections stay open, and it does not answer."""
        os.kill(self.pid, signal.SIGSTOP)
        for _ in pauses(f"{self.name} does not stop", self.tail):
            if self.is_paused:
                break

    def resume(self) -> None:
        """Send SIGCONT: it goes on where it was paused."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it and delete all it wrote."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tail(self, lines: int = 30) -> str:
        """Return the end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)  # one that is paused would never see the other signal
            self._wait_for_end(process)
        killer, self._killer = self._killer, None
        if killer is not None:
            killer.kill()
            assert killer.stdin is not None
            killer.stdin.close()
            killer.wait()

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"{self.name} did not stop within {_TIMEOUT:g} s:\n{self.tail()}") from None

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def pauses(complaint: str, tail: Callable[[], str], *, within: float = _TIMEOUT) -> Iterator[None]:
    """Yield again and again, with short waits, until the caller leaves its loop.

    If the caller is still waiting after ``within`` seconds, raise ``RuntimeError`` with ``complaint`` and the end of the log.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + within
    while clock.monotonic() < deadline:
        yield
        blocking_sleep(_PAUSE)
    raise RuntimeError(f"{complaint} within {within:g} s:\n{tail()}")


def free_port() -> int:
    """Return a port on which no process listens, and that this process has not returned before."""
    for place in itertools.islice(_places, len(_PORTS)):
        port = _PORTS[place % len(_PORTS)]
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                return port
    raise RuntimeError("every port is taken")


def as_other_user(*words: str | Path) -> tuple[str | Path, ...]:
    """Wrap a command for programs that refuse to run as root: in a user namespace it has another user."""
    return (*_AS_OTHER_USER, *words) if os.geteuid() == 0 else words

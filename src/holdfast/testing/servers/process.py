"""One server process in a folder of its own, on a port of its own, that ends with the process that started it."""

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

_PATIENCE = 60.0  # seconds for a start or a stop; a loaded machine needs a fraction of it
_PAUSE = 0.01
_PORTS = range(15_000, 32_000)  # below those that connections take, so that a restart finds its own again
_places = itertools.count(os.getpid() * 61)  # other processes begin elsewhere
_AS_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")
# Whatever ends this process, also a SIGKILL, closes the pipe that this one reads.
_MOURNER = 'read -r _; kill -QUIT "$1" 2>/dev/null && sleep 1; rm -rf "$2"'


class ServerMissing(RuntimeError):
    """There is no such program; the message says what to install."""


class Server(ABC):
    """A real server that a test can start, stop, kill and restart on the same port and data.

    What it says is in ``log``. Its folder is deleted by ``close``, at the latest when this process has ended.
    """

    name = "server"
    _gentle_signal = signal.SIGTERM

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{self.name}-"))
        self.log = self.folder / "log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._mourner: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _words(self) -> Sequence[str | Path]:
        """The command line."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it answers."""

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Run it and return once it answers; a ``RuntimeError`` with the end of its log if it does not."""
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            words = [str(word) for word in self._words()]
            self._process = subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        script = ["sh", "-c", _MOURNER, "sh", str(self.pid), str(self.folder)]
        self._mourner = subprocess.Popen(script, stdin=subprocess.PIPE, start_new_session=True)
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
        """End it as its operators do, and wait until it has ended; nothing if it does not run."""
        self._end(self._gentle_signal)

    def kill(self) -> None:
        """``kill -9``, and wait until everything of it is gone; nothing if it does not run."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill it and delete all it wrote."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            self._wait_for_end(process)
        mourner, self._mourner = self._mourner, None
        if mourner is not None:
            mourner.kill()
            assert mourner.stdin is not None
            mourner.stdin.close()
            mourner.wait()

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"{self.name} did not stop within {_PATIENCE:g} s:\n{self.tail()}") from None

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def pauses(complaint: str, tail: Callable[[], str]) -> Iterator[None]:
    """Short waits until the caller is content, which must be soon."""
    clock = SystemClock()
    deadline = clock.monotonic() + _PATIENCE
    while clock.monotonic() < deadline:
        yield
        blocking_sleep(_PAUSE)
    raise RuntimeError(f"{complaint} within {_PATIENCE:g} s:\n{tail()}")


def free_port() -> int:
    """One that nobody listens on, and that this process was not given before."""
    for place in itertools.islice(_places, len(_PORTS)):
        port = _PORTS[place % len(_PORTS)]
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                return port
    raise RuntimeError("every port is taken")


def as_nobody(*words: str | Path) -> tuple[str | Path, ...]:
    """A command for programs that refuse to run as root, which in this command's eyes is somebody else."""
    return (*_AS_NOBODY, *words) if os.geteuid() == 0 else words

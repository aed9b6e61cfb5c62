"""The child processes and the one thread of an analysis: started here, and surely ended here."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Channel = int | IO[bytes]


class Ended(Exception):
    """The analysis was cancelled while its thread worked; only the cancelled caller ever sees it.

    >>> isinstance(Ended(), Exception)
    True
    """


class Children:
    """Every child process of one analysis, so that none can outlive it.

    Each child leads a process group (git starts helpers), but stays in the worker's session:
    when the worker dies by SIGKILL, its supervisor ends the whole session, clones included.

    >>> children = Children()
    >>> children.kill(); children.reap()
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: set[subprocess.Popen[bytes]] = set()
        self._ended = threading.Event()

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: Channel = subprocess.DEVNULL,
        stdout: Channel = subprocess.DEVNULL,
        stderr: Channel = subprocess.DEVNULL,
        memory: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a child, or raise Ended: under the lock, so that no child slips past a kill.

        `memory`: the most bytes it may allocate, files it maps apart; where the system cannot limit that, it is unlimited.

        >>> process = Children().start(["true"], environment={"PATH": os.environ["PATH"]})
        >>> process.wait()
        0
        """
        with self._lock:
            if self._ended.is_set():
                raise Ended
            process = subprocess.Popen(arguments, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, process_group=0)
            self._alive.add(process)
        if memory is not None and sys.platform == "linux":
            with contextlib.suppress(OSError):  # it has ended already
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))
        return process

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """Kills one child if it still runs, waits for it and closes its pipes; its exit code.

        >>> children = Children()
        >>> children.end(children.start(["sleep", "60"], environment={"PATH": os.environ["PATH"]}))
        -9
        """
        _kill_group(process)
        code = process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # closing flushes, and the child may have closed its end
                    pipe.close()
        with self._lock:
            self._alive.discard(process)
        return code

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a child which ends by itself; return its exit code. Raises Ended when it was killed from outside.

        >>> children = Children()
        >>> children.wait(children.start(["false"], environment={"PATH": os.environ["PATH"]}))
        1
        """
        process.wait()
        code = self.end(process)
        self.raise_if_ended()
        return code

    def kill(self) -> None:
        """Send SIGKILL to every group and let no new child start; return at once.

        >>> Children().kill()
        """
        with self._lock:
            self._ended.set()
            for process in self._alive:
                _kill_group(process)

    def reap(self) -> None:
        """Wait for what `kill` ended, so that no zombie process stays behind.

        >>> Children().reap()
        """
        for process in list(self._alive):
            self.end(process)

    def raise_if_ended(self) -> None:
        """Raise Ended once `kill` was called, for loops which would otherwise run on.

        >>> Children().raise_if_ended()
        """
        if self._ended.is_set():
            raise Ended

    def pause(self, seconds: float) -> None:
        """Wait that long, or raise Ended as soon as `kill` is called.

        >>> Children().pause(0.001)
        """
        self._ended.wait(seconds)
        self.raise_if_ended()

    def remove(self, folder: Path) -> None:
        """Remove a folder or a file with all that is in it, against all obstacles; raise Ended between two files.

        >>> Children().remove(Path("/nowhere/at/all"))
        """
        for parent, folders, files in os.walk(folder, topdown=False):
            for name in (*files, *folders):
                self.raise_if_ended()
                _remove_one(os.path.join(parent, name))
        _remove_one(str(folder))


def _remove_one(path: str) -> None:
    is_folder = os.path.isdir(path) and not os.path.islink(path)
    with contextlib.suppress(OSError):
        (os.rmdir if is_folder else os.unlink)(path)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # returncode is set only by wait(), under which the pid cannot have been given to another process yet
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Workshop:
    """One thread for the blocking work of one analysis, and its children; leaving it ends both, cancelled or not.

    A separate thread instead of `asyncio.to_thread`: a full default pool can neither delay a step nor keep a cancelled one.

    >>> async def main() -> int:
    ...     async with Workshop() as workshop:
    ...         return await workshop.run(int, "7")
    >>> asyncio.run(main())
    7
    """

    def __init__(self) -> None:
        self.children = Children()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-demo")

    async def run(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one blocking step in the thread; a cancelled caller leaves at once and `__aexit__` waits for the step to end."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: step(*args, **kwargs))

    async def next(self, steps: Iterator[T]) -> T | None:
        """Run a generator up to its next yield; return None at its end: long work in slices with a progress report between them."""
        return await self.run(next, steps, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.children.kill()
        # one thread takes its work in turn: when it has reaped, the step that was running has ended too
        try:
            await _settled(asyncio.get_running_loop().run_in_executor(self._thread, self.children.reap))
        finally:
            self._thread.shutdown(wait=False)


async def _settled(future: asyncio.Future[T]) -> None:
    """Wait until the future is done, even if the caller is cancelled: leaving early would leave a thread behind."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled

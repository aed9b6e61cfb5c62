"""A disk that can be full: a separate small one if it can be mounted, else limits on what every process may write."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

SIZE = 12 << 20


class Disk(Protocol):
    """A disk; the jobs are in ``folder``."""

    folder: Path

    def fill(self) -> None:
        """Fill the disk to the last byte; it may be called again."""
        ...

    def free(self) -> None:
        """Free space on the disk."""
        ...


@contextmanager
def small_disk(folder: Path, users: Callable[[], Sequence[int]], *, size: int = SIZE) -> Iterator[Disk]:
    """Return a disk below a folder. ``users``: all processes that write to it, except this one."""
    mounted = folder / "disk"
    mounted.mkdir()
    if not _is_mounted(mounted, size):
        limited = _Limited(mounted, users)
        try:
            yield limited
        finally:
            limited.free()
        return
    try:
        yield _Mounted(mounted)
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


def _is_mounted(folder: Path, size: int) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "holdfast-test", str(folder)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False  # the program is not installed


class _Mounted:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class _Limited:
    """A limit: no process may write a file longer than the longest one in the folder."""

    def __init__(self, folder: Path, users: Callable[[], Sequence[int]]) -> None:
        self.folder = folder
        self._users = users

    def fill(self) -> None:
        self._limit(max(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()))

    def free(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, most: int) -> None:
        for pid in (os.getpid(), *self._users()):
            try:
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))
            except ProcessLookupError:
                pass  # it has ended

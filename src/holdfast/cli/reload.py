"""``--reload``: restart the workers when a Python file below the current folder has changed."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast._ports.clock import Clock

LOOK_EVERY = 0.5
_LEFT_OUT = {"node_modules", "site-packages"}

Stamps = dict[Path, tuple[int, int]]


class Changes:
    """Compares the times of files, which needs no library and works on every file system."""

    def __init__(self, folder: Path, clock: Clock, say: Callable[[str], None]) -> None:
        self._folder, self._clock, self._say = folder, clock, say
        self._before = stamps(folder)

    async def wait(self) -> list[Path]:
        """Return the files changed since the last look, once they can be compiled; print the error of one that cannot, and wait."""
        while True:
            await self._clock.sleep(LOOK_EVERY)
            if not (changed := await self._look()):
                continue
            await self._clock.sleep(LOOK_EVERY / 5)
            changed |= await self._look()  # an editor writes several files, or one in several steps
            broken = [path for path in sorted(changed) if self._is_broken(path)]
            if not broken:
                return sorted(changed)

    async def _look(self) -> set[Path]:
        now = await asyncio.to_thread(stamps, self._folder)
        changed = {path for path in self._before.keys() | now.keys() if self._before.get(path) != now.get(path)}
        self._before = now
        return changed

    def _is_broken(self, path: Path) -> bool:
        try:
            compile(path.read_bytes(), str(path), "exec")
        except OSError:
            return False
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"{path}:{line}" if line else str(path)
            self._say(f"{where}: {type(error).__name__}: {getattr(error, 'msg', error)}; the old code runs on until it is fixed")
            return True
        return False


def stamps(folder: Path) -> Stamps:
    """Read time and size of each Python file, without hidden folders and virtual environments."""
    return dict(_stamps(folder))


def _stamps(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__")) and name not in _LEFT_OUT]
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        for name in files:
            if name.endswith(".py"):
                try:
                    found = os.stat(path := Path(place, name))
                except OSError:
                    continue
                yield path, (found.st_mtime_ns, found.st_size)

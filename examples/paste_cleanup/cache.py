"""A cache of rendered pastes: a file for each in a folder that a web server reads. No entry is valid for longer than its paste."""

import os
from collections.abc import Iterable
from pathlib import Path


class Cache:
    """``PASTES_CACHE`` holds its address."""

    def __init__(self) -> None:
        self.folder = Path(os.environ.get("PASTES_CACHE", "cache"))

    def keep(self, paste: int, text: bytes) -> None:
        """Serve it from here from now on."""
        path = self._path(paste)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def forget(self, pastes: Iterable[int]) -> None:
        """Remove those that are there."""
        for paste in pastes:
            self._path(paste).unlink(missing_ok=True)

    def pastes(self) -> set[int]:
        """Return all that it has."""
        return {int(path.name) for path in self.folder.glob("*/*")}

    def _path(self, paste: int) -> Path:
        return self.folder / str(paste % 1000) / str(paste)

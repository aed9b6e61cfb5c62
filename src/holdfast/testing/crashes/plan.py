"""What the processes of a trial read, and what they write: two files in its folder."""

import os
from enum import StrEnum
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast.settings import Settings

VARIABLE = "HOLDFAST_CRASH_PLAN"
"""The variable in the environment of a trial's processes that holds the path of their plan."""
TARGET = "holdfast.testing.crashes.trial_process:app"
"""The module that they run."""


class Blow(StrEnum):
    """What happens to a process at a point."""

    KILL = "killed"
    FREEZE = "frozen"


class Plan(Struct, frozen=True, kw_only=True):
    """``modules``: to import, with the files they came from; that of the App first. ``setup``: ``module:function`` to call."""

    folder: str
    target: str
    task: str
    modules: dict[str, str | None]
    path: tuple[str, ...]
    settings: Settings
    setup: str | None
    point: str
    blow: Blow

    @property
    def mark(self) -> Path:
        """The file that exists as soon as one process was struck: no other process will be."""
        return Path(self.folder, "struck")

    @property
    def thaw(self) -> Path:
        """The file that exists as soon as the frozen processes may go on."""
        return Path(self.folder, "thaw")

    @property
    def journal(self) -> "Journal":
        """The file of the points that were reached."""
        return Journal(Path(self.folder, "journal"))

    def write(self, name: str) -> Path:
        """Write the plan to a file of the trial's folder."""
        path = Path(self.folder, name)
        path.write_bytes(msgspec.json.encode(self))
        return path

    @classmethod
    def read(cls) -> "Plan":
        """Read the plan of this process."""
        return msgspec.json.decode(Path(os.environ[VARIABLE]).read_bytes(), type=cls)


class Entry(Struct, frozen=True, kw_only=True):
    """A point was reached. ``job``, ``attempt``: unknown in code of a ``process=True`` handler. ``time``: of the wall clock."""

    point: str
    job: UUID | None
    attempt: int | None
    pid: int
    time: float
    blow: Blow | None


class Journal:
    """One line for each point that was reached, by any process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, entry: Entry) -> None:
        """Add an entry in one write, so that lines of several processes do not mix."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, msgspec.json.encode(entry) + b"\n")
        finally:
            os.close(file)

    def read(self) -> list[Entry]:
        """Read all entries so far."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return [msgspec.json.decode(line, type=Entry) for line in lines]

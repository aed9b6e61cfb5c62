"""What the processes of a trial are told, and what they tell: two files in its folder."""

import os
from enum import StrEnum
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast.settings import Settings

VARIABLE = "HOLDFAST_CRASH_PLAN"
"""In the environment of the processes of a trial: where their plan is."""
TARGET = "holdfast.testing.crashes.trial_process:app"
"""What they run."""


class Blow(StrEnum):
    """What is done to a process at a point."""

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
        """There as soon as somebody was struck: nobody else will be."""
        return Path(self.folder, "struck")

    @property
    def thaw(self) -> Path:
        """There as soon as the frozen may go on."""
        return Path(self.folder, "thaw")

    @property
    def journal(self) -> "Journal":
        """Which points were reached."""
        return Journal(Path(self.folder, "journal"))

    def write(self, name: str) -> Path:
        """To a file of the trial's folder."""
        path = Path(self.folder, name)
        path.write_bytes(msgspec.json.encode(self))
        return path

    @classmethod
    def read(cls) -> "Plan":
        """This process' own."""
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
    """One line for each point that was reached, by whichever process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, entry: Entry) -> None:
        """In one write, so that lines of several processes do not mix."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, msgspec.json.encode(entry) + b"\n")
        finally:
            os.close(file)

    def read(self) -> list[Entry]:
        """All of them."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        return [msgspec.json.decode(line, type=Entry) for line in lines]

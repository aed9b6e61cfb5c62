"""A wall clock that is wrong in one process only, and steps when its test asks.

All code reads its clocks through ``_system/clock.py``; this replaces ``time`` there. The monotonic clocks stay right.
"""

import os
import time
from pathlib import Path
from typing import Any

import holdfast._system.clock as clock


class WrongTime:
    """The ``time`` module, with a wall clock that is wrong by the seconds in a file."""

    def __init__(self, offset: Path) -> None:
        self._offset = offset

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + float(self._offset.read_text() or 0)

    def time_ns(self) -> int:
        return round(self.time() * 1e9)


def arm(role: str) -> None:
    """Use the clock error that the test has set for the role of this process, if any."""
    offset = _file(Path(os.environ["E2E_FOLDER"]), role)
    if offset.exists():
        clock.time = WrongTime(offset)  # type: ignore[assignment]


def set_wrong(folder: Path, role: str, seconds: float) -> None:
    """Make the clocks of all processes of that role wrong by that many seconds."""
    fresh = _file(folder, f"{role}-new")
    fresh.write_text(f"{seconds}")
    fresh.rename(_file(folder, role))


def _file(folder: Path, role: str) -> Path:
    return folder / f"wall-{role}"


def supervise() -> None:
    """Run ``holdfast``, whose supervisor has a separate clock."""
    from holdfast.cli import main

    arm("supervisor")
    main()

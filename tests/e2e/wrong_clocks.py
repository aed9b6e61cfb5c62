"""A wall clock that is wrong in one process only, and steps when its test asks.

Everything reads its clocks through ``_system/clock.py``: there ``time`` is another module now. The monotonic clocks stay right.
"""

import os
import time
from pathlib import Path
from typing import Any

import holdfast._system.clock as clock


class WrongTime:
    """``time``, whose wall clock is off by the seconds in a file."""

    def __init__(self, offset: Path) -> None:
        self._offset = offset

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + float(self._offset.read_text() or 0)

    def time_ns(self) -> int:
        return round(self.time() * 1e9)


def arm(role: str) -> None:
    """From now on this process believes what its test has set for its role, if it has."""
    offset = _file(Path(os.environ["E2E_FOLDER"]), role)
    if offset.exists():
        clock.time = WrongTime(offset)  # type: ignore[assignment]


def set_wrong(folder: Path, role: str, seconds: float) -> None:
    """The clocks of all processes of that role are wrong by so much."""
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

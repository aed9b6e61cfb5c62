"""What a log shows of a failure: type, message and place, all of it or less."""

import re
from typing import Literal

from msgspec import Struct

from holdfast._core.fingerprint import is_installed
from holdfast._core.job import Failure

Errors = Literal["full", "where", "type"]
LINE_LIMIT = 1000
"""Characters of a message in a line of the log; the traceback has all of it."""

_HEADER = re.compile(r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):$", re.MULTILINE)
_FRAME = re.compile(r'^(?:  \| )?  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)


class FailureText(Struct, frozen=True):
    """The parts of a failure that a log shows; an empty part is not shown."""

    type: str
    message: str = ""
    where: str = ""
    traceback: str = ""

    def __str__(self) -> str:
        text = f"{self.type}: {self.message}" if self.message else self.type
        return f"{text} ({self.where})" if self.where else text


def failure_text(failure: Failure, errors: Errors, *, is_final: bool) -> FailureText:
    """Return what a log shows of a failure whose values are masked; the traceback follows the last one only."""
    if errors == "type":
        return FailureText(failure.type)
    where = place_in(failure.traceback)
    if errors == "where":
        return FailureText(failure.type, "", where, frames_in(failure.traceback) if is_final else "")
    message = failure.message if len(failure.message) <= LINE_LIMIT else f"{failure.message[:LINE_LIMIT]}…"
    return FailureText(failure.type, message, where, failure.traceback.rstrip() if is_final else "")


def place_in(traceback: str) -> str:
    """Return file, line and function of the innermost frame outside installed packages, where the exception itself was raised.

    >>> place_in('Traceback (most recent call last):\\n  File "/srv/shop/orders.py", line 118, in sync_line\\nKeyError: 1\\n')
    'shop/orders.py:118 in sync_line'
    """
    starts = [header.end() for header in _HEADER.finditer(traceback)]
    frames = list(_FRAME.finditer(traceback, starts[-1] if starts else 0))
    own = [frame for frame in frames if not is_installed(frame["file"])] or frames
    if not own:
        return ""
    file = "/".join(own[-1]["file"].replace("\\", "/").split("/")[-2:])
    return f"{file}:{own[-1]['line']} in {own[-1]['function']}"


def frames_in(traceback: str) -> str:
    """Return only the lines of a traceback that name frames: neither a message nor a line of code."""
    return "\n".join(frame[0] for frame in _FRAME.finditer(traceback))

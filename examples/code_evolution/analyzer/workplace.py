"""The folders of an analysis: where it works and where its results go, checked before anything is done."""

import os
import re
from contextlib import suppress
from pathlib import Path

from analyzer.errors import BadRepository
from analyzer.git import is_text
from analyzer.processes import Children

KINDS = ("json", "csv", "svg", "png")
_ABANDONED = 7 * 86_400.0  # seconds without a change
_JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def folder_of(asked: str, what: str) -> Path:
    """Return the absolute path of a folder that the caller named; raises BadRepository for what cannot be one.

    >>> folder_of("/tmp/../tmp/x", "out")
    PosixPath('/tmp/../tmp/x')
    """
    try:
        if asked.strip() and "\0" not in asked and is_text(asked):
            return Path(asked).expanduser().absolute()
        reason = "no text" if asked.strip() else "empty"
    except RuntimeError as error:  # the home directory of an unknown user
        reason = str(error).rstrip(".")
    raise BadRepository(
        f"`{what}` is not a usable path: {asked[:100]!r} ({reason})", remedy="pass a folder the worker may write to"
    )


def prepare(children: Children, folder: Path, out: Path) -> None:
    """Make an empty work folder and the folder of the results; raises BadRepository where that is not possible."""
    try:
        children.remove(folder)
        folder.mkdir(parents=True)
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(str(error)) from None
    for path in (folder, out):
        if not os.access(path, os.W_OK | os.X_OK):
            raise _unwritable(f"no rights to write into {path}")
    for kind in KINDS:
        if (out / f"evolution.{kind}").is_dir():
            raise _unwritable(f"{out}/evolution.{kind} is a folder")
    if folder.parent.name == ".work":
        _forget_abandoned(children, folder)


def _unwritable(reason: str) -> BadRepository:
    return BadRepository(f"cannot write results: {reason}", remedy="pass `out` and `work` which this worker may write to")


def forget(children: Children, folder: Path) -> None:
    """Remove a work folder, and the folder of all work when this was the last."""
    children.remove(folder)
    if folder.parent.name == ".work":
        with suppress(OSError):  # another job's work is in it
            folder.parent.rmdir()


def _forget_abandoned(children: Children, folder: Path) -> None:
    """Remove the work of cancelled jobs after a week: a cancelled job cannot know that no later attempt will go on."""
    now = _changed(folder)
    for other in folder.parent.iterdir():
        if _JOB.fullmatch(other.name) and now - _changed(other) > _ABANDONED:
            children.remove(other)


def _changed(folder: Path) -> float:
    moments = [0.0]
    with suppress(OSError):
        moments += [path.stat().st_mtime for path in (folder, *folder.iterdir())]
    return max(moments)

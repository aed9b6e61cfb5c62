"""Whether this user may write a store's file and its folder, in which SQLite keeps the write-ahead log."""

import os
from pathlib import Path

from holdfast._core.answers import Check


def lacking_right(path: Path) -> Check | None:
    """Return the finding about the folder or the file that this user may not use; ``None`` if there is no such thing."""
    for place, needed, what in (
        (path.parent, os.R_OK | os.W_OK | os.X_OK, "folder"),
        (path, os.R_OK | os.W_OK, "file"),
    ):
        if place.exists() and not os.access(place, needed):
            me, owner = user_name(os.geteuid() if hasattr(os, "geteuid") else None), user_name(place.stat().st_uid)
            why = ", in which SQLite keeps its log beside the file" if what == "folder" else ""
            message = f"the user {me} may not read and write the {what} {place.absolute()}{why}"
            return Check("error", "file", message, f"run as {owner}, its owner, or let {me} read and write it")
    return None


def user_name(number: int | None) -> str:
    """Return the name of a user, or its number if it has none here."""
    if number is None:  # Windows
        return os.environ.get("USERNAME", "of this process")
    try:
        from pwd import getpwuid

        return getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)

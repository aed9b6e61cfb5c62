"""Whether this user may write a store's file and its folder, in which SQLite keeps the write-ahead log."""

import os
import stat
from pathlib import Path
from shlex import quote

from holdfast._core.answers import Check


def lacking_right(path: Path) -> Check | None:
    """Return the finding about the folder or the file that this user may not use; ``None`` if there is no such thing."""
    files = (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm")))
    for place, needed, what in (
        (path.parent, os.R_OK | os.W_OK | os.X_OK, "folder"),
        *((file, os.R_OK | os.W_OK, "file") for file in files),
    ):
        if place.exists() and not os.access(place, needed):
            me, owner = user_name(os.geteuid() if hasattr(os, "geteuid") else None), user_name(place.stat().st_uid)
            why = ", in which SQLite keeps its log beside the file" if what == "folder" else ""
            message = f"the user {me} may not read and write the {what} {place.absolute()}{why}"
            return Check("error", "file", message, _remedy(place.absolute(), me, owner, what, mode=place.stat().st_mode))
    return None


def _remedy(place: Path, me: str, owner: str, what: str, *, mode: int) -> str:
    """Return the command that lets a user read and write a place. ``mode``: the rights that it has."""
    if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"its file system is mounted read-only; as root: `mount -o remount,rw {quote(str(_mount_of(place)))}`"
    if me == owner and (mode & stat.S_IRWXU) | (0 if what == "folder" else stat.S_IXUSR) == stat.S_IRWXU:
        return f"it may be immutable; as root: `chattr -i {quote(str(place))}`"
    if me == owner:
        return f"`chmod u+rw{'x' if what == 'folder' else ''} {quote(str(place))}`"
    return f"run as {owner}, its owner, or, as root: `chown {quote(me)} {quote(str(place))}`"


def _mount_of(place: Path) -> Path:
    """Return the folder on which the file system of a place is mounted."""
    place = place.resolve()
    return next((each for each in (place, *place.parents) if os.path.ismount(each)), place)


def user_name(number: int | None) -> str:
    """Return the name of a user, or its number if it has none here."""
    if number is None:  # Windows
        return os.environ.get("USERNAME", "of this process")
    try:
        from pwd import getpwuid

        return getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)

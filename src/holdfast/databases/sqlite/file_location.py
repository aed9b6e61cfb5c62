"""Checks of a file's location: its folder must exist, on a disk of this machine.

SQLite's write-ahead log needs shared memory between all processes that use the file. No network file system has that; there SQLite
loses data silently.
"""

import os
import stat
import sys
from pathlib import Path

from holdfast.errors import ConfigurationError

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
)
_NETWORK |= {"ocfs2", "orangefs", "panfs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "virtiofs"}
_NETWORK |= {f"fuse.{name}" for name in ("ceph", "davfs", "gcsfuse", "glusterfs", "juicefs", "rclone", "s3fs", "sshfs")}
_REMEDY = "put it on a disk of this machine, or use another store to share jobs between machines"


def require_local_disk(path: Path) -> None:
    """Raise ``ConfigurationError`` if the file's folder is missing or lies on a network file system."""
    folder = path.parent
    if not folder.is_dir():
        raise ConfigurationError([f"{path}: its folder {folder} does not exist; create it, or name another"])
    if path.is_dir():
        raise ConfigurationError([f"{path} is a folder; name a file in it"])
    if _MOUNTS.exists():
        kind = file_system_of(folder.resolve(), _MOUNTS.read_text(encoding="utf-8", errors="replace"))
        if kind in _NETWORK:
            raise ConfigurationError([f"{path} lies on a network file system ({kind}), where SQLite loses data; {_REMEDY}"])


def create_private(path: Path) -> None:
    """Create an empty file that only its owner may read. ``FileExistsError`` if it exists already."""
    if hasattr(os, "mknod") and sys.platform == "linux":
        os.mknod(
            path, stat.S_IFREG | 0o600
        )  # opens nothing: closing a descriptor would release SQLite's locks of a file that exists by now
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def identity_of(path: str | Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at a path; ``None`` if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def file_system_of(folder: Path, mounts: str) -> str:
    """Return the type of the file system that holds an absolute folder, by the text of ``/proc/self/mountinfo``; empty if unknown.

    The last mount on the longest matching mount point is the visible one.
    """
    kind, depth = "", 0
    for line in mounts.splitlines():
        fields, _, tail = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not tail:
            continue
        point = Path(_unescaped(columns[4]))
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = tail.split(" ")[0], len(point.parts)
    return kind


def _unescaped(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point

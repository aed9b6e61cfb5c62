"""A folder of this machine in place of a bucket, for copies of a store: one process writes it, and no conditions are tested at once."""

import asyncio
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from holdfast._ports.bucket import ABSENT, UNCHANGED, Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged

Result = TypeVar("Result")

_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
"""No part begins with a dot: a key of a damaged head must not lead out of the folder."""
_PARTIAL = ".partial"


class FolderBucket:
    """Files below a folder, which only their owner may read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        found = await self._run(f"read {key}", lambda: _read(self._path(key)))
        return UNCHANGED if isinstance(found, Found) and found.etag == unless else found

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        found = ABSENT if match is None else await self.get(key)
        if match is not None and match != (found.etag if isinstance(found, Found) else ABSENT):
            problem = f"{self._folder / key}: the condition failed: read the file to learn which write is in it"
            raise BucketUnavailable(problem, BucketProblem.CONDITION)
        await self._run(f"write {key}", lambda: _write(self._path(key), body))
        return _etag(body)

    async def delete(self, key: str) -> None:
        await self._run(f"delete {key}", lambda: self._path(key).unlink(missing_ok=True))

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        return await self._run("list", lambda: tuple(_listed(self._folder, folder)))

    async def close(self) -> None:
        pass

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise OSError(f"{key!r} is not the name of an object")
        return self._folder / key

    async def _run(self, what: str, act: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(act)
        except OSError as error:
            reason = error.strerror or str(error)
            problem = f"{self._folder}: cannot {what}: {reason}: name a folder that may be written, on a disk that is not full"
            raise BucketUnavailable(problem, BucketProblem.DENIED) from None


def _read(path: Path) -> Found | Absent:
    try:
        body = path.read_bytes()
        return Found(body, _etag(body), _modified(path))
    except FileNotFoundError:
        return ABSENT


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{_PARTIAL}")
    partial.unlink(missing_ok=True)
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as written:
        written.write(body)
        written.flush()
        os.fsync(file)
    partial.replace(path)


def _listed(root: Path, below: str) -> "list[Listed]":
    files = (path for path in (root / below).rglob("*") if path.is_file() and path.suffix != _PARTIAL)
    found = (Listed(path.relative_to(root).as_posix(), path.stat().st_size, _modified(path)) for path in files)
    return sorted(found, key=lambda each: each.key)


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _etag(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:32]}"'

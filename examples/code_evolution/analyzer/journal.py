"""The rows of an analysis on disk: a line of JSON per commit, durable before the checkpoint that counts on them.

A checkpoint holds 64 KiB, a history does not fit. So the checkpoint holds a length, and the rows up to there are in this file.
What lies beyond that length is torn or from work that will be done again: a resumed analysis never looks at it.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Self

Row = Mapping[str, object]


def encode(value: object) -> str:
    """JSON with sorted keys and no spaces: the same bytes for the same value, always.

    >>> encode({"b": 1, "a": "ü"})
    '{"a":"ü","b":1}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Journal:
    """An append-only file of rows with a known durable length.

    >>> import tempfile
    >>> with Journal.begin(Path(tempfile.mkdtemp()) / "rows") as journal:
    ...     journal.append({"a": 1})
    ...     journal.commit()
    8
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")

    @classmethod
    def begin(cls, path: Path) -> Self:
        """Begin an empty journal; an existing file is replaced."""
        path.unlink(missing_ok=True)
        return cls(path)

    @classmethod
    def resume(cls, old: Path, length: int, path: Path, *, check: Callable[[], object] = lambda: None) -> Self:
        """Go on after the first `length` bytes of `old`, in a separate file; call `check`, which may raise, now and then.

        Separate, because a frozen worker which lost this job may wake up and append to the old one.
        """
        if old == path:
            os.truncate(path, length)
            return cls(path)
        with old.open("rb") as source, path.open("wb") as target:
            for chunk in _chunks(source, length):
                check()
                target.write(chunk)
        return cls(path)

    def append(self, row: Row) -> None:
        """Add a row, not yet durable."""
        self._file.write(encode(row).encode() + b"\n")

    def commit(self) -> int:
        """Make all rows durable; return the journal's length in bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file; what was not committed may or may not be there."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rows_of(path: Path, length: int) -> Iterator[dict[str, object]]:
    """Yield the rows in the first `length` bytes, one at a time, so that a long history is never in memory.

    >>> list(rows_of(Path("/dev/null"), 0))
    []
    """
    with path.open("rb") as file:
        while file.tell() < length:
            row = json.loads(file.readline())
            assert isinstance(row, dict)
            yield row


def last_row(path: Path, length: int, count: int) -> dict[str, object] | None:
    """Return the last of exactly `count` rows in the first `length` bytes; None when the file does not hold them.

    >>> last_row(Path("/nowhere"), 8, 1) is None
    True
    """
    try:
        with path.open("rb") as file:
            lines, read, tail = 0, 0, b""
            for chunk in _chunks(file, length):
                lines, read = lines + chunk.count(b"\n"), read + len(chunk)
                tail += chunk
                tail = tail[tail.rfind(b"\n", 0, -1) + 1 :]
            if lines != count or read != length or not tail.endswith(b"\n"):
                return None
            row = json.loads(tail)
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) else None


def _chunks(file: IO[bytes], length: int) -> Iterator[bytes]:
    while length > 0 and (chunk := file.read(min(length, 1 << 20))):
        length -= len(chunk)
        yield chunk

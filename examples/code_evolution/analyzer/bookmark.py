"""Where a killed analysis goes on: the value of its checkpoint, small for a history of any length."""

from dataclasses import asdict, dataclass
from typing import Self

from msgspec import ValidationError, convert

VERSION = 1


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The pinned tip, the files in the work directory by name, and how far they are valid.

    `next` is the position of the first commit not yet counted, `length` the valid bytes of `rows`; `fraction` is the progress of the
    whole analysis when it was saved, for observers. The tip is pinned, so that commits made during the analysis change nothing.

    >>> Bookmark("c0ffee", "clone-1", "commits-1", "rows-1", commits=9, sampled=9, shallow=False).to_json()["next"]
    0
    """

    tip: str
    clone: str
    commit_file: str
    rows: str
    commits: int
    sampled: int
    shallow: bool
    next: int = 0
    length: int = 0
    fraction: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Return the value for `job.checkpoint`."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: object) -> Self | None:
        """Read the bookmark in a checkpoint; None for one of another version or program: then the analysis starts again."""
        if not isinstance(value, dict) or value.get("version") != VERSION:
            return None
        try:
            mark = convert(value, cls)
        except ValidationError:
            return None
        return None if any("/" in name for name in (mark.clone, mark.commit_file, mark.rows)) else mark

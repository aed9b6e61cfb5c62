"""Lines per language, counted incrementally: only what changed between two commits is looked at, and each blob is read once.

The totals of a commit are those of the one before, minus its old blobs, plus its new ones. So the state between two commits is a
handful of numbers (`Tally`), a resumed analysis needs nothing but the last row it wrote, and memory does not grow with history.
"""

from binascii import unhexlify
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise
from subprocess import Popen
from typing import IO

from analyzer.errors import BadRepository
from analyzer.git import Git, GitFailed, GitKilled
from analyzer.history import Commit
from analyzer.languages import language_of

BINARY, LARGE = -1, -2  # counts of blobs which have no lines
LARGEST = 5 * 1024 * 1024  # bytes; what is larger is data, not code
_SNIFFED = 8000  # bytes git itself looks at for a NUL
_CACHED = 65_536  # blobs, about 12 MB; what was evicted is counted again when it changes
_AT_ONCE = 60  # ids asked for in one go: 60 × 65 bytes fit even into the smallest pipe, so neither side can block
_SLICE = 512  # changes per slice, so that a huge first commit reports progress too
_LONGEST_PATH = 1024 * 1024  # bytes; no file system knows a longer one
# A few trees that hold each other's copies make billions of files, and git holds all changes of a commit in memory before it
# prints the first. The largest repositories known have fewer files than this, and need less memory.
MOST_CHANGES = 5_000_000
DIFF_MEMORY = 2 * 2**30
_LEAVE_IT = "leave this repository out: it is made to exhaust whoever reads it"
_SYMLINK, _SUBMODULE, _NONE = b"120000", b"160000", b"000000"


class BlobCounter:
    """Counts lines of blobs by id through two long-lived git processes, with a bounded memory of what it counted.

    The processes end with the analysis they belong to (`Workshop`).
    """

    def __init__(self, git: Git) -> None:
        self._git = git
        self._sizes = git.converse("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)")
        self._contents = git.converse("cat-file", "--batch=%(objectname) %(objecttype) %(objectsize)")
        self._cache: dict[bytes, int] = {}
        self.counted = 0

    def lines_of(self, names: Iterable[bytes]) -> dict[bytes, int]:
        """Line counts, or BINARY, or LARGE, of hexadecimal blob ids. Raises GitFailed for a missing blob."""
        answer: dict[bytes, int] = {}
        unknown: list[bytes] = []
        for name in dict.fromkeys(names):
            known = self._cache.pop(unhexlify(name), None)
            if known is None:
                unknown.append(name)
            else:
                answer[name] = self._cache[unhexlify(name)] = known  # to the young end: least recently used goes first
        for start in range(0, len(unknown), _AT_ONCE):
            answer.update(self._count(unknown[start : start + _AT_ONCE]))
        return answer

    def _count(self, names: Sequence[bytes]) -> dict[bytes, int]:
        headers = self._asked(self._sizes, names)
        sizes = {name: _size(headers.readline(), name) for name in names}
        answer = {name: LARGE for name, size in sizes.items() if size > LARGEST}
        small = [name for name, size in sizes.items() if size <= LARGEST]
        contents = self._asked(self._contents, small)
        for name in small:
            self._git.children.raise_if_ended()
            answer[name] = count_lines(contents, _size(contents.readline(), name))
            contents.read(1)
        self.counted += len(names)
        self._remember(answer)
        return answer

    def _asked(self, process: Popen[bytes], names: Sequence[bytes]) -> IO[bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(b"".join(name + b"\n" for name in names))
            process.stdin.flush()
        except BrokenPipeError:
            raise GitKilled("git cat-file ended") from None
        return process.stdout

    def _remember(self, answer: dict[bytes, int]) -> None:
        self._cache.update((unhexlify(name), lines) for name, lines in answer.items())
        for oldest in list(islice(self._cache, max(0, len(self._cache) - _CACHED))):
            del self._cache[oldest]


def _size(header: bytes, name: bytes) -> int:
    if not header:
        raise GitKilled("git cat-file ended")
    fields = header.split()
    if len(fields) != 3 or fields[0] != name or fields[1] != b"blob":
        raise GitFailed(header.decode("ascii", "replace").strip())
    return int(fields[2])


def count_lines(content: IO[bytes], size: int) -> int:
    """Read `size` bytes and return their lines (a last one without newline counts), or BINARY; never hold more than 64 KiB.

    >>> import io
    >>> count_lines(io.BytesIO(b"one\\ntwo"), 7), count_lines(io.BytesIO(b"a\\0b"), 3)
    (2, -1)
    """
    lines, sniffed, is_binary, last = 0, 0, False, b"\n"
    while size > 0:
        chunk = content.read(min(size, 65536))
        if not chunk:
            raise GitKilled("git cat-file ended")
        if sniffed < _SNIFFED and chunk.find(0, 0, _SNIFFED - sniffed) >= 0:
            is_binary = True
        lines += chunk.count(b"\n")
        sniffed, size, last = sniffed + len(chunk), size - len(chunk), chunk[-1:]
    return BINARY if is_binary else lines + (last != b"\n")


@dataclass(frozen=True, slots=True)
class Change:
    """One side of one changed path: `sign` +1 appeared, -1 went.

    >>> Change(+1, b"100644", b"e69de29b", b"a.py").sign
    1
    """

    sign: int
    mode: bytes
    blob: bytes
    path: bytes

    @property
    def is_counted(self) -> bool:
        """Return whether this is a file of people's own text, whose blob has to be read."""
        return self.mode not in (_SYMLINK, _SUBMODULE) and language_of(self.path) is not None


@dataclass(slots=True)
class Tally:
    """The totals at one commit: lines per language, counted files, and what was left out, by reason.

    >>> tally = Tally()
    >>> tally.add(Change(+1, b"100644", b"", b"a.py"), 7)
    >>> tally.languages, tally.files
    ({'Python': 7}, 1)
    """

    languages: dict[str, int] = field(default_factory=dict)
    files: int = 0
    binary: int = 0
    large: int = 0
    vendored: int = 0
    symlinks: int = 0
    submodules: int = 0

    def add(self, change: Change, lines: int) -> None:
        """Apply one change, given the lines of its blob."""
        language = language_of(change.path)
        if change.mode == _SUBMODULE:
            self.submodules += change.sign
        elif change.mode == _SYMLINK:
            self.symlinks += change.sign
        elif language is None:
            self.vendored += change.sign
        elif lines == BINARY:
            self.binary += change.sign
        elif lines == LARGE:
            self.large += change.sign
        else:
            self.files += change.sign
            self._add_lines(language, change.sign * lines)

    def _add_lines(self, language: str, lines: int) -> None:
        total = self.languages.get(language, 0) + lines
        if total:
            self.languages[language] = total
        else:
            self.languages.pop(language, None)  # so that a row does not depend on what came and went before


def count_commits(git: Git, blobs: BlobCounter, tally: Tally, base: str, commits: Sequence[Commit]) -> Iterator[Commit | None]:
    """Carries the tally from tree `base` over the commits in turn: yields each when the tally is its, and None between slices."""
    trees = [base, *(commit.tree for commit in commits)]
    pairs = [f"{old} {new}" for old, new in pairwise(trees)]
    upcoming = iter(commits)
    current: Commit | None = None
    pending: list[Change] = []
    changes = 0
    options = ("--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    with _bounded(), git.stream("diff-tree", *options, lines=pairs, memory=DIFF_MEMORY) as output:
        for change in _changes(output):
            if change is not None:
                pending.append(change)
                changes += 1
                if changes > MOST_CHANGES:
                    raise _Exhausting
            if change is None or len(pending) >= _SLICE:
                _apply(blobs, tally, pending)
                pending.clear()
            if change is None:  # the next commit begins, so the one before is complete
                if current is not None:
                    yield current
                current, changes = next(upcoming), 0
            elif not pending:
                yield None
    _apply(blobs, tally, pending)
    if current is None or next(upcoming, None) is not None:
        raise GitFailed("git diff-tree answered too little")
    yield current


class _Exhausting(Exception):
    """There are too many changes to analyze."""


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except (GitFailed, _Exhausting) as failure:
        if isinstance(failure, GitFailed) and "out of memory" not in str(failure).lower():
            raise
        raise BadRepository(f"one commit changes more than {MOST_CHANGES:,} files", remedy=_LEAVE_IT) from None


def _apply(blobs: BlobCounter, tally: Tally, changes: Sequence[Change]) -> None:
    counts = blobs.lines_of(change.blob for change in changes if change.is_counted)
    for change in changes:
        tally.add(change, counts.get(change.blob, 0) if change.is_counted else 0)


def _changes(output: IO[bytes]) -> Iterator[Change | None]:
    """Parse raw diffs: None where the next pair of trees begins, else both sides of each changed path.

    A pair's header ends with a newline, everything else with NUL: the next header stands before the next entry's fields.
    """
    pieces = _pieces(output)
    for piece in pieces:
        fields = piece
        while not fields.startswith(b":"):
            fields = fields.partition(b"\n")[2]
            yield None
            if not fields:
                return
        old_mode, new_mode, old, new, _ = fields[1:].split(b" ")
        path = next(pieces, b"")
        if old_mode != _NONE:
            yield Change(-1, old_mode, old, path)
        if new_mode != _NONE:
            yield Change(+1, new_mode, new, path)


def _pieces(output: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := output.read(65536):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole
        if len(rest) > _LONGEST_PATH:
            raise BadRepository("a file has a name of more than 1 MiB", remedy=_LEAVE_IT)
    if rest.endswith(b"\n"):  # headers of pairs without a difference; anything else was cut off, and git's exit code shows why
        yield rest

"""The commits of an analysis: walked once, sampled evenly, kept in a file of fixed-width lines.

**Which commits.** All that HEAD reaches, each once, parents before children. `--topo-order` keeps the commits of a branch together, so
that neighbours differ little; the main line (first parents) is a subsequence of it. Every commit gets its row, but a chart through all
of them would jump between branches: rows of the main line are marked, and the chart draws those.

**Which sample.** `max_commits` positions spread evenly, first and last included – over the main line when it is long enough, because
a sample is taken for the sake of the chart, else over all commits.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from analyzer.git import Git

_SLICE = 2000  # commits walked between two reports
_LATEST = 4_102_444_800  # 2100-01-01: what broken clocks claim beyond it no chart can show


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the sample; `date` is the committer's, in seconds since 1970, UTC.

    >>> Commit("c0ffee", "beef", 1_700_000_000, is_mainline=True).tree
    'beef'
    """

    id: str
    tree: str
    date: int
    is_mainline: bool

    def line(self) -> bytes:
        """Return the commit as a line whose width depends on the repository's hash only."""
        return f"{self.id} {self.tree} {self.date:>10} {int(self.is_mainline)}\n".encode()

    @classmethod
    def from_line(cls, line: bytes) -> "Commit":
        """Read the commit of a line that `line` made."""
        name, tree, date, is_mainline = line.decode().split()
        return cls(name, tree, int(date), is_mainline == "1")


class CommitFile:
    """The walked commits on disk, read in slices, because a long history must not live in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._width = len(file.readline())
        self.count = path.stat().st_size // self._width if self._width else 0

    def read(self, start: int, stop: int) -> list[Commit]:
        """Return the commits at positions start … stop - 1, fewer at the end."""
        with self._path.open("rb") as file:
            file.seek(start * self._width)
            data = file.read(max(0, min(stop, self.count) - start) * self._width)
        return [Commit.from_line(line) for line in data.splitlines()]


def even_positions(total: int, limit: int | None) -> Iterator[int]:
    """Choose at most `limit` positions of `total`, evenly spread, first and last included; a limit of one keeps the last.

    >>> list(even_positions(10, 4)), list(even_positions(3, None)), list(even_positions(9, 1))
    ([0, 3, 6, 9], [0, 1, 2], [8])
    """
    if limit is None or limit >= total:
        yield from range(total)
    elif limit == 1:
        yield total - 1
    else:
        yield from (number * (total - 1) // (limit - 1) for number in range(limit))


@dataclass(frozen=True, slots=True)
class Walk:
    """What `walk` found: commits in the history, and how many of them are sampled.

    >>> Walk(commits=9, sampled=3).sampled
    3
    """

    commits: int
    sampled: int


def walk(git: Git, tip: str, limit: int | None, target: Path) -> Iterator[Walk]:
    """Write the sampled commits up to `tip` to `target`, which appears only when complete; yield the Walk, growing.

    Reads rev-list as a stream: git holds the history, this process holds one commit. Raises GitFailed.
    """
    everything = int(git.ask("rev-list", "--count", tip))
    mainline = int(git.ask("rev-list", "--count", "--first-parent", tip))
    is_mainline_enough = limit is not None and mainline >= limit and everything > limit
    wanted = even_positions(mainline if is_mainline_enough else everything, limit)
    position, count, due = 0, 0, next(wanted)
    partial = target.with_name(target.name + ".part")
    with partial.open("wb") as file:
        for commit in _commits(git, tip):
            if is_mainline_enough and not commit.is_mainline:
                continue
            if position == due:
                file.write(commit.line())
                count, due = count + 1, next(wanted, -1)
            position += 1
            if position % _SLICE == 0:  # also between two of a small sample
                yield Walk(everything, count)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(target)
    yield Walk(everything, count)


def _commits(git: Git, tip: str) -> Iterator[Commit]:
    with (
        git.stream("rev-list", "--topo-order", "--reverse", "--format=%H %T %ct", tip) as everything,
        git.stream("rev-list", "--topo-order", "--reverse", "--first-parent", tip) as mainline,
    ):
        expected = mainline.readline().strip()
        for header in everything:  # "commit <id>", then the line we asked for
            name, tree, date = _fields(everything, header)
            is_mainline = name.encode() == expected
            if is_mainline:
                expected = mainline.readline().strip()
            yield Commit(name, tree, date, is_mainline)


def _fields(output: IO[bytes], header: bytes) -> tuple[str, str, int]:
    line = header if not header.startswith(b"commit ") else output.readline()
    name, tree, *date = line.decode("ascii", "replace").split()
    seconds = int(date[0]) if date and date[0].lstrip("-").isdigit() else 0
    return name, tree, min(max(seconds, 0), _LATEST)

"""A lively repository made to order: the same commits, ids included, on every machine.

In any number of commits it shows: a prototype in Python, then a web page in JavaScript which is renamed to TypeScript. Then a core
which moves to Rust and takes over from Python. With branches merged back, files deleted, pictures, a submodule and awkward names.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from analyzer.errors import BadRepository
from analyzer.git import git_command, git_environment

_EPOCH = 1_577_872_800  # 2020-01-01 10:00 UTC
_PEOPLE = ("Ada Lovelace <ada@example.org>", "Grace Hopper <grace@example.org>", "Alan Turing <alan@example.org>")
_PICTURE = b"\x89PNG\r\n\x1a\n\x00" + bytes(range(256)) * 4
_MARK = "holdfast sample 1: {} commits\n"

# file, when it appears and when it goes (in parts of the whole), how fast it grows compared with others
_CAST = (
    (b"app/core.py", 0.0, 0.80, 9),
    (b"app/model.py", 0.02, 0.72, 7),
    (b"app/views.py", 0.05, 1.0, 4),
    (b"README.md", 0.0, 1.0, 2),
    (b"docs/guide.md", 0.15, 1.0, 3),
    (b"web/index.html", 0.10, 1.0, 2),
    (b"web/style.css", 0.12, 1.0, 3),
    (b"web/main.js", 0.12, 0.50, 8),
    (b"web/main.ts", 0.50, 1.0, 9),
    (b"web/state.ts", 0.55, 1.0, 6),
    (b"core/src/lib.rs", 0.40, 1.0, 12),
    (b"core/src/engine.rs", 0.48, 1.0, 11),
    (b"core/src/ffi.c", 0.60, 1.0, 3),
    (b"scripts/build.sh", 0.08, 1.0, 1),
    (b"Makefile", 0.06, 1.0, 1),
    (b"schema.sql", 0.20, 1.0, 2),
    (b"Dockerfile", 0.30, 1.0, 1),
    ("docs/übersicht – teil 1.md".encode(), 0.25, 1.0, 1),
    (b"docs/tab\there.txt", 0.35, 0.9, 1),
    (b"legacy/caf\xe9.py", 0.10, 0.65, 2),
    (b"web/vendor/library.js", 0.22, 1.0, 6),
)
_RENAMES = {b"web/main.js": b"web/main.ts"}


def generate(folder: Path, commits: int = 400) -> str:
    """Make a bare repository with exactly that many commits on `main`; return the id of its tip. An earlier one like it is kept.

    Raises BadRepository when something else is in the folder.

    >>> generate(Path("sample.git"), commits=400)   # doctest: +SKIP
    '7f0…'
    """
    mark = _MARK.format(commits)
    if not (folder / "description").exists() or (folder / "description").read_text() != mark:
        _make(folder, commits, mark)
    asking = git_command(f"--git-dir={folder}", "rev-parse", "refs/heads/main")
    return subprocess.run(asking, env=git_environment(), check=True, capture_output=True, text=True).stdout.strip()


def _make(folder: Path, commits: int, mark: str) -> None:
    if commits < 1:
        raise BadRepository("a sample of no commits", remedy="ask for one or more")
    if folder.exists() and any(folder.iterdir()):
        raise BadRepository(f"{folder} is not empty", remedy="name a folder which is empty or not there yet")
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.parent.mkdir(parents=True, exist_ok=True)
    options = ["--quiet", "--template=", "--object-format=sha1", "--initial-branch=main"]
    subprocess.run(git_command("init", "--bare", *options, str(draft)), env=git_environment(), check=True)
    story = b"".join(_Story(commits).reported())
    importing = git_command(f"--git-dir={draft}", "fast-import", "--quiet", "--date-format=raw")
    subprocess.run(importing, env=git_environment(), input=story, check=True)
    (draft / "description").write_text(mark)
    if folder.exists():
        folder.rmdir()
    draft.rename(folder)


@dataclass(slots=True)
class _Story:
    """Yields a stream for `git fast-import`: one block per commit."""

    commits: int
    _files: dict[bytes, list[bytes]] = field(default_factory=dict)
    _open_branch: int = 0  # fast-import's mark of the open side branch's last commit, or 0

    def reported(self) -> Iterator[bytes]:
        main = 0
        for number in range(1, self.commits + 1):
            phase = number % 17
            if phase in (8, 10, 12) and main and number + 6 < self.commits:  # there is space for the merge
                yield self._commit(number, b"side", self._open_branch or main, 0)
                self._open_branch = number
            else:
                merged = self._open_branch if phase == 13 else 0
                yield self._commit(number, b"main", main, merged)
                main, self._open_branch = number, 0 if merged else self._open_branch

    def _commit(self, number: int, branch: bytes, parent: int, merged: int) -> bytes:
        seconds = _EPOCH + number * 45_000 + _dice(number, "hour") % 30_000
        person = _PEOPLE[_dice(number, "who") % len(_PEOPLE)]
        message = f"Merge a branch (#{number})" if merged else f"Change number {number}"
        header = f"commit refs/heads/{branch.decode()}\nmark :{number}\ncommitter {person} {seconds} +0000\n"
        parts = [header.encode(), _data(message.encode())]
        if parent:
            parts.append(f"from :{parent}\n".encode())
        if merged:
            parts.append(f"merge :{merged}\n".encode())
        # a side branch only adds a separate file, so that merging it is plain
        changes = self._aside(number, branch, merged) if merged or branch == b"side" else self._changes(number)
        return b"".join([*parts, *changes, b"\n"])

    def _aside(self, number: int, branch: bytes, merged: int) -> Iterator[bytes]:
        name = f"app/extra_{number // 17 % 12}.py".encode()
        text = _written(name, number, 12 + _dice(number, "aside") % 30)
        if branch == b"side" or merged:
            yield _file(name, b"\n".join(text) + b"\n")

    def _changes(self, number: int) -> Iterator[bytes]:
        moment = number / self.commits
        for name, start, end, speed in _CAST:
            if name in self._files and end < 1.0 and moment >= end:
                yield self._gone(name)
            elif start <= moment < end or (end == 1.0 and moment == 1.0):
                is_new = name not in self._files
                if (is_new and name not in _RENAMES.values()) or (not is_new and _dice(number, name.hex()) % 16 < speed):
                    yield self._grown(name, number, speed)
        yield from _extras(number, self.commits)

    def _gone(self, name: bytes) -> bytes:
        text = self._files.pop(name)
        successor = _RENAMES.get(name)
        if successor is None:
            return b"D " + _quoted(name) + b"\n"
        self._files[successor] = text
        return b"R " + _quoted(name) + b" " + _quoted(successor) + b"\n"

    def _grown(self, name: bytes, number: int, speed: int) -> bytes:
        text = self._files.setdefault(name, [])
        text.extend(_written(name, number, 1 + _dice(number, "more" + name.hex()) % (3 * speed)))
        if _dice(number, "less" + name.hex()) % 9 == 0:
            del text[: len(text) // 12]
        return _file(name, b"\n".join(text) + (b"" if number % 5 == 0 else b"\n"))


def _extras(number: int, commits: int) -> Iterator[bytes]:
    """Yield what counting must not trip over: binary files, links, a submodule, generated and empty files."""
    if number == min(3, commits):
        yield b"M 120000 inline docs/link.md\n" + _data(b"../README.md")
        yield b"M 160000 " + b"1234567890" * 4 + b" external/library\n"
        yield _file(b"app/__init__.py", b"")
    if number % 40 == 5:
        yield _file(b"web/logo.png", _PICTURE + str(number).encode())
        yield _file(b"web/app.min.js", b"x=1;\n" * (number % 97))
    if number % 101 == 100:
        yield b"M 160000 " + b"abcdef0123" * 4 + b" external/library\n"


def _written(name: bytes, number: int, count: int) -> list[bytes]:
    word = name.rpartition(b"/")[2].split(b".")[0]
    return [b"%s %d %d" % (word, number, _dice(number, f"{line}") % 1000) for line in range(count)]


def _dice(number: int, what: str) -> int:
    """Return a number which looks random and is the same everywhere."""
    return int.from_bytes(hashlib.blake2b(f"{number} {what}".encode(), digest_size=4).digest(), "big")


def _file(name: bytes, content: bytes) -> bytes:
    return b"M 100644 inline " + _quoted(name) + b"\n" + _data(content)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quoted(name: bytes) -> bytes:
    return b'"' + b"".join(b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes((byte,)) for byte in name) + b'"'

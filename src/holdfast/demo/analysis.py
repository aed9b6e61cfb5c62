"""How the code of a git repository evolved: lines per language and commit, in one pass over `git log --numstat`.

The rows counted so far are in a file below the results; the checkpoint holds how many of its bytes are valid. Every attempt writes a
separate file, so that a frozen worker which wakes up changes nothing that its successor reads.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self, TextIO

import msgspec

_SAFE = ("core.quotepath=off", "core.fsmonitor=false", "core.hooksPath=/dev/null", "log.showSignature=false", "log.showRoot=true")
GIT = ("git", *(word for option in (*_SAFE, "protocol.ext.allow=never", "gc.auto=0") for word in ("-c", option)))
"""No program that a repository names is ever run."""
_LOG = ("log", "--first-parent", "-m", "--reverse", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
_PROTOCOLS = "file:git:http:https:ssh"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\]+@[^/:]+:")
_LANGUAGES = """
C .c .h | C# .cs | C++ .cc .cpp .cxx .hh .hpp | CSS .css .less .scss | Go .go | HTML .html .htm | JSON .json | Java .java | Kotlin .kt
JavaScript .js .jsx .mjs .cjs | Markdown .md .markdown | PHP .php | Perl .pl .pm | Python .py .pyi | Ruby .rb | Rust .rs | SQL .sql
Scala .scala | Shell .sh .bash | Swift .swift | Text .txt .rst | TypeScript .ts .tsx | YAML .yml .yaml
"""
_BY_SUFFIX = {
    suffix: words.split()[0] for line in _LANGUAGES.splitlines() for words in line.split("|") for suffix in words.split()[1:]
}


class BadRepository(ValueError):
    """A repository cannot be analyzed; the message names the remedy."""


class Bookmark(msgspec.Struct, frozen=True, kw_only=True):
    """Where the next attempt starts. ``next``: commits counted; ``length``: valid bytes of the file ``rows``. The tip is pinned."""

    tip: str
    rows: str
    commits: int
    next: int = 0
    length: int = 0

    @property
    def fraction(self) -> float:
        """The part of the analysis that is done."""
        return 0.05 + 0.9 * self.next / self.commits

    @classmethod
    def read(cls, value: object) -> Self | None:
        """Read a checkpoint; return ``None`` if there is no checkpoint."""
        return None if value is None else msgspec.convert(value, cls)


Clone = Callable[[str, Path], None]


class Analysis:
    """The steps of one attempt. Each blocks, so the task runs them in a thread; ``close`` ends what still runs.

    ``clone``: copies the repository at a URL to a folder, and raises ``BadRepository``.
    """

    def __init__(self, repository: str, out: str, *, job: object, attempt: int, clone: Clone | None = None) -> None:
        self._clone = clone or clone_url
        self.name, self._asked, self._out = repository_name(repository), repository, Path(out).expanduser().absolute()
        self._work = self._out / f".work-{job}"
        self._rows, self._totals = self._work / f"rows-{attempt}", dict[str, int]()
        self._log: subprocess.Popen[str] | None = None
        self._commits: Iterator[tuple[str, int]] = iter(())

    def begin(self) -> Bookmark:
        """Find the tip and count its commits. Raises ``BadRepository``."""
        self._work.mkdir(parents=True, exist_ok=True)
        where = self._located()
        refused = f"{self._asked} has no commits: commit something first"
        tip = git("-C", where, "rev-parse", "--verify", "HEAD^{commit}", refused=refused)
        commits = int(git("-C", where, "rev-list", "--count", "--first-parent", tip))
        self._rows.touch()
        return Bookmark(tip=tip, rows=self._rows.name, commits=commits)

    def resume(self, mark: Bookmark | None) -> Bookmark | None:
        """Copy the valid rows of an earlier attempt; return where to go on, or ``None`` without a bookmark or without its file."""
        if mark is None or not (self._work / mark.rows).exists():
            return None
        with (self._work / mark.rows).open("rb") as old, self._rows.open("wb") as new:
            new.write(old.read(mark.length))
        return msgspec.structs.replace(mark, rows=self._rows.name)

    def count(self, mark: Bookmark, batch: int, most: int) -> Bookmark:
        """Count the next ``batch`` commits. Write a row for each, or for every n-th and the last if ``most`` is exceeded."""
        if self._log is None:
            self._start(mark)
        step = -(-mark.commits // most)
        with self._rows.open("ab") as file:
            for place in range(mark.next, min(mark.next + batch, mark.commits)):
                commit, date = next(self._commits)
                if place % step == 0 or place == mark.commits - 1:
                    languages = {language: lines for language, lines in sorted(self._totals.items()) if lines > 0}
                    file.write(msgspec.json.encode({"commit": commit, "date": date, "languages": languages}) + b"\n")
            file.flush()
            os.fsync(file.fileno())
            return msgspec.structs.replace(mark, next=place + 1, length=file.tell())

    def report(self, mark: Bookmark) -> dict[str, object]:
        """Write JSON and CSV, draw the chart, and remove the rows; return what was found, and the files."""
        history: list[dict[str, Any]] = [
            msgspec.json.decode(line) for line in self._rows.read_bytes()[: mark.length].splitlines()
        ]
        tip = history[-1]["languages"]
        head: dict[str, object] = {"repo": re.sub(r"//[^/@]*@", "//", self._asked), "name": self.name, "tip": mark.tip}
        head |= {"commits": mark.commits, "sampled": len(history), "lines": sum(tip.values()), "languages": tip}
        files = {kind: self._out / f"evolution.{kind}" for kind in ("json", "csv", "svg", "png")}
        content = msgspec.json.encode({"format": 1, **head, "history": history}).decode()
        _replace(files["json"], lambda file: file.write(content + "\n"))
        _replace(files["csv"], lambda file: _write_csv(file, history))
        # A child draws: matplotlib takes 100 MB which a worker would never release.
        drawing = [sys.executable, "-m", "holdfast.demo.chart", *(str(files[kind]) for kind in ("json", "svg", "png"))]
        subprocess.run(drawing, check=True)
        shutil.rmtree(self._work, ignore_errors=True)
        return {**head, "files": {kind: str(path) for kind, path in files.items() if path.exists()}}

    def close(self) -> None:
        """Kill the git process if it still runs, because the analysis was cancelled."""
        if self._log is not None:
            with self._log:
                self._log.kill()

    def _located(self) -> str:
        where = locate(self._asked)
        clone = self._work / "clone.git"
        if where == self._asked and is_url(where):
            if not clone.exists():
                shutil.rmtree(draft := clone.with_suffix(".part"), ignore_errors=True)
                self._clone(where, draft)
                draft.rename(clone)
            where = str(clone)
        return where

    def _start(self, mark: Bookmark) -> None:
        words = [*GIT, "-C", self._located(), *_LOG, "--format=%x01%H,%ct", mark.tip]
        self._log = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
        assert self._log.stdout is not None
        self._commits = _counted(self._log.stdout, self._totals)
        for _ in range(mark.next):
            next(self._commits)


def _counted(log: IO[str], totals: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield each commit and its date, once its changes are in the totals."""
    commit: tuple[str, int] | None = None
    for line in log:
        if line.startswith("\x01"):
            if commit is not None:
                yield commit
            name, _, date = line[1:].partition(",")
            commit = name, int(date)
        elif "\t" in line:
            added, deleted, path = line.rstrip("\n").split("\t", 2)
            if added != "-":  # a binary file
                language = language_of(path)
                totals[language] = totals.get(language, 0) + int(added) - int(deleted)
    if commit is not None:
        yield commit


def language_of(path: str) -> str:
    """Return the language that the end of a file's name means."""
    return _BY_SUFFIX.get(os.path.splitext(path.rstrip('"'))[1].lower(), "Other")


def environment(protocols: str = "") -> dict[str, str]:
    """Return git's environment: no prompts, and no network, because a repository may name a program to fetch what it lacks."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    return {**inherited, **quiet, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": protocols}


def git(*words: str, refused: str = "git cannot read the repository: run git fsck in it", protocols: str = "") -> str:
    """Return what git prints, stripped. Raises ``BadRepository`` with that text, and the end of git's own message."""
    done = subprocess.run(
        [*GIT, *words], env=environment(protocols), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise BadRepository(f"{refused} ({(done.stderr.strip().splitlines() or ['no message'])[-1][:300]})")
    return done.stdout.strip()


def clone_url(where: str, draft: Path) -> None:
    """Clone the repository at a URL into a folder. Raises ``BadRepository``."""
    refused = f"{repository_name(where)} cannot be cloned: check the address and the network"
    git("clone", "--quiet", "--bare", "--template=", "--", where, str(draft), refused=refused, protocols=_PROTOCOLS)


def is_url(repository: str) -> bool:
    """Return whether it has the form of a URL, or of ssh's short one."""
    return _URL.match(repository) is not None


def locate(repository: str) -> str:
    """Return the folder of the repository that a path lies in, or a URL as it is. Raises ``BadRepository``."""
    if not repository.strip() or "\0" in repository or repository.startswith("-"):
        raise BadRepository(f"{repository!r} is not a path or URL of a repository: pass one, such as /home/me/project")
    path = Path(repository).expanduser()
    if is_url(repository) and not path.exists():
        return repository
    found = next((folder for folder in (path.resolve(), *path.resolve().parents) if (folder / ".git").exists()), None)
    if found is None and not (path / "HEAD").is_file():
        raise BadRepository(
            f"there is no git repository at {repository}: check the path, which is read on the worker's machine, or pass a URL"
        )
    return str(found or path.resolve())


def repository_name(repository: str) -> str:
    """Make a short name for titles and folders."""
    text = repository if is_url(repository) else os.path.abspath(os.path.expanduser(repository))
    last = re.split(r"[/\\:]", text.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git")
    return re.sub(r"[^\w.-]+", "-", last, flags=re.ASCII).strip(".-") or "repository"


def _write_csv(file: TextIO, history: Sequence[dict[str, Any]]) -> None:
    languages = sorted({language for row in history for language in row["languages"]})
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["commit", "date", "lines", *languages])
    for row in history:
        counted = [row["languages"].get(language, 0) for language in languages]
        writer.writerow(
            [row["commit"], datetime.fromtimestamp(row["date"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), sum(counted), *counted]
        )


def _replace(target: Path, write: Callable[[TextIO], object]) -> None:
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    with draft.open("w", encoding="utf-8", newline="") as file:
        write(file)
    draft.replace(target)

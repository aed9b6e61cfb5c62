"""What the tests of the demo share: a fake job, a way to make repositories, and counting by brute force."""

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from analyzer.analysis import Request, analyze_repository
from analyzer.git import git_command, git_environment
from analyzer.languages import language_of


@dataclass
class FakeJob:
    """A job which keeps what was reported to it, and cancels its handler at the n-th checkpoint or progress."""

    attempt: int = 1
    checkpoint_value: object = None
    id: str = "0192-job"
    cancel_at_checkpoint: int | None = None
    cancel_at_progress: Callable[[str, float], bool] = lambda stage, fraction: False
    checkpoints: list[dict[str, object]] = field(default_factory=list)
    reports: list[tuple[str, float, str]] = field(default_factory=list)

    async def progress(self, *, stage: str, fraction: float, message: str) -> None:
        self.reports.append((stage, fraction, message))
        if self.cancel_at_progress(stage, fraction):
            await _cancelled()

    async def checkpoint(self, value: object, /) -> None:
        assert isinstance(value, dict)
        self.checkpoint_value = value
        self.checkpoints.append(value)
        if len(self.checkpoints) == self.cancel_at_checkpoint:
            await _cancelled()

    def reborn(self) -> "FakeJob":
        """The same job in its next attempt."""
        return FakeJob(attempt=self.attempt + 1, checkpoint_value=self.checkpoint_value, id=self.id)


async def _cancelled() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


async def at_once(seconds: float) -> None:
    """A sleep that takes no time."""


def analyze(job: FakeJob, request: Request) -> dict[str, object]:
    return asyncio.run(analyze_repository(job, request, sleep=at_once))


def git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git on a bare repository."""
    command = git_command(f"--git-dir={repository}", *arguments)
    return subprocess.run(command, env=git_environment(), input=stdin, check=True, capture_output=True).stdout


def make_repository(folder: Path, *commits: dict[bytes, bytes | tuple[bytes, bytes] | None]) -> Path:
    """A bare repository with a commit per dict: path → content, (mode, content), or None to delete it."""
    subprocess.run(
        git_command("init", "--quiet", "--bare", "--initial-branch=main", str(folder)), env=git_environment(), check=True
    )
    parts: list[bytes] = []
    for number, files in enumerate(commits):
        parts.append(
            b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 1\nx\n" % (1_600_000_000 + number * 86_400)
        )
        for path, content in files.items():
            parts.append(_change(path, content))
    git(folder, "fast-import", "--quiet", stdin=b"".join(parts))
    return folder


def _change(path: bytes, content: bytes | tuple[bytes, bytes] | None) -> bytes:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
    if content is None:
        return b"D " + quoted + b"\n"
    mode, data = content if isinstance(content, tuple) else (b"100644", content)
    if mode == b"160000":
        return b"M 160000 " + data + b" " + quoted + b"\n"
    return b"M " + mode + b" inline " + quoted + b"\ndata %d\n" % len(data) + data + b"\n"


def counted_by_brute_force(repository: Path, commit: str) -> dict[str, object]:
    """Count the totals of one commit from its whole tree, every blob read again."""
    languages: Counter[str] = Counter()
    rest: Counter[str] = Counter()
    for entry in git(repository, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        fields, path = entry.split(b"\t", 1)
        mode, _, blob = fields.split(b" ")
        language = language_of(path)
        if mode in (b"120000", b"160000"):
            rest["symlinks" if mode == b"120000" else "submodules"] += 1
        elif language is None:
            rest["vendored"] += 1
        elif (lines := _lines(repository, blob.decode())) is None:
            rest["binary"] += 1
        else:
            languages[language] += lines
            rest["files"] += 1
    names = ("files", "binary", "vendored", "symlinks", "submodules")
    return {"languages": {name: lines for name, lines in languages.items() if lines}, **{name: rest[name] for name in names}}


@cache
def _lines(repository: Path, blob: str) -> int | None:
    content = git(repository, "cat-file", "blob", blob)
    if b"\0" in content[:8000]:
        return None
    return len(content.splitlines()) if b"\r" not in content else content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


def children_of_this_process() -> set[int]:
    """List child processes which live or are zombies, from /proc, so that none is forgotten."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if stat and int(stat.rpartition(")")[2].split()[1]) == os.getpid():
            found.add(int(entry.name))
    return found

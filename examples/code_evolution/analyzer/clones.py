"""Copies of repositories, made by git and surely whole: what has its final name is complete."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from analyzer.errors import explain_clone
from analyzer.git import failure_of, git_command, git_environment, locate, without_secrets
from analyzer.processes import Children

_PERCENT = re.compile(rb"(Receiving objects|Resolving deltas):\s+(\d+)%")
_BARE = ("clone", "--bare", "--single-branch", "--no-tags", "--template=", "--progress")
_TIP = "refs/heads/holdfast-tip"


def clone(children: Children, repository: str, target: Path) -> Iterator[float]:
    """Clone the branch HEAD points to, bare, without hooks or templates; yield the fraction done, in 0-1.

    The target appears only when the clone is complete, so that any process that finds it may use it.
    Raises AnalysisError; nothing of the repository is checked out or run.
    """
    source = locate(repository)
    partial = target.with_name(target.name + ".part")
    yield from _transfer(children, repository, [*_BARE, "--", source, str(partial)])
    # it may hold a password, and no later step needs it
    yield from _transfer(children, repository, [f"--git-dir={partial}", "config", "--remove-section", "remote.origin"])
    partial.rename(target)


def update(children: Children, repository: str, folder: Path) -> Iterator[float]:
    """Fetch what HEAD of the repository reaches by now into a clone, and point the clone's HEAD there. Raises AnalysisError.

    Killed half-way it may leave locks of git behind, so only a clone which no analysis uses yet is updated.
    """
    git_dir = f"--git-dir={folder}"
    unpacked = "fetch.unpackLimit=1"  # a pack per update can be counted and linked; loose files come in thousands
    options = ["--force", "--no-tags", "--no-recurse-submodules", "--progress"]
    fetching = ["-c", unpacked, git_dir, "fetch", *options, "--", locate(repository), f"+HEAD:{_TIP}"]
    yield from _transfer(children, repository, fetching)
    yield from _transfer(children, repository, [git_dir, "symbolic-ref", "HEAD", _TIP])


def _transfer(children: Children, repository: str, arguments: Sequence[str]) -> Iterator[float]:
    process = children.start(git_command(*arguments), environment=git_environment(), stderr=subprocess.PIPE)
    complaint, part = b"", 0.0
    assert process.stderr is not None
    try:
        while chunk := os.read(process.stderr.fileno(), 65536):
            complaint = (complaint + chunk)[-8192:]
            if found := _PERCENT.findall(complaint):
                phase, percent = found[-1]
                part = 0.8 * int(percent) / 100 if phase == b"Receiving objects" else 0.8 + 0.2 * int(percent) / 100
            yield part  # also while the server still counts: it lives
    except BaseException:
        children.end(process)
        raise
    if (code := children.wait(process)) < 0:
        raise failure_of(code, "")
    if code > 0:
        shown = without_secrets(repository)
        raise explain_clone(shown, complaint.decode("utf-8", "replace").replace(repository, shown))

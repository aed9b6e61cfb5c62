"""A lively repository made to order: the same commits, ids included, on every machine.

It shows a prototype in Python, then a web page in JavaScript which is rewritten in TypeScript, then a core in Rust that takes over.
"""

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from holdfast.demo.analysis import GIT, environment

_EPOCH = 1_577_872_800  # 2020-01-01 10:00 UTC
_PEOPLE = ("Ada Lovelace <ada@example.org>", "Grace Hopper <grace@example.org>", "Alan Turing <alan@example.org>")
# file, when it appears and when it goes (in parts of the whole), how fast it grows compared with others
_CAST = """
app/core.py 0 .8 9 | app/model.py .02 .72 7 | app/views.py .05 2 4 | README.md 0 2 2 | docs/guide.md .15 2 3 | web/index.html .1 2 2
web/style.css .12 2 3 | web/main.js .12 .5 8 | web/main.ts .5 2 9 | web/state.ts .55 2 6 | core/src/lib.rs .4 2 12
core/src/engine.rs .48 2 11 | core/src/ffi.c .6 2 3 | scripts/build.sh .08 2 1 | Makefile .06 2 1 | schema.sql .2 2 2
"""


def generate(folder: Path, commits: int = 400) -> None:
    """Make a bare repository with that many commits on `main`."""
    subprocess.run(
        [*GIT, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(folder)], env=environment(), check=True
    )
    importing = [*GIT, f"--git-dir={folder}", "fast-import", "--quiet", "--date-format=raw"]
    subprocess.run(importing, env=environment(), input=b"".join(_story(commits)), check=True)


def _story(commits: int) -> Iterator[bytes]:
    """Yield a stream for `git fast-import`: one block per commit."""
    files: dict[str, list[str]] = {}
    for number in range(1, commits + 1):
        seconds = _EPOCH + number * 45_000 + _dice(number, "hour") % 30_000
        person = _PEOPLE[_dice(number, "person") % len(_PEOPLE)]
        yield f"commit refs/heads/main\ncommitter {person} {seconds} +0000\n".encode() + _data(f"Change number {number}")
        for name, start, end, speed in (words.split() for line in _CAST.splitlines() for words in line.split("|") if words):
            moment = number / commits
            if name in files and moment >= float(end):
                del files[name]
                yield f"D {name}\n".encode()
            elif float(start) <= moment < float(end) and (name not in files or _dice(number, name) % 16 < int(speed)):
                text = files.setdefault(name, [])
                text += [f"line {number} {part}" for part in range(1 + _dice(number, f"more {name}") % (3 * int(speed)))]
                if _dice(number, f"less {name}") % 9 == 0:
                    del text[: len(text) // 12]
                yield f"M 644 inline {name}\n".encode() + _data("\n".join(text) + "\n")
        yield b"\n"


def _data(text: str) -> bytes:
    return b"data %d\n%s\n" % (len(text.encode()), text.encode())


def _dice(number: int, what: str) -> int:
    """Return a number which looks random and is the same everywhere."""
    return int.from_bytes(hashlib.sha256(f"{number} {what}".encode()).digest()[:4])

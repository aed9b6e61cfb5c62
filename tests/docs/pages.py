"""The pages of the documentation, and running what is on them as a reader would: block after block, in one folder.

A `python` block that begins with `# name.py` is a file of that name, and so is an `ini` block that begins with `# name.ini`.
Any other `python` block is run, in one interpreter per page; lines that begin with `#> ` are what it prints. A `console` block
holds commands behind `$ `, typed into one shell per page. Below them stands what they answer, in which `…` stands for anything;
an answer that begins with `error:` is that of a command that fails. `sleep` is left out: instead, what is asked about jobs and
rows is asked until it is answered as shown. A block behind `<!-- not run: why -->` is only read.

`<!-- goes on from page.md -->` has all blocks of that page run before those of this one, `<!-- files of page.md -->` only its files.
"""

import ast
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import IO, NamedTuple

import click

from holdfast._system.clock import SystemClock
from holdfast.cli.commands import root

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<excuse>.+?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"# ([\w/]+\.(?:py|ini))\n")
LOOK = re.compile(r"holdfast (jobs (list|show|counts|explain)|workers list|queues list|rows list)\b")
EARLIER = re.compile(r"^<!-- (?P<what>goes on from|files of) (?P<page>[\w-]+\.md) -->$", re.MULTILINE)
TIMEOUT = 20.0
DONE = "-- done "


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    excuse: str | None

    @property
    def where(self) -> str:
        """The position of the block, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        found = FILE.match(self.text) if self.language in ("python", "ini") else None
        return found[1] if found else None


class Command(NamedTuple):
    """What is typed, and what is answered; ``None``: the page does not say."""

    text: str
    answer: str | None


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks in the order of the page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, each.start()) + 1, each["language"], each["text"], each["excuse"])
        for each in FENCE.finditer(text)
    ]


def blocks_before(page: Path) -> list[Block]:
    """Return the blocks of other pages that come before those of this page."""
    found = []
    for each in EARLIER.finditer(page.read_text(encoding="utf-8")):
        blocks = blocks_of(page.parent / each["page"])
        found += [block for block in blocks if each["what"] == "goes on from" or block.file is not None]
    return found


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a console block. A command goes on in the next line after a backslash."""
    found: list[Command] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        typed, answer = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n?)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
        found.append(Command(typed.strip(), answer if answer.strip() else None))
    return found


def is_like(output: str, shown: str) -> bool:
    """Return whether an answer is the one shown; how wide columns are does not matter."""
    words = shown.split()
    pattern = "".join(r"(?:\S+ )*?" if word == "…" else re.escape(word).replace("…", ".*?") + " " for word in words)
    return re.fullmatch(pattern, "".join(f"{word} " for word in output.split())) is not None


def answers_of(block: Block) -> str:
    """Return what a python block claims to print."""
    return "\n".join(line.strip()[3:] for line in block.text.splitlines() if line.strip().startswith("#> "))


class Reader:
    """A reader who types the blocks of a page, in an empty folder. ``replaced``: addresses on the page, and those used instead."""

    def __init__(self, folder: Path, more: Mapping[str, str], replaced: Mapping[str, str] | None = None) -> None:
        self.folder, self._replaced = folder, replaced or {}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        spoilt = ("HOLDFAST_URL", "HOLDFAST_APP", "HOLDFAST_SQLITE")
        environment = {name: value for name, value in os.environ.items() if name not in spoilt} | {"PATH": path, **more}
        self._shell = self._begin(["bash", "--norc"], environment)
        self._python: subprocess.Popen[str] | None = None
        self._environment = environment
        self._written: list[str] = []

    def run(self, block: Block) -> None:
        """Do what a block shows; ``AssertionError`` if it does not work as written, but for addresses that are replaced."""
        for shown, used in self._replaced.items():
            block = block._replace(text=block.text.replace(shown, used))
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            self._written.append(str(path))
        elif block.language == "python":
            self._execute(block)
        else:
            for command in commands_of(block):
                if not command.text.startswith("sleep "):
                    self._type(command, block.where)

    def close(self) -> None:
        """End everything that was started."""
        for process in (self._shell, self._python):
            if process is None:
                continue
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def _begin(self, command: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, start_new_session=True
        )

    def _type(self, command: Command, where: str) -> None:
        now = SystemClock().monotonic
        until = now() + TIMEOUT if LOOK.match(command.text) and command.answer else 0.0
        while True:
            try:
                self._type_once(command, where)
                return
            except AssertionError:
                if now() > until:
                    raise

    def _type_once(self, command: Command, where: str) -> None:
        output, code = _ask(self._shell, f"{{ {command.text}\n}} 2>.errors </dev/null\necho '{DONE}'$?\n")
        errors = (self.folder / ".errors").read_text()
        is_refused = (command.answer or "").startswith("error:")
        assert (code != "0") is is_refused, f"{where}: `{command.text}` ends with {code}:\n{output}{errors}"
        if command.answer is not None:
            received = errors if is_refused else output
            assert is_like(received, command.answer), f"{where}: `{command.text}` says\n{output}{errors}and not\n{command.answer}"

    def _execute(self, block: Block) -> None:
        if self._python is None:
            program = str(Path(__file__).with_name("interpreter.py"))
            self._python = self._begin([sys.executable, "-u", program], self._environment)
        asked = {"code": "\n" * block.line + block.text, "name": block.where, "written": self._written}
        self._written = []
        output, code = _ask(self._python, json.dumps(asked) + "\n")
        assert code == "0", f"{block.where}: {output}"
        if shown := answers_of(block):
            assert is_like(output, shown), f"{block.where}: prints\n{output}and not\n{shown}"


def _ask(process: "subprocess.Popen[str]", question: str) -> tuple[str, str]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(question)
    process.stdin.flush()
    return _until_done(process.stdout)


def _until_done(stream: IO[str]) -> tuple[str, str]:
    output = []
    for line in stream:
        before, found, code = line.partition(DONE)
        output.append(before)
        if found:
            return "".join(output), code.strip()
    return "".join(output), "an end of the program that runs it"


def read(block: Block) -> None:
    """Look at a block that is not run: it must be of the kind that it declares."""
    if block.language == "python":
        ast.parse(block.text, block.where)
    for command in commands_of(block) if block.language == "console" else ():
        words = list(takewhile(lambda word: word != "&", shlex.split(command.text, comments=True)))
        if words[0] == "holdfast":
            _parse(words[1:])
        else:
            assert words[0] == "." or shutil.which(words[0]), f"{block.where}: there is no {words[0]}"


def _parse(words: list[str]) -> None:
    command: click.Command = root
    while isinstance(command, click.Group):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, words)

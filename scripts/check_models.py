"""Check the Promela models of the token protocol with spin; `make models` runs this.

Every run that models/checks.toml names is searched to its end and must hold; every mutant named there must break an assertion.
A search that was cut short, by depth or by memory, proves nothing and fails. `check_models.py keys NO_GUARD` checks only what
has one of these words in its name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 4096
"""Megabytes for one search."""
DEPTH = 100_000
SECONDS = 600
"""For one search; all of them together take less than two minutes on two idle cores."""
TOOLS = ("spin", "gcc")
"""Spin calls gcc itself, so no other compiler does."""


@dataclass(frozen=True)
class Search:
    """One model with its flags. ``mutant``: the guard that is removed; ``ends``: also that no run is endless."""

    model: str
    file: Path
    says: str
    flags: tuple[str, ...]
    ends: bool = False
    mutant: str | None = None

    @property
    def name(self) -> str:
        return f"{self.model} {self.mutant or ' '.join(self.flags)}".strip()

    @property
    def defines(self) -> list[str]:
        return [f"-D{flag}" for flag in (*self.flags, self.mutant) if flag]


@dataclass(frozen=True)
class Found:
    """The outcome of a search. ``broken``: the assertion, or endless run, that it met; ``cut``: why it proves nothing."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    broken: str = ""
    cut: str = ""


def searches(table: Path, only: Sequence[str] = ()) -> list[Search]:
    """Read the searches that the table names, in its order."""
    found = []
    for name, model in tomllib.loads(table.read_text(encoding="utf-8")).items():
        file = table.parent / f"{model.get('file', name)}.pml"
        for run in model["runs"]:
            found.append(Search(name, file, model["says"], tuple(run["flags"].split()), ends=run.get("ends", False)))
        for mutant, says in model["mutants"].items():
            found.append(Search(name, file, says, tuple(model["mutants_in"].split()), mutant=mutant))
    return [each for each in found if not only or set(only) & set(each.name.split())]


def read(output: str) -> Found:
    """Read what a verifier has printed. Nothing holds unless it reports that it searched everything and met no error."""
    closing = re.search(r"State-vector \d+ byte, depth reached (\d+), errors: (\d+)", output)
    if closing is None:
        return Found(cut=f"the search ended early: {output.strip()[-300:] or 'it printed nothing'}")
    broken = re.search(r"pan:\d+: (.*) \(at depth \d+\)", output)
    stored, made, took = (
        re.search(pattern, output) for pattern in (r"(\d+) states, stored", r"(\d+) transitions", r"elapsed time ([\d.]+)")
    )
    cuts = ("max search depth too small", "out of memory", "reached -DMEMLIM", "Search not completed", "VECTORSZ")
    if closing[2] != "0":
        cut = "" if broken else f"{closing[2]} errors that it does not name"
    else:
        cut = next((f"it was cut short: {each}" for each in cuts if each in output), "")
    return Found(
        states=int(stored[1]) if stored else 0,
        transitions=int(made[1]) if made else 0,
        depth=int(closing[1]),
        seconds=float(took[1]) if took else 0.0,
        broken=broken[1] if broken and closing[2] != "0" else "",
        cut=cut,
    )


def run(search: Search, folder: Path) -> Found:
    """Make the verifier in the folder and let it search."""
    kind = ["-DNP"] if search.ends else ["-DSAFETY"]
    speed = "-O0" if search.mutant else "-Og"  # compiling costs more than a short search
    steps = [
        ["spin", "-a", *search.defines, str(search.file)],
        ["gcc", speed, "-w", "-DNOREDUCE", f"-DMEMLIM={MEMORY}", *kind, "-o", "pan", "pan.c"],
        ["./pan", *(["-l"] if search.ends else []), f"-m{DEPTH}", "-w22"],
    ]
    for command in steps:
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return Found(cut=f"{command[0]} took more than {SECONDS} s")
        if command[0] != "./pan" and done.returncode:
            return Found(cut=f"{shlex.join(command)}: {(done.stdout + done.stderr).strip()[:300]}")
    found = read(done.stdout + done.stderr)
    return Found(**{**vars(found), "broken": place_of_violation(search, folder) or found.broken}) if found.broken else found


def place_of_violation(search: Search, folder: Path) -> str:
    """Find the comment beside the assertion that broke, which names what it protects, and its position."""
    command = ["spin", "-t", "-k", f"{search.file.name}.trail", *search.defines, str(search.file)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    place = re.search(r"spin: (\S+\.pml):(\d+), Error: assertion violated", done.stdout)
    if place is None:
        return ""
    lines = search.file.read_text(encoding="utf-8").splitlines()
    comments = (re.search(r"/\* (.+?) \*/", line) for line in (lines[int(place[2]) - 1], lines[int(place[2]) - 2]))
    answer = next((comment[1] for comment in comments if comment), "")
    return f"{answer} ({search.file.name}:{place[2]})".strip()


def verdict(search: Search, found: Found) -> tuple[bool, str]:
    """Return whether it is as it should be, and the line that reports it."""
    size = f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth:,}, {found.seconds:.1f} s"
    if search.mutant is None:
        also = ", and every run ends" if search.ends else ""
        why = found.cut or (f"BROKEN: {found.broken}" if found.broken else "")
        return not why, f"model  {search.name}: {why or f'holds{also}'}: {size}"
    if found.broken:
        return True, f"mutant {search.name}: caught after {found.states:,} states by {found.broken}"
    why = found.cut or f"NOT CAUGHT in {size}: {search.says}, and no assertion notices"
    return False, f"mutant {search.name}: {why}"


def check(search: Search) -> tuple[bool, str, Found]:
    """Run one search; what is needed to replay a model that broke is kept."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-model-"))
    found = run(search, folder)
    is_right, line = verdict(search, found)
    if not is_right and found.broken:
        command = ["spin", "-t", "-p", "-g", "-k", f"{search.file.name}.trail", *search.defines, str(search.file)]
        line += f"\n       see the run: cd {folder} && {shlex.join(command)}"
    else:
        shutil.rmtree(folder)
    return is_right, line, found


def missing_tools() -> list[str]:
    """List the tools that are not there and cannot be installed here."""
    for program in TOOLS:
        if shutil.which(program) is None:
            subprocess.run(["/bin/sh", ROOT / "scripts/install_debian.sh", program], check=True)
    return [program for program in TOOLS if shutil.which(program) is None]


def main(table: Path, only: Sequence[str] = ()) -> int:
    """Check what the table names; 1 when a model breaks, a mutant passes, or a search proves nothing."""
    if missing := missing_tools():
        print(f"the models are not checked: {' and '.join(missing)} cannot be found (apt-get install {' '.join(missing)})")
        return 1
    todo = list(searches(table, only))
    if not todo:
        print(f"{table.name} names nothing of {' or '.join(only)}")
        return 1
    wrong, states, mutants = 0, 0, 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for search, (is_right, line, found) in zip(todo, pool.map(check, todo), strict=True):
            print(line, flush=True)
            wrong += not is_right
            mutants += search.mutant is not None and is_right
            states += 0 if search.mutant else found.states
    runs = sum(search.mutant is None for search in todo)
    print(f"{runs} runs of the models, {states:,} states; {mutants} of {len(todo) - runs} mutants caught; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(ROOT / "models/checks.toml", sys.argv[1:]))

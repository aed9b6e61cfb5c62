"""Which folders of tests `pytest --long today` takes the long tests of: one each day, and the one whose code the last day changed most."""

from __future__ import annotations

import datetime
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
TURNS = ("tests/contract", "tests/stores", "tests/simulation", "tests/e2e", "tests/bench", "tests/code_evolution")
"""The folders that have long tests, one each day."""
ROOMS = {
    "src/holdfast/stores/postgres": ("tests/contract", "tests/stores"),
    "src/holdfast/databases/postgres": ("tests/contract", "tests/stores"),
    "src/holdfast/stores/sqlite": ("tests/contract",),
    "src/holdfast/databases/sqlite": ("tests/contract",),
    "src/holdfast/testing/contracts": ("tests/contract",),
    "src/holdfast/transports": ("tests/e2e",),
    "proof/stores": ("tests/simulation",),
    "tests/e2e/torture": ("tests/e2e",),
    "bench": ("tests/bench",),
    "examples/code_evolution": ("tests/code_evolution",),
}
"""Where a change calls for the long tests of these folders at once. All of them together would take longer than a push may."""


def part(day: datetime.date, changed: Iterable[str]) -> Sequence[str]:
    """Return the folder of that day, and the one that these changed files concern most.

    >>> part(datetime.date(2026, 1, 1), ["bench/backlog.py"])
    ('tests/e2e', 'tests/bench')
    """
    turn = TURNS[day.toordinal() % len(TURNS)]
    hits = Counter(
        folder for path in changed for room, folders in ROOMS.items() if path.startswith(f"{room}/") for folder in folders
    )
    del hits[turn]
    wanted = {turn, *(folder for folder, _ in hits.most_common(1))}
    return tuple(folder for folder in TURNS if folder in wanted)


def changed_files() -> list[str]:
    """Return the files of the commits of the last day; none where git has no history to tell."""
    words = ["git", "log", "--since=1 day ago", "--name-only", "--format="]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n") if done.returncode == 0 else []


def today() -> Sequence[str]:
    """Return the folders of this day, as this clone's history has it."""
    return part(datetime.datetime.now(datetime.UTC).date(), changed_files())

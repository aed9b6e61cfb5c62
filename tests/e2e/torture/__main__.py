"""``python -m tests.e2e.torture --minutes 10``: real processes and servers under all faults, for as long as you like.

Rounds of about a minute, one store after another, each with a new fleet and a new database. Each round leaves a line of
figures; ``--sum`` shows those of all sittings. The exit code is 1 if any promise was broken; then the database is kept.
"""

import argparse
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from rich.console import Console

from tests.e2e.torture import figures, leftovers
from tests.e2e.torture.databases import Store
from tests.e2e.torture.figures import Figures
from tests.e2e.torture.kept import look
from tests.e2e.torture.rounds import Plan, play

FILE = Path("build/torture.jsonl")
SHM = Path("/dev/shm")
SHORTEST, USUAL, LONGEST = 30.0, 75.0, 90.0
"""Seconds of a round."""
FEW = {"crews": 3, "processes": 2}
"""The size of a round on a bucket: each write of one process makes the others read and try again."""
WIDTH = 120
"""The width of a report that goes to a file and not to a terminal."""
ENDING = 15.0
"""The approximate seconds that a round takes to end."""


def main(words: Sequence[str] | None = None) -> int:
    """Run torture, and return the exit code."""
    asked = _options().parse_args(words)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    if asked.look:
        console.print(look(asked.look), markup=False)
        return 0
    before = figures.read(asked.file) if asked.file.exists() else []
    if not asked.minutes:
        console.print(figures.table(before, f"all sittings in {asked.file}"))
        return int(any(each.violations for each in before))
    sitting = Sitting(console, asked.file, asked.seed)
    with _silence():
        rounds = sitting.run(asked.minutes * 60, asked.stores.split(","))
    console.print(figures.table(rounds, "this sitting"))
    if asked.sum and before:
        console.print(figures.table([*before, *rounds], f"all sittings in {asked.file}"))
    return int(bool(sitting.left) or any(each.violations for each in rounds))


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress warnings about an unavailable store, which is expected here."""
    loggers = [logging.getLogger(name) for name in ("holdfast", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="for how long, about; 0: only show what there is")
    parser.add_argument("--stores", default=",".join(get_args(Store)), help="in turns: %(default)s")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; the others count on")
    parser.add_argument("--file", type=Path, default=FILE, help="where figures are added up: %(default)s")
    parser.add_argument("--sum", action="store_true", help="the table of all sittings, too")
    parser.add_argument("--look", type=Path, metavar="FOLDER", help="judge what was kept of a round once more")
    return parser


class Sitting:
    """A series of rounds, one after another."""

    def __init__(self, console: Console, file: Path, seed: int | None) -> None:
        self._console, self._file = console, file
        self._seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
        self._revision = _revision()
        self.left: list[str] = []

    def run(self, seconds: float, stores: Sequence[Store]) -> list[Figures]:
        """Run rounds for that many seconds, and return their figures."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        name, began, made = leftovers.mark(), time.monotonic(), list[Figures]()
        # Files here need not survive a power cut.
        folder = Path(tempfile.mkdtemp(prefix="holdfast-torture-", dir=SHM if os.access(SHM, os.W_OK) else None))
        tempfile.tempdir = str(folder)  # the servers' files go there
        try:
            while (rest := seconds - (time.monotonic() - began)) > 0 or not made:
                store = stores[len(made) % len(stores)]
                length = USUAL if rest > USUAL + SHORTEST + 2 * ENDING else max(SHORTEST, min(LONGEST, rest) - ENDING)
                size = FEW if store.startswith("objects") else {}
                made.append(self._round(Plan(store=store, seed=self._seed + len(made), seconds=length, **size), folder))
                figures.append(self._file, made[-1])
        finally:
            tempfile.tempdir = None
            self.left = leftovers.left(name, folder)
            for process in self.left:
                self._console.print(f"still running: {process}", style="red", markup=False, soft_wrap=True)
            if not any(folder.iterdir()):
                folder.rmdir()
        return made

    def _round(self, plan: Plan, folder: Path) -> Figures:
        own = Path(tempfile.mkdtemp(prefix=f"{plan.store}-{plan.seed}-", dir=folder))
        made = Figures(
            store=plan.store,
            seed=plan.seed,
            revision=self._revision,
            began=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=0.0,
            bound=0.0,
            done={},
        )
        began = time.monotonic()
        with self._console.status(plan.store) as status:

            def show(elapsed: float, counts: Counter[str]) -> None:
                made.done = dict(counts)  # a copy: other threads keep counting
                done = ", ".join(f"{many} {what}" for what, many in made.done.items() if what != "operations")
                status.update(f"{plan.store} {elapsed:.0f} of {plan.seconds:.0f} s: {done}")

            try:
                verdict = play(plan, own, show)
            except Exception:
                made.other_violations, story = 1, traceback.format_exc()
            else:
                made.done, made.bound, made.jobs = dict(verdict.counts), verdict.bound, verdict.jobs
                made.zombie_writes_refused, made.rows = verdict.refused, verdict.rows
                made.restarts = [round(took, 3) for took in verdict.restarts]
                made.failovers = [round(took, 3) for took in verdict.failovers]
                made.judge(verdict.report, verdict.wrong)
                story = "" if verdict.is_clean else verdict.explain()
        made.seconds = round(time.monotonic() - began, 1)
        self._tell(made, own, story)
        return made

    def _tell(self, made: Figures, folder: Path, story: str) -> None:
        kills, recovery = made.done.get("kills", 0), max(made.recoveries, default=0.0)
        summary = f"{made.store} seed {made.seed}: {made.seconds:.0f} s, {kills} kills, {made.starts} starts of {made.jobs} jobs"
        verdict = f"[red]{made.violations} violations[/]" if made.violations else "[green]nothing lost[/]"
        self._console.print(f"{summary}, slowest recovery {recovery:.2f} s: {verdict}", soft_wrap=True)
        if not made.violations:
            shutil.rmtree(folder)
            return
        self._console.print(story, markup=False, soft_wrap=True)
        self._console.print(f"kept in {folder}; judge it again: {_again(folder)}", soft_wrap=True)


def _again(folder: Path) -> str:
    return f"{Path(sys.executable)} -m tests.e2e.torture --look {folder}"


def _revision() -> str:
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    # After a signal, this process still ends all that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())

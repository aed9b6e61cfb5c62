"""The picture of docs/how-to/rows.md: rows of a table by status over time, while a process is killed every second.

    python scripts/rows_picture.py measure    # docs/images/rows.csv, half a minute, then draw
    python scripts/rows_picture.py draw       # docs/images/rows.svg from it

Both sides have the same rows, the same work for each batch, as many processes, and a supervisor that starts another one for each
that dies. One is the loop that the page begins with, the other a handler of `app.rows`.
"""

from __future__ import annotations

import csv
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).parents[1] / "docs/images"
ROWS, BATCH, PROCESSES, WORK, KILL_EVERY, LOOK, SEED = 20_000, 200, 4, 0.4, 1.0, 0.1, 7
QUIET = 5.0
"""Seconds without any change after which a side is over."""

TABLE = f"""
CREATE TABLE pastes (id INTEGER PRIMARY KEY, status TEXT NOT NULL, taken_at TEXT);
WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {ROWS})
INSERT INTO pastes SELECT number, 'LIVE', NULL FROM numbers;
CREATE INDEX due ON pastes (id) WHERE status = 'LIVE';
CREATE INDEX stuck ON pastes (taken_at) WHERE status = 'DELETING';
"""  # noqa: S608 - a number of ours
LOOP = f"""
import sqlite3, time
connection = sqlite3.connect("pastes.db", isolation_level=None, timeout=30)
while ids := connection.execute(
    "UPDATE pastes SET status = 'DELETING', taken_at = CURRENT_TIMESTAMP WHERE id IN "
    "(SELECT id FROM pastes WHERE status = 'LIVE' LIMIT {BATCH}) RETURNING id").fetchall():
    time.sleep({WORK})
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("UPDATE pastes SET status = 'DELETED' WHERE id = ?", ids)
    connection.execute("COMMIT")
"""  # noqa: S608 - numbers of ours
HANDLER = f"""
import time
from holdfast import App, SyncBatch
app = App("sqlite:///jobs.db")
pastes = app.rows("pastes", key="id", status="status", pending="LIVE", in_progress="DELETING", done="DELETED",
                  claimed_at="taken_at", where="true", batch={BATCH}, concurrency={PROCESSES}, interval="1s", url="sqlite:///pastes.db")
@pastes.handler
def delete(batch: SyncBatch) -> None:
    time.sleep({WORK})
    batch.done(batch.keys)
"""

Pids = Callable[[], list[int]]


class Moment(NamedTuple):
    """The number of rows in each status, and whether a process has just been killed."""

    side: str
    time: float
    done: int
    in_progress: int
    pending: int
    killed: int


@contextmanager
def loops(folder: Path) -> Iterator[Pids]:
    """Run processes with the loop, each started again when it was killed."""
    running: list[subprocess.Popen[bytes]] = []

    def pids() -> list[int]:
        for place, each in enumerate(running):
            if each.poll() == -signal.SIGKILL:
                running[place] = subprocess.Popen([sys.executable, "-c", LOOP], cwd=folder)
        return [each.pid for each in running if each.poll() is None]

    running += [subprocess.Popen([sys.executable, "-c", LOOP], cwd=folder) for _ in range(PROCESSES)]
    try:
        yield pids
    finally:
        for each in running:
            each.kill()
            each.wait()


@contextmanager
def workers(folder: Path) -> Iterator[Pids]:
    """Start a supervisor with as many workers."""
    (folder / "cleanup.py").write_text(HANDLER)
    words = ["-m", "holdfast.cli", "worker", "cleanup", "--processes", str(PROCESSES), "--concurrency", "1"]
    with (folder / "log").open("wb") as log:
        supervisor = subprocess.Popen([sys.executable, *words], cwd=folder, stderr=log)
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
    try:
        yield lambda: [int(pid) for pid in children.read_text().split()]
    finally:
        supervisor.terminate()
        supervisor.wait()


def measured(side: str, pids: Pids, folder: Path) -> Iterator[Moment]:
    """Measure from the first change until nothing changes any more."""
    chance, began, changed, last_kill = random.Random(SEED), None, time.monotonic(), 0.0
    before: dict[str, int] = {"LIVE": ROWS}
    with closing(sqlite3.connect(folder / "pastes.db", timeout=30)) as connection:
        while time.monotonic() - changed < QUIET:
            found, living = dict(connection.execute("SELECT status, count(*) FROM pastes GROUP BY 1")), pids()
            now = time.monotonic()
            if found != before:
                before, changed = found, now
                began = began or now
            is_killing = began is not None and now - max(began, last_kill) >= KILL_EVERY and "LIVE" in found and bool(living)
            if is_killing:
                os.kill(chance.choice(living), signal.SIGKILL)
                last_kill = now
            if began is not None:
                done, in_progress, pending = (found.get(status, 0) for status in ("DELETED", "DELETING", "LIVE"))
                yield Moment(side, round(now - began, 2), done, in_progress, pending, int(is_killing))
            time.sleep(LOOK)


def measure() -> list[Moment]:
    """Both sides, one after the other."""
    found: list[Moment] = []
    for side, start in (("a loop", loops), ("app.rows", workers)):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            with closing(sqlite3.connect(folder / "pastes.db")) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(TABLE)
            with start(folder) as pids:
                found += measured(side, pids, folder)
    return found


COLOURS = {"done": "#4fa66a", "in_progress": "#d9604c", "pending": "#f2a541"}  # from the bottom to the top
NAMES = {"done": "done", "in_progress": "in progress", "pending": "due"}
TOP, WIDE, HIGH, GAP, LEFT = 80, 410, 250, 60, 20
TAIL = 1.5
"""Seconds shown after the last change."""


def drawn(moments: Sequence[Moment]) -> str:
    """Draw as SVG: a panel for each side, on one scale of time."""
    end = TAIL + max(moment.time for before, moment in pairwise(moments) if moment[2:5] != before[2:5])
    moments = [moment for moment in moments if moment.time <= end]
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 400" font-family="system-ui, sans-serif" font-size="14">',
        '<rect width="920" height="400" fill="#ffffff"/>',
    ]
    for place, side in enumerate(dict.fromkeys(moment.side for moment in moments)):
        own = [each for each in moments if each.side == side]
        parts += panel([*own, own[-1]._replace(time=end, killed=0)], LEFT + place * (WIDE + GAP), end)
    for place, (status, colour) in enumerate(COLOURS.items()):
        parts.append(
            f'<text x="{LEFT + 100 * place + 20 * (place > 1)}" y="388" fill="{colour}" font-weight="600">{NAMES[status]}</text>'
        )
    parts.append(f'<text x="{LEFT + 290}" y="388" fill="#4b5563">dashed: a process is killed (SIGKILL)</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(moments: Sequence[Moment], left: float, end: float) -> Iterator[str]:
    """Areas that lie on one another, and a line for each kill."""
    last, ink = moments[-1], 'fill="#4b5563"'
    times = [left + WIDE * moment.time / end for moment in moments]
    lower = [0.0] * len(moments)
    for status, colour in COLOURS.items():
        upper = [below + getattr(moment, status) / ROWS for below, moment in zip(lower, moments, strict=True)]
        edge = [*zip(times, upper, strict=True), *reversed([*zip(times, lower, strict=True)])]
        points = " ".join(f"{x:.1f},{TOP + HIGH * (1 - part):.1f}" for x, part in edge)
        yield f'<polygon points="{points}" fill="{colour}"/>'
        lower = upper
    for x, moment in zip(times, moments, strict=True):
        if moment.killed:
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + HIGH}" stroke="#1f2937" stroke-dasharray="2 4"/>'
    finished = next((moment.time for moment in moments if moment.done == ROWS), None)
    output = f"all {ROWS:,} done after {finished:.0f} s" if finished else f"{last.in_progress:,} rows in progress for ever"
    kills = sum(moment.killed for moment in moments)
    yield f'<text x="{left}" y="34" fill="#1f2937" font-weight="600">{last.side}</text>'
    yield f'<text x="{left}" y="58" {ink}>{kills} kills: {output}</text>'
    yield f'<text x="{left}" y="{TOP + HIGH + 22}" {ink}>0 s</text>'
    yield f'<text x="{left + WIDE}" y="{TOP + HIGH + 22}" {ink} text-anchor="end">{end:.0f} s</text>'


def read(path: Path) -> list[Moment]:
    """Read what was measured."""
    with path.open(newline="") as file:
        return [Moment(row[0], float(row[1]), *map(int, row[2:])) for row in [*csv.reader(file)][1:]]


def main(words: Sequence[str]) -> None:
    if list(words) not in (["measure"], ["draw"]):
        sys.exit(f"error: say measure or draw\n{__doc__}")
    data = IMAGES / "rows.csv"
    if words[0] == "measure":
        moments = measure()
        with data.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Moment._fields, *moments])
    (IMAGES / "rows.svg").write_text(drawn(read(data)))


if __name__ == "__main__":
    main(sys.argv[1:])

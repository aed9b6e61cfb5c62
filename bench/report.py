"""The numbers for readers: a table, the targets, a chart, and a file for programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.chart import draw
from bench.peers.holdfast import Holdfast
from bench.peers.huey import Huey
from bench.peers.raw import Raw, RawInThread
from bench.rounds import Book

FIGURES = {
    "one by one": "enqueue one by one, jobs/s",
    "together": "enqueue by 100 callers at once, jobs/s",
    "bulk": "enqueue many, jobs/s",
    "drain": "run no-op jobs, one worker process, jobs/s",
    "p50": "enqueue to handler, idle worker, p50 ms",
    "p99": "enqueue to handler, idle worker, p99 ms",
}
OURS, HUEY = Holdfast.name, Huey.name
COLUMNS = [OURS, HUEY, Raw.name, RawInThread.name, f"{OURS} beside waiting", f"{OURS} beside finished"]
RATES = [figure for figure in FIGURES if not figure.startswith("p")]


class Target(Struct, frozen=True):
    """A ratio that Holdfast promises."""

    text: str
    above: tuple[str, str]
    below: tuple[str, str]
    least: float


TARGETS = [
    Target("drain, as a multiple of huey's", ("drain", OURS), ("drain", HUEY), 4.0),
    Target("one by one, as a part of the raw driver's", ("one by one", OURS), ("one by one", Raw.name), 0.7),
    Target(
        "  the same if the raw driver may not block its caller either",
        ("one by one", OURS),
        ("one by one", RawInThread.name),
        0.7,
    ),
    Target("100 callers, as a multiple of one by one", ("together", OURS), ("one by one", OURS), 5.0),
    *(
        Target(
            f"{figure} beside {crowd}, as a part of that on an empty file",
            (figure, f"{OURS} beside {crowd}"),
            (figure, OURS),
            0.9,
        )
        for crowd in ("waiting", "finished")
        for figure in ("drain", "one by one")
    ),
]


def show(book: Book, console: Console, scale: int) -> None:
    """The table and the targets."""
    columns = [column for column in COLUMNS if any((figure, column) in book.entries for figure in FIGURES)]
    table = Table("median over the rounds", *columns)
    for figure, text in FIGURES.items():
        table.add_row(text, *(_number(book.median(figure, column)) for column in columns))
    console.print(table)
    targets = Table("ratio, median over the rounds", "wanted", "found", "")
    for target, ratio in judged(book):
        targets.add_row(target.text, f"≥ {target.least:g}", f"{ratio:.2f}", "yes" if ratio >= target.least else "NO")
    console.print(targets)
    if scale:
        console.print(f"waiting, finished: beside {scale:,} jobs in the same file that are not to be run now")


def judged(book: Book) -> Iterator[tuple[Target, float]]:
    """Targets that were measured."""
    for target in TARGETS:
        ratio = book.ratio(target.above, target.below)
        if ratio is not None:
            yield target, ratio


def write(book: Book, folder: Path, about: dict[str, str]) -> list[Path]:
    """``sqlite.json`` and ``sqlite.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {f"{figure} | {peer}": values for (figure, peer), values in book.entries.items()}
    ratios = {target.text.strip(): round(ratio, 3) for target, ratio in judged(book)}
    data = {"about": about, "ratios": ratios, "rounds": numbers}
    path = folder / "sqlite.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    return [path, draw(book, folder / "sqlite.svg", about)]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"

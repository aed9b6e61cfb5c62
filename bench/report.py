"""The numbers for readers: a table, the targets, a chart, and a file for programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.chart import draw
from bench.races import OURS, Race, Target
from bench.rounds import Book

FIGURES = {
    "one by one": "enqueue one by one, jobs/s",
    "together": "enqueue by 100 callers at once, jobs/s",
    "bulk": "enqueue many, jobs/s",
    "drain": "run no-op jobs, one worker process, jobs/s",
    "p50": "enqueue to handler, idle worker, p50 ms",
    "p99": "enqueue to handler, idle worker, p99 ms",
}


def show(race: Race, book: Book, console: Console, scale: int) -> None:
    """Print the table and the targets."""
    columns = [column for column in race.columns if any((figure, column) in book.entries for figure in FIGURES)]
    table = Table(f"{race.title}, median over the rounds", *columns)
    for figure, text in FIGURES.items():
        table.add_row(text, *(_number(book.median(figure, column)) for column in columns))
    console.print(table)
    targets = Table("ratio, median over the rounds", "wanted", "found", "")
    for target, ratio in judged(race, book):
        targets.add_row(target.text, f"≥ {target.least:g}", f"{ratio:.2f}", "yes" if ratio >= target.least else "NO")
    for limit in race.limits:
        value = book.median(limit.figure, OURS)
        if value is not None:
            targets.add_row(FIGURES[limit.figure], f"≤ {limit.most:g}", f"{value:.2f}", "yes" if value <= limit.most else "NO")
    console.print(targets)
    if scale:
        console.print(f"waiting, finished: beside {scale:,} jobs in the same store that are not to be run now")


def judged(race: Race, book: Book) -> Iterator[tuple[Target, float]]:
    """Targets that were measured."""
    for target in race.targets:
        ratio = book.ratio(target.above, target.below)
        if ratio is not None:
            yield target, ratio


def write(race: Race, book: Book, folder: Path, about: dict[str, str]) -> list[Path]:
    """Write the numbers as JSON, the chart as SVG; both have the race's name."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {f"{figure} | {peer}": values for (figure, peer), values in book.entries.items()}
    ratios = {target.text.strip(): round(ratio, 3) for target, ratio in judged(race, book)}
    data = {"about": about, "ratios": ratios, "rounds": numbers}
    path = folder / f"{race.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    return [path, draw(race, book, folder / f"{race.name}.svg", about)]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"

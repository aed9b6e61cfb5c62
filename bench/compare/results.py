"""The numbers of one contest: a table, the targets, and a file of every number of every round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.compare import targets
from bench.compare.catalogue import Entry, Peer
from bench.compare.figures import NAMES
from bench.rounds import Book

FIGURES = tuple(figure for names in NAMES.values() for figure in names)


class Contest(msgspec.Struct):
    """What a file holds: rounds are keyed by figure and entry."""

    about: dict[str, str]
    rounds: dict[str, list[float | None]]

    def book(self) -> Book:
        """Return the numbers as they were measured."""
        book = Book()
        for key, values in self.rounds.items():
            figure, _, name = key.partition(" | ")
            book.entries[figure, name] = [float("nan") if value is None else value for value in values]
        return book


def title(peer: Peer, entry: Entry) -> str:
    """Return the name of an entry in all tables."""
    return f"{peer.name}, {entry.setting}, {entry.kind}"


def show(name: str, book: Book) -> None:
    """Print the table and the targets."""
    console = Console(width=200, highlight=False)
    figures = [figure for figure in FIGURES if any(each == figure for each, _ in book.entries)]
    table = Table(f"{name}, medians", *figures)
    for entry in dict.fromkeys(entry for _, entry in book.entries):
        table.add_row(entry, *(number(book.median(figure, entry)) for figure in figures))
    console.print(table)
    found = Table("Holdfast", "wanted", "found", "")
    for each in targets.judged(book):
        found.add_row(each.text, each.wanted, f"{each.found:.2f}", "yes" if each.is_met else "NO")
    if found.row_count:
        console.print(found)


def write(name: str, book: Book, folder: Path, about: dict[str, str]) -> None:
    """Write the file. Figures that were not measured now stay as an earlier run left them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    before = msgspec.json.decode(path.read_bytes(), type=Contest).rounds if path.exists() else {}
    measured = {figure for figure, _ in book.entries}
    kept = {key: values for key, values in before.items() if key.partition(" | ")[0] not in measured}
    now = {f"{figure} | {entry}": [float(f"{value:.5g}") for value in values] for (figure, entry), values in book.entries.items()}
    data = {"about": about, "rounds": {**kept, **now}}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


def earlier(name: str, folder: Path) -> Book:
    """Return the rounds of an earlier run, to which those of another run are added."""
    path = folder / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=Contest).book() if path.exists() else Book()


def read(folder: Path) -> Iterator[tuple[str, Contest]]:
    """Yield the contests of all files, by the names of the peers."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, msgspec.json.decode(path.read_bytes(), type=Contest)


def number(value: float | None) -> str:
    """Return a figure for readers; empty if there is none."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"

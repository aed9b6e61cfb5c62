"""The numbers for readers: three tables, and a file for programs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.rounds import Book
from bench.rows.claims import Figures
from bench.rows.contest import CPU, HAND, OURS, OWNED, WORKS
from bench.rows.plans import Plan

LEAST, MOST = 0.7, 50.0
"""Of the rows a loop by hand gets done, and milliseconds for the claim of a thousand rows."""


def show_plans(title: str, plans: Sequence[Plan], console: Console) -> None:
    """Print which indexes the statements use."""
    table = Table(title, "along", "rows looked at", "")
    for plan in plans:
        table.add_row(plan.statement, plan.along, "" if plan.looked_at is None else f"{plan.looked_at:,}", _word(plan.is_sound))
    console.print(table)


def show_claims(title: str, found: Figures, console: Console) -> None:
    """Print how long claims take."""
    table = Table(title, "calls", "p50 ms", "p99 ms", "most ms", f"≤ {MOST:g} ms")
    for name, values in found.items():
        figures = (f"{value:.1f}" for value in (statistics.median(values), _p99(values), max(values)))
        table.add_row(name, str(len(values)), *figures, _word(_p99(values) <= MOST) if name.startswith("claim") else "")
    console.print(table)


def show_contest(title: str, book: Book, console: Console) -> None:
    """Print how many rows each contestant gets done."""
    table = Table(f"{title}, rows/s, median over the rounds", HAND, OURS, "ratio", OWNED, "ratio", f"≥ {LEAST:g}")
    for work, text in _figures():
        found = [book.ratio((work, name), (work, HAND)) or 0.0 for name in (OURS, OWNED)]
        cells = [f"{book.median(work, name) or 0.0:,.0f}" for name in (HAND, OURS, OWNED)]
        ratio, of_owned = (f"{each:.2f}" for each in found)
        table.add_row(text, cells[0], cells[1], ratio, cells[2], of_owned, _word(min(found) >= LEAST))
    console.print(table)


def write(path: Path, about: dict[str, str], **found: object) -> Path:
    """Write every number, over those of another measurement that was not made this time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    older = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    older |= {name: value for name, value in found.items() if value}
    data = {**older, "about": older.get("about", {}) | about}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    return path


def ratios(book: Book) -> dict[str, float]:
    """Medians of the rounds' own."""
    pairs = [(work, name) for work, _ in _figures() for name in (OURS, OWNED)]
    return {f"{name}, {work}": round(book.ratio((work, name), (work, HAND)) or 0.0, 3) for work, name in pairs}


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def _figures() -> list[tuple[str, str]]:
    return [(f"{work} {which}".strip(), f"{text} {which}".strip()) for work, text in WORKS.items() for which in ("", CPU)]


def _word(is_so: bool) -> str:
    return "yes" if is_so else "NO"

"""What commands print: tables for people, tab-separated lines for pipes, JSON for programs."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

import click
import msgspec

from holdfast._core.text import IN_JSON, printable


def to_json(value: object) -> str:
    """Encode one JSON document; times in ISO 8601 UTC, ids as strings."""
    return msgspec.json.encode(value).decode().translate(IN_JSON)


def print_json(value: object) -> None:
    """Print the document on stdout, indented for a terminal."""
    text = to_json(value)
    click.echo(msgspec.json.format(text, indent=2) if sys.stdout.isatty() else text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table on a terminal; elsewhere one tab-separated line per row, headed by the names of the columns."""
    cells = [[shown(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in (columns, *cells):
            click.echo("\t".join(line))
    elif not cells:
        click.echo(empty)
    else:
        _draw(columns, cells)


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    # A column that is empty in every row only takes space from others; an id must be copied in one piece.
    kept = [number for number in range(len(columns)) if number < 2 or any(row[number] not in ("", "0") for row in cells)]
    for number in kept:
        table.add_column(columns[number], overflow="fold", no_wrap=columns[number] in ("id", "state"))
    for row in cells:
        table.add_row(*(Text(row[number]) for number in kept))
    Console().print(table)


def shown(value: object) -> str:
    """Format a value for people."""
    match value:
        case None:
            return ""
        case str():
            return printable(value)
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}Z"
        case int() | tuple() | list() | dict() | msgspec.Struct():
            return printable(to_json(value))
        case _:
            return printable(str(value))


def span(seconds: float | None) -> str:
    """Format seconds for people, in the largest fitting unit."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{seconds:.1f}s"

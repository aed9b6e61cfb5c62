"""What commands print: tables for people, tab-separated lines for pipes, JSON for programs."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

import click
import msgspec

_BIDIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROL = (
    {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
    | {code: f"\\u{code:04x}" for code in _BIDIRECTIONAL}
    | {0x0A: "\\n", 0x09: "\\t", 0x0D: "\\r"}
)


def clean(text: str) -> str:
    """Text that cannot steer a terminal: it may come from a payload.

    >>> clean("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return text.translate(_CONTROL)


def to_json(value: object) -> str:
    """One JSON document; times in ISO 8601 UTC, ids as text."""
    return msgspec.json.encode(value).decode()


def print_json(value: object) -> None:
    """The document on stdout, indented for a terminal."""
    text = to_json(value)
    click.echo(msgspec.json.format(text, indent=2) if sys.stdout.isatty() else text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table on a terminal; elsewhere one tab-separated line per row, headed by the names of the columns."""
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
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def shown(value: object) -> str:
    """A value as a person reads it."""
    match value:
        case None:
            return ""
        case str():
            return clean(value)
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}Z"
        case int() | tuple() | list() | dict() | msgspec.Struct():
            return clean(to_json(value))
        case _:
            return clean(str(value))

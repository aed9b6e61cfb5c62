"""Tables that fit the width of a terminal: columns are cut first, and then left out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

GAP: Final = "  "
LEAST: Final = dict.fromkeys(("task", "workflow", "why", "error"), 12) | {
    "queue": 8,
    "progress": 10,
    "worker": 10,
    "key": 8,
    "unique-key": 8,
    "tags": 8,
}
"""The columns that may be cut, and the width to which they may be cut."""
LEFT_OUT: Final = ("worker", "queue", "attempt", "created", "progress", "why", "finished")
"""The columns that are left out where the rest would not fit, in this order."""


def fitted(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    keep: Collection[str] = (),
    least: Mapping[str, int] = LEAST,
    left_out: Sequence[str] = LEFT_OUT,
) -> list[str]:
    """Return the lines of a table, headed by the names of its columns; ``width=None``: as wide as it takes.

    Columns without content are left out. ``keep``: these columns are shown in any case. ``least``: columns that may be cut, and to which
    width; ``left_out``: those that are left out where the rest would not fit, in this order.
    """
    from rich.cells import cell_len

    shown = [number for number, name in enumerate(names) if name in keep or any(row[number] for row in rows)]
    widths = {number: max(cell_len(text) for text in (names[number], *(row[number] for row in rows))) for number in shown}
    cut = {number: min(widths[number], least.get(names[number], widths[number])) for number in shown}
    if width is not None:
        for name in left_out:
            if _total(cut[number] for number in shown) <= width:
                break
            shown = [number for number in shown if names[number] != name or name in keep]
        widths = _narrowed({number: widths[number] for number in shown}, cut, width)
    table = [[line[number] for number in shown] for line in (names, *rows)]
    return [GAP.join(_cut(text, widths[number]) for text, number in zip(line, shown, strict=True)).rstrip() for line in table]


def print_lines(lines: Sequence[str]) -> None:
    """Print the lines of a table on a terminal, its head in bold."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for number, line in enumerate(lines):
        console.print(Text(line, style="" if number else "bold"), soft_wrap=True)


def _total(widths: Iterable[int]) -> int:
    each = [*widths]
    return sum(each) + len(GAP) * (len(each) - 1)


def _narrowed(widths: dict[int, int], least: dict[int, int], width: int) -> dict[int, int]:
    """Return the widths after the widest columns have been cut, cell by cell, until the table fits or no column can be cut more."""
    widths = dict(widths)
    while _total(widths.values()) > width:
        cuttable = [number for number in widths if widths[number] > least[number]]
        if not cuttable:
            break
        widths[max(cuttable, key=lambda number: widths[number])] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)

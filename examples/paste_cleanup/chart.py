"""States of pastes over time, as areas that lie on one another: on a terminal, and as SVG, where what is being deleted stands below
once more, magnified."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Group
from rich.text import Text

HEIGHT = 14
COLOURS = {"deleted": "#4fa66a", "deleting": "#d9604c", "due": "#f2a541", "kept": "#3b6fb6"}  # from the bottom to the top
LEFT, TOP, WIDE, HIGH, STRIP = 90, 50, 840, 300, 60


class Moment(NamedTuple):
    """How many pastes are in each state, how many objects are gone, and whether a worker was killed just then."""

    time: float
    kept: int
    due: int
    deleting: int
    deleted: int
    objects: int
    killed: bool

    def tops(self) -> list[tuple[str, float]]:
        """Return where each area ends, as a part of the whole."""
        total, below, found = max(self.kept + self.due + self.deleting + self.deleted, 1), 0, []
        for state in COLOURS:
            below += getattr(self, state)
            found.append((state, below / total))
        return found


def drawn(moments: Sequence[Moment], width: int) -> Group:
    """Draw for a terminal: a column for each moment, only the last ones where space is short."""
    shown = moments[-max(width - 2, 1) :]
    rows = []
    for level in range(HEIGHT, 0, -1):
        row = Text()
        for moment in shown:
            row.append("█", COLOURS[_state_at(moment, (level - 0.5) / HEIGHT)])
        rows.append(row)
    last = moments[-1]
    numbers = Text("  ").join(Text(f"{state} {getattr(last, state):,}", colour) for state, colour in COLOURS.items())
    kills = Text("".join("✝" if moment.killed else " " for moment in shown), "bold red")
    return Group(*rows, kills, numbers, Text(f"objects gone {last.objects:,}  after {last.time:.1f} s"))


def written(moments: Sequence[Moment]) -> str:
    """Write the chart as SVG."""
    end = max(moments[-1].time, 0.001)
    places = [LEFT + WIDE * moment.time / end for moment in moments]
    bottom = TOP + HIGH + STRIP
    size = f'viewBox="0 0 {LEFT + WIDE + 50} {bottom + 60}"'
    total, ink = sum(moments[-1][1:5]), 'fill="#4b5563"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="14">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_areas(moments, places),
        *_magnified(moments, places, bottom),
        *(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#1f2937" stroke-dasharray="3 4"/>'
            for x, moment in zip(places, moments, strict=True)
            if moment.killed
        ),
        f'<text x="{LEFT - 8}" y="{TOP + 12}" {ink} text-anchor="end">{total:,}</text>',
        f'<text x="{LEFT}" y="{bottom + 22}" {ink}>0 s</text>',
        f'<text x="{LEFT + WIDE}" y="{bottom + 22}" {ink} text-anchor="end">{end:.0f} s</text>',
        f'<text x="{LEFT}" y="{bottom + 46}" {ink}>dashed: a worker was killed; below: pastes that somebody has</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _areas(moments: Sequence[Moment], places: Sequence[float]) -> Iterator[str]:
    lower = [0.0] * len(moments)
    for number, (state, colour) in enumerate(COLOURS.items()):
        upper = [moment.tops()[number][1] for moment in moments]
        edge = [*zip(places, upper, strict=True), *reversed([*zip(places, lower, strict=True)])]
        points = " ".join(f"{x:.1f},{TOP + HIGH * (1 - part):.1f}" for x, part in edge)
        yield f'<polygon points="{points}" fill="{colour}"/>'
        yield f'<text x="{LEFT + 110 * number}" y="30" fill="{colour}" font-weight="600">{state}</text>'
        lower = upper


def _magnified(moments: Sequence[Moment], places: Sequence[float], bottom: int) -> Iterator[str]:
    most, colour = max(moment.deleting for moment in moments), COLOURS["deleting"]
    high = (STRIP - 12) / max(most, 1)
    points = " ".join(f"{x:.1f},{bottom - high * moment.deleting:.1f}" for x, moment in zip(places, moments, strict=True))
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield f'<text x="{LEFT - 8}" y="{bottom - STRIP + 24}" fill="{colour}" text-anchor="end">{most:,}</text>'


def _state_at(moment: Moment, part: float) -> str:
    return next((state for state, top in moment.tops() if part <= top), "kept")

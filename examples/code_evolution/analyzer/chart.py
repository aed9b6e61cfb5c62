"""The chart: a stacked area of lines per language over time, labelled at its right edge.

Run as a child process (`python -m analyzer.chart evolution.json --svg a.svg --png a.png`), because matplotlib's memory never
comes back and a worker is meant to stay small.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.series import Band, Point, bands_of, points_of, read_result
from holdfast.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _DOTS = 1400, 800, 100  # pixels, pixels, pixels per inch
_COLOURS = ("#3b6fb6", "#f2a541", "#4fa66a", "#d9604c", "#7a68ae", "#4fb3bf", "#c9739f", "#a3895d")
_REST = "#c3c8ce"
_INK, _SOFT, _GRID = "#1f2933", "#67727e", "#7b8794"
_LABEL_STEP = 0.044  # height of a label, as a part of the axis


def draw(result: Mapping[str, object], svg: Path, png: Path) -> None:
    """Draw an analysis' result (the content of evolution.json) to both files, each replaced only when complete.

    Raises MissingExtra without matplotlib.

    >>> draw(read_result(Path("evolution.json")), Path("a.svg"), Path("a.png"))   # doctest: +SKIP
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "demo") from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "holdfast",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
            "font.size": 11,
            "axes.unicode_minus": False,
            # a repository may be called "$x$", which is not a formula
            "text.parse_math": False,
        }
    )
    figure = _figure(result)
    for target, kind in ((svg, "svg"), (png, "png")):
        draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(draft, format=kind, dpi=_DOTS, metadata=metadata)
        draft.replace(target)


def _figure(result: Mapping[str, object]) -> "Figure":
    from matplotlib.figure import Figure

    history = result["history"]
    assert isinstance(history, list)
    points = points_of(history)
    bands = bands_of(points)
    figure = Figure(figsize=(_WIDTH / _DOTS, _HEIGHT / _DOTS), facecolor="white")
    axes = figure.add_axes((0.073, 0.085, 0.756, 0.745))
    _areas(axes, points, bands)
    _scales(axes, points)
    _labels(axes, bands)
    figure.text(0.02, 0.945, str(result["name"])[:70], fontsize=21, fontweight="bold", color=_INK, va="center")
    figure.text(0.02, 0.895, _subtitle(result, points), fontsize=12, color=_SOFT, va="center")
    return figure


def _colours(bands: Sequence[Band]) -> list[str]:
    named = iter(_COLOURS)
    return [_REST if band.language == "Other" else next(named) for band in bands]


def _areas(axes: "Axes", points: Sequence[Point], bands: Sequence[Band]) -> None:
    moments = _moments(points)
    lines = [list(band.lines) for band in bands]
    if len(moments) == 1:  # a single commit is drawn as the day it was made
        moments = [moments[0] - 0.5, moments[0] + 0.5]
        lines = [values * 2 for values in lines]
    if lines:
        axes.stackplot(moments, lines, colors=_colours(bands), edgecolor="white", linewidth=0.6)
    axes.set_xlim(moments[0], moments[-1])
    axes.xaxis_date(UTC)


def _moments(points: Sequence[Point]) -> list[float]:
    """Days since 1970, matplotlib's dates."""
    if len(points) > 1 and points[0].date == points[-1].date:  # a history imported at once: by position, a second apart
        return [(points[0].date + number) / 86400 for number in range(len(points))]
    return [point.date / 86400 for point in points]


def _scales(axes: "Axes", points: Sequence[Point]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    highest = max((sum(point.languages.values()) for point in points), default=0)
    axes.set_ylim(0, max(highest * 1.06, 1))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if len(points) == 1:
        axes.set_xticks(_moments(points), labels=[_day(datetime.fromtimestamp(points[0].date, UTC))])
    else:
        locator = AutoDateLocator(tz=UTC, minticks=4, maxticks=10)  # type: ignore[no-untyped-call, unused-ignore]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call, unused-ignore]
    axes.xaxis.get_offset_text().set(color=_SOFT)
    axes.set_axisbelow(False)  # the grid lies over the areas, or it would be seen only above them
    axes.grid(axis="y", color=_GRID, alpha=0.25, linewidth=0.8)
    axes.tick_params(colors=_SOFT, length=0, pad=7)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set(color=_SOFT, linewidth=0.8)
    axes.text(0, 1.01, "lines", transform=axes.transAxes, color=_SOFT, fontsize=10.5, ha="left", va="bottom")


def _labels(axes: "Axes", bands: Sequence[Band]) -> None:
    """Write a label beside the end of each band, in the order of the stack, pushed apart where bands are thin."""
    top = axes.get_ylim()[1]
    below, middles = 0.0, []
    for band in bands:
        middles.append((below + band.lines[-1] / 2) / top)
        below += band.lines[-1]
    heights = spread(middles, step=_LABEL_STEP)
    for band, colour, middle, height in zip(bands, _colours(bands), middles, heights, strict=True):
        ink = _SOFT if band.language == "Other" else colour
        axes.plot(
            [1.003, 1.013, 1.02], [middle, height, height], transform=axes.transAxes, color=ink, linewidth=1.0, clip_on=False
        )
        style = {"transform": axes.transAxes, "va": "center", "fontsize": 11.5}
        axes.text(1.026, height, band.language, color=ink, fontweight="bold", **style)  # type: ignore[arg-type]
        axes.text(1.205, height, f"{band.lines[-1]:,}", color=_SOFT, ha="right", **style)  # type: ignore[arg-type]


def spread(middles: Sequence[float], *, step: float) -> list[float]:
    """Place labels near the ascending `middles`, at least a step apart and inside 0–1 as far as they fit.

    >>> [round(height, 3) for height in spread([0.5, 0.5], step=0.1)]
    [0.45, 0.55]
    """
    groups: list[list[float]] = []  # each: the sum of wished heights of its first label, and the number of labels
    for middle in middles:
        groups.append([middle, 1])
        while len(groups) > 1 and _start(groups[-2], step) + groups[-2][1] * step > _start(groups[-1], step):
            wished, count = groups.pop()
            groups[-1][0] += wished - groups[-1][1] * step * count
            groups[-1][1] += count
    heights = [_start(group, step) + step * number for group in groups for number in range(int(group[1]))]
    limit = 1 - step / 2
    for number in reversed(range(len(heights))):
        heights[number] = min(heights[number], limit)
        limit = heights[number] - step
    return heights


def _start(group: Sequence[float], step: float) -> float:
    return max(group[0] / group[1], step / 2)


def _subtitle(result: Mapping[str, object], points: Sequence[Point]) -> str:
    commits, sampled = int(str(result["commits"])), int(str(result["sampled"]))
    parts = [_number(commits, "commit"), f"{_number(int(str(result['lines'])), 'line')} now"]
    if sampled < commits:
        parts.insert(1, f"{sampled:,} sampled")
    first, last = (datetime.fromtimestamp(point.date, UTC) for point in (points[0], points[-1]))
    is_one_month = (first.year, first.month) == (last.year, last.month)
    begin, end = (_day(first), _day(last)) if is_one_month else (f"{first:%B %Y}", f"{last:%B %Y}")
    parts.append(begin if begin == end else f"{begin} to {end}")
    if result["shallow"]:
        parts.append("shallow clone: older history is missing")
    return "  ·  ".join(parts)


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def main(arguments: Sequence[str] | None = None, complain: Callable[[str], object] = sys.stderr.write) -> int:
    """Run the child's command line; exit code 1 and one line when matplotlib is missing.

    >>> main(["evolution.json", "--svg", "a.svg", "--png", "a.png"])   # doctest: +SKIP
    0
    """
    parser = argparse.ArgumentParser(prog="python -m analyzer.chart", description="Draw evolution.json.")
    parser.add_argument("source", type=Path)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--png", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        draw(read_result(options.source), options.svg, options.png)
    except MissingExtra as missing:
        complain(f"{missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

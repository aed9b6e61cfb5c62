"""The chart: a stacked area of lines per language over time. ``python -m holdfast.demo.chart evolution.json a.svg a.png``.

The SVG is written here; the PNG needs matplotlib, of the extra ``demo``, and is left out without it.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Any

_WIDTH, _HEIGHT, _POINTS = 1400, 800, 700
_LEFT, _RIGHT, _TOP, _BOTTOM = 100, 1160, 140, 730
_COLOURS = ("#3b6fb6", "#f2a541", "#4fa66a", "#d9604c", "#7a68ae", "#4fb3bf", "#c9739f", "#a3895d")
_REST, _INK, _SOFT = "#c3c8ce", "#1f2933", "#67727e"

Bands = list[tuple[str, str, list[int]]]  # of each language its name, its colour, and its lines at every moment


def bands_of(history: Sequence[dict[str, Any]]) -> Bands:
    """Choose the languages with the most lines over all of time, and sum up the others."""
    weights: dict[str, int] = {}
    for row in history:
        for language, lines in row["languages"].items():
            weights[language] = weights.get(language, 0) + lines
    weights.pop("Other", None)
    named = sorted(weights, key=lambda language: (-weights[language], language))[: len(_COLOURS)]
    bands = [
        (language, colour, [row["languages"].get(language, 0) for row in history])
        for language, colour in zip(named, _COLOURS, strict=False)
    ]
    rest = [sum(row["languages"].values()) - sum(row["languages"].get(language, 0) for language in named) for row in history]
    return [*bands, ("Other", _REST, rest)] if any(rest) else bands


def title_of(result: dict[str, Any]) -> tuple[str, str]:
    """Return the title of the chart and the line below it."""
    first, last = (f"{datetime.fromtimestamp(row['date'], UTC):%B %Y}" for row in (result["history"][0], result["history"][-1]))
    span = first if first == last else f"{first} to {last}"
    return str(result["name"])[:70], f"{result['commits']:,} commits  ·  {result['lines']:,} lines now  ·  {span}"


def svg_of(result: dict[str, Any]) -> str:
    """Draw the result, the content of evolution.json, as SVG."""
    whole = result["history"]
    history = [*whole[: -1 : -(-len(whole) // _POINTS)], whole[-1]]
    dates = list(accumulate((row["date"] for row in history), max))  # clocks of authors may step back
    begin, span = dates[0], max(dates[-1] - dates[0], 1)
    across = [_LEFT + (_RIGHT - _LEFT) * (date - begin) / span for date in dates]
    bands = bands_of(history)
    highest: int = max(1, *(sum(row["languages"].values()) for row in history))

    def up(lines: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * lines / highest

    below, shapes, label = [0] * len(history), [], _BOTTOM + 20.0
    for language, colour, lines in bands:
        above = [low + more for low, more in zip(below, lines, strict=True)]
        edge = [f"{x:.1f},{up(y):.1f}" for x, y in zip(across, above, strict=True)]
        base = [f"{x:.1f},{up(y):.1f}" for x, y in zip(reversed(across), reversed(below), strict=True)]
        shapes.append(f'<polygon points="{" ".join(edge + base)}" fill="{colour}" stroke="white" stroke-width="0.6"/>')
        label = min(label - 22, up((below[-1] + above[-1]) / 2))
        shapes.append(_text(_RIGHT + 16, label, f"{language}  {lines[-1]:,}", 15, _SOFT if language == "Other" else colour))
        below = above
    for part in range(5):
        y = up(highest * part / 4)
        shapes.append(f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_SOFT}" stroke-opacity="0.25"/>')
        shapes.append(_text(_LEFT - 10, y + 5, f"{highest * part // 4:,}", 13, _SOFT, "end"))
        moment = datetime.fromtimestamp(begin + span * part / 4, UTC)
        shapes.append(_text(_LEFT + (_RIGHT - _LEFT) * part / 4, _BOTTOM + 26, f"{moment:%b %Y}", 13, _SOFT, "middle"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="Arial, sans-serif">'
    words = [_text(28, y, line, size, _INK) for y, size, line in zip((52, 88), (29, 17), title_of(result), strict=True)]
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>', *shapes, *words, "</svg>\n"])


def draw_png(result: dict[str, Any], target: Path) -> None:
    """Draw the same as PNG; leave it out where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    history, bands = result["history"], bands_of(result["history"])
    figure = Figure(figsize=(14, 8), facecolor="white")
    axes = figure.add_axes((0.08, 0.09, 0.75, 0.74))
    dates = list(accumulate((row["date"] for row in history), max))
    moments = [datetime.fromtimestamp(date, UTC) for date in dates]
    axes.stackplot(moments, [lines for _, _, lines in bands], colors=[colour for _, colour, _ in bands])  # type: ignore[arg-type]
    axes.legend([language for language, _, _ in bands], loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    for height, size, words in zip((0.94, 0.89), (21, 12), title_of(result), strict=True):
        figure.text(0.02, height, words, fontsize=size, parse_math=False)
    axes.margins(x=0)
    figure.savefig(target, format="png", dpi=100, metadata={"Software": None})


def _text(x: float, y: float, words: str, size: int, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'


def main(source: str, svg: str, png: str) -> None:
    """Draw both files from an evolution.json."""
    result = json.loads(Path(source).read_text(encoding="utf-8"))
    Path(svg).write_text(svg_of(result), encoding="utf-8")
    draw_png(result, Path(png))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The chart that grows: lines per language over the commits, as much of it as is counted. A template draws it as SVG."""

from datetime import UTC, datetime
from typing import Any

from holdfast.demo.chart import bands_of

LEFT, RIGHT, TOP, BOTTOM, LABEL, MONTH, COLOURS, POINTS = 72.0, 872.0, 26.0, 316.0, 17.0, 100.0, 8, 240


def chart_of(series: dict[str, Any], rescues: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what the template draws: ``bands`` of languages up to ``front``, scales, and ``marks`` where attempts went on."""
    rows, places = series["rows"], series["places"]
    if not rows:
        return None

    def x(place: int) -> float:
        return round(LEFT + (RIGHT - LEFT) * (place - 1) / float(max(series["commits"] - 1, 1)), 1)

    kept = [*range(0, len(rows) - 1, -(-len(rows) // POINTS)), len(rows) - 1]
    rows, across = [rows[each] for each in kept], [x(places[each]) for each in kept]
    if series["commits"] == 1:
        rows, across = rows * 2, [LEFT, RIGHT]
    highest = max(sum(row["languages"].values()) for row in rows)
    step: int = next(step for step in (factor * 10**power for power in range(12) for factor in (1, 2, 5)) if step * 5 >= highest)
    levels = max(-(-highest // step), 1)

    def up(lines: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * float(lines) / float(step * levels), 1)

    # In order of appearance, so that languages keep their positions and colours while the chart grows.
    seen = {name: number for number, name in enumerate(dict.fromkeys(name for row in rows for name in row["languages"]))}
    order = sorted(bands_of(rows), key=lambda band: (band[0] == "Other", seen.get(band[0], 0)))
    below, label, bands, free = [0] * len(rows), BOTTOM + LABEL, list[dict[str, Any]](), {*range(COLOURS)}
    for name, _, lines in order:
        above = [low + more for low, more in zip(below, lines, strict=True)]
        edge = [f"{at} {up(y)}" for at, y in zip([*across, *across[::-1]], above + below[::-1], strict=True)]
        label = min(label - LABEL, up((below[-1] + above[-1]) / 2) + 4) if lines[-1] else label
        colour = COLOURS if name == "Other" else next(n % COLOURS for n in range(seen[name], 99) if n % COLOURS in free)
        free.discard(colour)
        bands.append({"name": name, "colour": colour, "path": f"M{' L'.join(edge)}Z", "lines": lines[-1], "y": label})
        below = above
    lowest = TOP - LABEL
    for band in filter(lambda band: band["lines"], reversed(bands)):  # names that do not fit at the top are moved down
        band["y"] = lowest = max(band["y"], lowest + LABEL)
    dates: list[tuple[float, str]] = []
    for row, at in zip(rows, across, strict=True):
        text = f"{datetime.fromtimestamp(row['date'], UTC):%b %Y}"
        if not dates or (at - dates[-1][0] >= MONTH and text != dates[-1][1] and at < RIGHT - 20):
            dates.append((at, text))
    scales = {"levels": [(up(step * n), f"{step * n:,}") for n in range(levels + 1)], "dates": dates}
    marks = [(x(each["commit"]), f"{each['commit']:,}") for each in rescues if each["commit"]]
    return {"bands": bands, "front": across[-1], "lines": sum(rows[-1]["languages"].values()), "marks": marks, **scales}

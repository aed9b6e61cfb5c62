"""What the chart shows, worked out without drawing: points in time, and one band per language."""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzer.history import even_positions
from analyzer.languages import OTHER

_BANDS = 8  # languages with a separate band
_POINTS = 1400  # one per pixel
_ROW = '{"binary":'  # how a row of evolution.json begins, and nothing else in it


@dataclass(frozen=True, slots=True)
class Point:
    """The lines per language at one moment, in seconds since 1970.

    >>> Point(0, {"C": 7}).languages
    {'C': 7}
    """

    date: int
    languages: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Band:
    """One language's lines at every point; the last is the tip's.

    >>> Band("C", [1, 7]).lines[-1]
    7
    """

    language: str
    lines: Sequence[int]


def points_of(history: Sequence[Mapping[str, object]]) -> list[Point]:
    """Thin the main line of a history to at most 1,400 points whose dates never go back.

    >>> [point.date for point in points_of([{"date": 5, "mainline": True, "languages": {}}])]
    [5]
    """
    mainline = [row for row in history if row["mainline"]]
    chosen = [mainline[position] for position in even_positions(len(mainline), _POINTS)]
    dates = straightened([int(str(row["date"])) for row in chosen])
    return [Point(date, row["languages"]) for date, row in zip(dates, chosen, strict=True) if isinstance(row["languages"], dict)]


def read_result(source: Path) -> dict[str, object]:
    """Read the content of an evolution.json, its history thinned to what the chart shows: memory does not grow with history.

    >>> read_result(Path("evolution.json"))["name"]   # doctest: +SKIP
    'flask'
    """
    mainline = sum(1 for row in _rows(source) if row["mainline"])
    wanted = set(even_positions(mainline, _POINTS))
    chosen = (row for row in _rows(source) if row["mainline"])
    with source.open(encoding="utf-8") as file:  # a line per row, and without them it is a whole document still
        result = json.loads("".join(line for line in file if not line.startswith(_ROW)))
    result["history"] += [row for position, row in enumerate(chosen) if position in wanted]
    assert isinstance(result, dict)
    return result


def _rows(source: Path) -> Iterator[dict[str, object]]:
    with source.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith(_ROW):
                row = json.loads(line.rstrip().rstrip(","))
                assert isinstance(row, dict)
                yield row


def straightened(dates: Sequence[int]) -> list[int]:
    """Dates which never go back: those outside the longest non-decreasing subsequence take the one before them.

    A running maximum would do for a clock which was slow once, but one commit from the year 2099 would flatten all after it.

    >>> straightened([10, 20, 2099, 30, 5, 40])
    [10, 20, 20, 30, 30, 40]
    """
    tails: list[int] = []  # smallest last date of a subsequence, by its length
    ends: list[int] = []  # the position it ends at
    before: list[int] = []
    for position, date in enumerate(dates):
        length = bisect_right(tails, date)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [date]
        ends[length : length + 1] = [position]
    kept, position = set(), ends[-1] if ends else -1
    while position >= 0:
        kept.add(position)
        position = before[position]
    straight: list[int] = []
    first = min(kept, default=0)
    for position, date in enumerate(dates):
        straight.append(date if position in kept else straight[-1] if straight else dates[first])
    return straight


def bands_of(points: Sequence[Point], limit: int = _BANDS) -> list[Band]:
    """Choose the languages with the most lines over all of time, largest at the tip first, and the rest as one last band "Other".

    >>> [band.language for band in bands_of([Point(0, {"C": 1, "D": 2}), Point(1, {"C": 9, "D": 2, "E": 1})], limit=2)]
    ['C', 'D', 'Other']
    """
    weights: dict[str, int] = {}
    for point in points:
        for language, lines in point.languages.items():
            weights[language] = weights.get(language, 0) + lines
    weights.pop(OTHER, None)
    named = sorted(weights, key=lambda language: (-weights[language], language))[:limit]
    tip = points[-1].languages if points else {}
    named.sort(key=lambda language: (-tip.get(language, 0), -weights[language], language))
    bands = [Band(language, [point.languages.get(language, 0) for point in points]) for language in named]
    rest = [sum(point.languages.values()) - sum(point.languages.get(language, 0) for language in named) for point in points]
    return [*bands, Band(OTHER, rest)] if any(rest) else bands

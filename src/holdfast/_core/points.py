"""The progress of one attempt as a curve: a bounded number of points, kept with the job's row and then with the attempt's record."""

from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from holdfast._core.text import json_text

MOST_POINTS: Final = 32
MOST_BYTES: Final = 2048
"""The most that a row keeps of the points of one attempt."""
MOST_OF_STAGE: Final = 40
MOST_OF_MESSAGE: Final = 200


class Point(Struct, frozen=True):
    """One progress report of an attempt: ``seconds`` since its start, how far it was, and its stage."""

    seconds: float
    fraction: float | None = None
    stage: str | None = None


class Track(Struct, frozen=True):
    """What an attempt has reported so far. ``message``: the last one."""

    points: tuple[Point, ...] = ()
    message: str | None = None

    @property
    def last(self) -> Point:
        """The last point; without any, one at the start."""
        return self.points[-1] if self.points else Point(0.0)

    def after(self, seconds: float, *, stage: str | None, fraction: float | None, message: str | None) -> Self:
        """Return the track with one more report; ``None`` leaves a field as it is."""
        before = self.last
        point = Point(
            round(max(seconds, before.seconds), 3),
            before.fraction if fraction is None else round(fraction, 4),
            before.stage if stage is None else stage[:MOST_OF_STAGE],
        )
        is_empty = point.fraction is None and point.stage is None
        points = self.points if is_empty else with_point(self.points, point)
        return type(self)(points, self.message if message is None else message[:MOST_OF_MESSAGE])


def with_point(points: tuple[Point, ...], new: Point) -> tuple[Point, ...]:
    """Return a curve with one more point. The last point gives way to a new one so close that no drawing shows both.

    >>> [point.seconds for point in with_point((Point(0), Point(60), Point(60.5)), Point(61))]
    [0, 60, 61]
    """
    is_close = (
        len(points) > 1
        and new.stage == points[-1].stage == points[-2].stage
        and new.seconds - points[-2].seconds < new.seconds / MOST_POINTS
    )
    kept = points[:-1] if is_close else points
    return (*kept, new) if len(kept) < MOST_POINTS else _halved((*kept, new))


def points_text(track: Track) -> str | None:
    """Return a track as a row keeps it, in at most ``MOST_BYTES``; ``None``: nothing was reported."""
    points = track.points
    if not points and track.message is None:
        return None
    while len((text := json_text(_rows(points, track.message))).encode()) > MOST_BYTES and len(points) > 2:
        points = _every_second(points)
    return text


def track_of(text: str | None) -> Track:
    """Return the track that a row keeps; what was damaged by hand reads as none."""
    if text is None:
        return Track()
    try:
        *rows, message = msgspec.json.decode(text, type=list[list[float | str | None] | str | None])
        points, stage = list[Point](), None
        for row in rows:
            point = msgspec.convert(row, _Row)
            stage = stage if point.stage is None else point.stage
            points.append(Point(point.seconds, point.fraction, stage))
        return Track(tuple(points), msgspec.convert(message, str | None))
    except (ValueError, msgspec.MsgspecError):
        return Track()


class _Row(Struct, array_like=True):
    """A point as stored. ``stage``: only where it changes."""

    seconds: float
    fraction: float | None = None
    stage: str | None = None


def _rows(points: Sequence[Point], message: str | None) -> list[Any]:
    rows, stage = list[Any](), None
    for point in points:
        row = [point.seconds, point.fraction] if point.stage == stage else [point.seconds, point.fraction, point.stage]
        rows.append(row)
        stage = point.stage
    return [*rows, message]


def _halved(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Leave out every second point, but neither the last one nor, as long as few have one, those with which a stage begins."""
    last = len(points) - 1
    kept = tuple(point for at, point in enumerate(points) if at % 2 == 0 or at == last or point.stage != points[at - 1].stage)
    return kept if len(kept) <= MOST_POINTS * 3 // 4 else _every_second(points)


def _every_second(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return (*points[:-1:2], points[-1])

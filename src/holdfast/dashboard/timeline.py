"""The timeline of a job: where each attempt is drawn. The template draws it as SVG."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast._core.durations import in_words
from holdfast._core.job import FINISHED, State
from holdfast._core.story import Lane
from holdfast._core.story_words import ENDINGS, Kind
from holdfast.dashboard.words import FAMILIES

LEFT: Final = 150.0
RIGHT: Final = 1046.0
WIDTH: Final = 1064
TOP, HEIGHT, STEP = 66.0, 64.0, 98.0
MOST_LANES: Final = 12
MOST_TICKS: Final = 9
_STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)
_ENDS_WELL: Final = {Kind.COMPLETED: "ct", Kind.RELEASED: "x", Kind.SNOOZED: "x", Kind.CANCELLED: "x"}


class Box(Struct, frozen=True):
    """A part of a line. ``family``: its colour; ``label``: a word that fits into it."""

    x: float
    width: float
    family: str
    label: str = ""


class Row(Struct, frozen=True, kw_only=True):
    """One attempt. ``anchor``: on which side of ``note_x`` its note stands. ``curve``, ``area``: its progress, as SVG paths."""

    name: str
    worker: str
    y: float
    x: float
    width: float
    end: float
    note: str
    note_x: float
    anchor: str
    tone: str
    is_rescued: bool
    is_late: bool
    curve: str
    area: str
    stage: str


class Timeline(Struct, frozen=True, kw_only=True):
    """All that is drawn. ``left_out``: the attempts before the first one that is drawn."""

    width: int
    height: float
    ticks: Sequence[tuple[float, str]]
    ribbon: Sequence[Box]
    rows: Sequence[Row]
    label: str
    left_out: int


def timeline_of(lanes: Sequence[Lane], state: State, total: float, summary: str) -> Timeline | None:
    """Return the drawing of the last attempts; ``total``: seconds from the enqueue until the end, or until now. No attempt: nothing."""
    drawn = [lane for lane in lanes if lane.begins is not None][-MOST_LANES:]
    if not drawn:
        return None
    first = 0.0 if len(drawn) == len(lanes) else (drawn[0].begins or 0.0)
    scale = _Scale(first, max(total, drawn[-1].ends or 0.0, first + 0.001))
    return Timeline(
        width=WIDTH,
        height=TOP + STEP * len(drawn),
        ticks=[(scale.x(at), _clock(at)) for at in scale.ticks()],
        ribbon=list(_ribbon(drawn, state, scale)),
        rows=[_row(lane, scale, TOP + STEP * position, lane is lanes[-1]) for position, lane in enumerate(drawn)],
        label=f"Timeline. {summary}",
        left_out=len(lanes) - len(drawn),
    )


class _Scale(Struct, frozen=True):
    """From seconds since the enqueue to a position."""

    first: float
    last: float

    def x(self, at: float) -> float:
        part = (min(max(at, self.first), self.last) - self.first) / (self.last - self.first)
        return round(LEFT + part * (RIGHT - LEFT), 1)

    def ticks(self) -> list[float]:
        span = self.last - self.first
        step = next((each for each in _STEPS if span / each <= MOST_TICKS), span / MOST_TICKS)
        count = int(span / step)
        return [self.first + step * position for position in range(count + 1)]


def _ribbon(lanes: Sequence[Lane], state: State, scale: _Scale) -> Iterator[Box]:
    at = LEFT
    for lane in lanes:
        begin, end = scale.x(lane.begins or 0.0), scale.x(scale.last if lane.ends is None else lane.ends)
        if begin - at > 0.5:
            yield _box(at, begin, "waiting", "waiting")
        yield _box(begin, end, "running", "running")
        at = max(end, begin + 2)
    if RIGHT - at > 0.5 and state not in FINISHED:
        yield _box(at, RIGHT, FAMILIES[state], state.value)
    elif RIGHT - at > 0.5:
        yield _box(at, RIGHT, "waiting", "waiting")


def _box(begin: float, end: float, family: str, word: str) -> Box:
    width = round(max(end - begin, 2.0), 1)
    return Box(begin, width, family, word if width > 70 else "")


def _row(lane: Lane, scale: _Scale, y: float, is_last: bool) -> Row:
    begin, end = scale.x(lane.begins or 0.0), scale.x(scale.last if lane.ends is None else lane.ends)
    is_right = end > (LEFT + RIGHT) / 2 + 160
    curve, area = _curve(lane, scale, y)
    ending = lane.ending
    return Row(
        name=f"attempt {lane.attempt}" + (", isolated" if lane.is_isolated else ""),
        worker=lane.worker if len(lane.worker) <= 22 else f"{lane.worker[:21]}…",
        y=y,
        x=begin,
        width=round(max(end - begin, 2.0), 1),
        end=end,
        note=lane.note or "running",
        note_x=end - 8 if is_right else end + 8,
        anchor="end" if is_right else "start",
        tone="rn" if ending is None else _ENDS_WELL.get(ending, "ft"),
        is_rescued=ending is not None and ENDINGS[ending].is_rescue and not is_last,
        is_late=lane.has_late_result,
        curve=curve,
        area=area,
        stage="" if ending is Kind.COMPLETED else _progress(lane),
    )


def _progress(lane: Lane) -> str:
    return " ".join(filter(None, (lane.stage, None if lane.fraction is None else f"{lane.fraction * 100:.0f} %")))


def _curve(lane: Lane, scale: _Scale, y: float) -> tuple[str, str]:
    """Return the progress of an attempt as two paths: the curve, and what is below it."""
    known = [(point.seconds, point.fraction) for point in lane.points if point.fraction is not None]
    if len(known) < 2 or lane.begins is None:
        return "", ""
    begins = lane.begins
    spots = [(scale.x(begins + seconds), round(y + HEIGHT - fraction * HEIGHT, 1)) for seconds, fraction in known]
    path = "M" + " L".join(f"{x} {height}" for x, height in spots)
    return path, f"{path} L{spots[-1][0]} {y + HEIGHT} L{spots[0][0]} {y + HEIGHT}Z"


def _clock(seconds: float) -> str:
    """Return a tick as a clock shows it.

    >>> _clock(0), _clock(0.5), _clock(90), _clock(7200)
    ('0', '0.5 s', '1:30', '2 h')
    """
    if not seconds:
        return "0"
    if seconds < 60:
        return in_words(round(seconds, 1))
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}" if seconds < 3600 else in_words(seconds)

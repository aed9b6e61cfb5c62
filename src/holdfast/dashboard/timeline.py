"""The timeline of a job: where each attempt is drawn. The template draws it as SVG."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from holdfast._core.durations import in_words
from holdfast._core.job import FINISHED, State
from holdfast._core.phrases import percent
from holdfast._core.story import Lane
from holdfast._core.story_scale import ticks
from holdfast._core.story_words import Kind
from holdfast.dashboard.words import FAMILIES

LEFT: Final = 150.0
RIGHT: Final = 1046.0
WIDTH: Final = 1064
TOP, HEIGHT, STEP = 66.0, 64.0, 98.0
MOST_LANES: Final = 12
ROOM_FOR_END: Final = 0.016
"""The part of the drawing that is left for the state in which a job has ended."""
LEAST_GONE: Final = 6.0
"""The narrowest silence that is drawn."""
LATE: Final = "late result: refused, kept"
LEAST_LATE: Final = 24.0
"""The least distance from an attempt to its late result that is drawn."""
LETTER: Final = 7.0
LETTER_SMALL: Final = 6.0
RESCUE_X: Final = 27.0
MOST_TICKS: Final = 9
_ENDS_WELL: Final = {Kind.COMPLETED: "ct", Kind.RELEASED: "x", Kind.SNOOZED: "x", Kind.CANCELLED: "x"}


class Box(Struct, frozen=True):
    """A part of a line. ``family``: its colour; ``label``: a word that fits into it."""

    x: float
    width: float
    family: str
    label: str = ""


class Stage(Struct, frozen=True):
    """Where a stage of an attempt begins. ``label``: as much of its name as fits; ``is_border``: a line shows where it begins."""

    x: float
    y: float
    label: str
    is_border: bool


class Late(Struct, frozen=True):
    """Where a late result came, and where its words stand: behind it if they fit there, else below."""

    x: float
    text_x: float
    text_y: float
    anchor: str


class Row(Struct, frozen=True, kw_only=True):
    """One attempt. ``anchor``: on which side of ``note_x`` its note stands. ``curve``, ``area``: its progress, as SVG paths.

    ``beats``: where its worker renewed its lease. ``gone``: from where, and for how wide, nothing came from it; ``silence``: in words.
    ``rescue``, ``late``: in words, if there was one. ``late_mark``: where the late result is drawn, if that is known and not too close.
    """

    name: str
    worker: str
    y: float
    x: float
    width: float
    end: float
    note: str
    note_x: float
    note_y: float
    anchor: str
    tone: str
    rescue: str
    late: str
    late_mark: "Late | None"
    curve: str
    area: str
    stages: Sequence[Stage]
    beats: Sequence[float]
    gone: tuple[float, float] | None
    silence: str


class Timeline(Struct, frozen=True, kw_only=True):
    """All that is drawn. ``left_out``: the attempts before the first one that is drawn. ``keys``: what needs an explanation."""

    width: int
    height: float
    ticks: Sequence[tuple[float, str]]
    ribbon: Sequence[Box]
    rows: Sequence[Row]
    label: str
    left_out: int
    keys: frozenset[str]


def timeline_of(lanes: Sequence[Lane], state: State, total: float, summary: str) -> Timeline | None:
    """Return the drawing of the last attempts; ``total``: seconds from the enqueue until the end, or until now. No attempt: nothing."""
    drawn = [lane for lane in lanes if lane.begins is not None][-MOST_LANES:]
    if not drawn:
        return None
    first = 0.0 if len(drawn) == len(lanes) else (drawn[0].begins or 0.0)
    last = max(total, drawn[-1].ends or 0.0, first + 0.001)
    is_over = state in FINISHED
    scale = _Scale(first, last + (last - first) * ROOM_FOR_END if is_over else last)
    rows = [_row(lane, scale, TOP + STEP * position) for position, lane in enumerate(drawn)]
    rows = [_beside(row, rows[at - 1] if at else None) for at, row in enumerate(rows)]
    return Timeline(
        width=WIDTH,
        height=TOP + STEP * len(drawn) - 16,
        ticks=[(scale.x(at), text) for at, text in ticks(first, last, MOST_TICKS)],
        ribbon=list(_ribbon(drawn, state, scale, last)),
        rows=rows,
        label=f"Timeline. {summary}",
        left_out=len(lanes) - len(drawn),
        keys=frozenset(name for name in ("curve", "beats", "gone", "rescue") if any(getattr(row, name) for row in rows)),
    )


class _Scale(Struct, frozen=True):
    """From seconds since the enqueue to a position."""

    first: float
    last: float

    def x(self, at: float) -> float:
        part = (min(max(at, self.first), self.last) - self.first) / (self.last - self.first)
        return round(LEFT + part * (RIGHT - LEFT), 1)


def _ribbon(lanes: Sequence[Lane], state: State, scale: _Scale, last: float) -> Iterator[Box]:
    at = LEFT
    for lane in lanes:
        begin, end = scale.x(lane.begins or 0.0), scale.x(last if lane.ends is None else lane.ends)
        if begin - at > 0.5:
            yield _box(at, begin, "waiting", "waiting")
        yield _box(begin, end, "running", "running")
        at = max(end, begin + 2)
    over = scale.x(last) if state in FINISHED else at
    if over - at > 0.5:
        yield _box(at, over, "waiting", "waiting")
        at = over
    if RIGHT - at > 0.5:
        yield _box(at, RIGHT, FAMILIES[state], state.value)


def _box(begin: float, end: float, family: str, word: str) -> Box:
    width = round(max(end - begin, 2.0), 1)
    return Box(begin, width, family, word if width > 70 else "")


def _row(lane: Lane, scale: _Scale, y: float) -> Row:
    begin, end = scale.x(lane.begins or 0.0), scale.x(scale.last if lane.ends is None else lane.ends)
    is_right = end > (LEFT + RIGHT) / 2 + 160
    curve, area = _curve(lane, scale, y)
    gone = None if lane.silent_from is None or end - scale.x(lane.silent_from) < LEAST_GONE else scale.x(lane.silent_from)
    silence = (lane.ends or 0.0) - (lane.silent_from or 0.0)
    return Row(
        name=f"attempt {lane.attempt}" + (", isolated" if lane.is_isolated else ""),
        worker=lane.worker if len(lane.worker) <= 22 else f"{lane.worker[:21]}…",
        y=y,
        x=begin,
        width=round(max(end - begin, 2.0), 1),
        end=end,
        note=lane.note or ", ".join(filter(None, ("running", _progress(lane)))),
        note_x=end if is_right else end + 8,
        note_y=y - 7 if is_right else y + 24,
        anchor="end" if is_right else "start",
        tone="rn" if lane.ending is None else _ENDS_WELL.get(lane.ending, "ft"),
        rescue=lane.rescue,
        late=LATE if lane.has_late_result else "",
        late_mark=_late_mark(lane, scale, y, end),
        curve=curve,
        area=area,
        stages=list(_stages(lane, scale, y, end if gone is None else gone)),
        beats=[scale.x(at) for at in lane.beats],
        gone=None if gone is None else (gone, round(end - gone, 1)),
        silence="" if gone is None else f"no sign of life for {in_words(silence)}",
    )


def _late_mark(lane: Lane, scale: _Scale, y: float, end: float) -> Late | None:
    x, width = None if lane.late_at is None else scale.x(lane.late_at), LETTER * len(LATE)
    if x is None or x - end < LEAST_LATE:
        return None
    if x + 12 + width <= WIDTH:
        return Late(x, x + 12, y + 52, "start")
    return Late(x, end + 8, y + 67, "start") if end + 8 + width <= WIDTH else Late(x, x + 8, y + 67, "end")


def _beside(row: Row, before: Row | None) -> Row:
    """Return the row with its note inside of its lane, if the rescue of the attempt before stands where the note would."""
    left = row.note_x - LETTER * len(row.note)
    if row.anchor == "start" or before is None or not before.rescue or left > before.end + RESCUE_X + LETTER * len(before.rescue):
        return row
    return structs.replace(row, note_x=row.note_x - 8, note_y=row.y + HEIGHT / 2 + 4)


def _stages(lane: Lane, scale: _Scale, y: float, end: float) -> Iterator[Stage]:
    """Yield each stage; its name stands above the curve, or below if there the curve is high."""
    if lane.begins is None:
        return
    begins: list[tuple[float, str, float]] = []
    for point in lane.points:
        if point.stage is not None and (not begins or begins[-1][1] != point.stage):
            begins.append((scale.x(lane.begins + point.seconds), point.stage, 0.0))
        if begins:
            at, stage, _ = begins[-1]
            begins[-1] = (at, stage, point.fraction or 0.0)
    if begins:  # the first stage fills the lane from its start
        begins[0] = (scale.x(lane.begins), *begins[0][1:])
    for position, (x, stage, highest) in enumerate(begins):
        room = (begins[position + 1][0] if position + 1 < len(begins) else end) - x - 8
        fits = int(room / LETTER_SMALL)
        label = stage if len(stage) <= fits else f"{stage[: fits - 1]}…" if fits > 3 else ""
        yield Stage(x, y + (14 if highest < 0.65 else HEIGHT - 7), label, position > 0)


def _progress(lane: Lane) -> str:
    return "" if lane.fraction is None else f"at {percent(lane.fraction)}"


def _curve(lane: Lane, scale: _Scale, y: float) -> tuple[str, str]:
    """Return the progress of an attempt as two paths: the curve, and what is below it."""
    known = [(point.seconds, point.fraction) for point in lane.points if point.fraction is not None]
    if not known or lane.begins is None:
        return "", ""
    begins = lane.begins
    spots = [(scale.x(begins + seconds), round(y + HEIGHT - fraction * HEIGHT, 1)) for seconds, fraction in known]
    path = "M" + " L".join(f"{x} {height}" for x, height in spots)
    if len(spots) == 1:  # a dot
        return f"{path}h0.1", ""
    return path, f"{path} L{spots[-1][0]} {y + HEIGHT} L{spots[0][0]} {y + HEIGHT}Z"

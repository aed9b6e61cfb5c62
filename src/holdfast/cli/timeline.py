"""The timeline of a job in a terminal: when each attempt ran, how far it was, and what came of it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from holdfast._core.durations import in_words
from holdfast._core.story import Lane, Story
from holdfast._core.story_scale import ticks
from holdfast._core.story_words import ENDINGS, Kind
from holdfast.cli.output import shown

CELLS: Final = 48
"""The width of the timeline in characters."""
MOST_LANES: Final = 12
"""The most attempts in the timeline: the newest ones."""
MOST_TICKS: Final = 6
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_CAP: Final = "┃"
_GLYPHS: Final = {Kind.COMPLETED: "✓", Kind.CANCELLED: "⊘", Kind.RELEASED: "↩", Kind.SNOOZED: "◷"}


def timeline_of(story: Story, now: float) -> Iterator[str]:
    """Yield a scale, the state, and two lines for each attempt: how far it was, and the beats of its worker with what came of it.

    Nothing if no attempt has begun. ``now``: seconds since the job was enqueued.
    """
    lanes = [lane for lane in story.lanes if lane.begins is not None][-MOST_LANES:]
    last = max((now if lane.ends is None else lane.ends for lane in lanes), default=0.0)
    if not lanes or last <= 0:
        return
    left = max(len(shown(text)) for lane in lanes for text in (_name(lane), lane.worker))
    scale = [" "] * (CELLS + 8)
    for at, text in ticks(0.0, last, MOST_TICKS):
        cell = _cell(at, last)
        scale[cell : cell + len(text)] = text
    yield f"{'':{left}}  {''.join(scale)}".rstrip()
    yield f"{'state':{left}}  {_states(lanes, last)} {_glyph(lanes[-1])}"
    for lane in lanes:
        ends = last if lane.ends is None else lane.ends
        begin = min(_cell(lane.begins or 0.0, last), CELLS - 1)
        end = max(_cell(ends, last), begin + 1)
        note = shown(lane.note or "running")
        yield f"{shown(_name(lane)):{left}}  {_progress(lane, begin, end, last)}{_CAP} {note}"
        yield f"{shown(lane.worker):{left}}  {_beats(lane, begin, end, last)}{_CAP} {_came_of(lane)}".rstrip()


def _cell(at: float, last: float) -> int:
    return min(max(round(CELLS * at / last), 0), CELLS)


def _states(lanes: Sequence[Lane], last: float) -> str:
    """Return in which part of the time the code of the job ran; in the rest it waited."""
    cells = ["░"] * CELLS
    for lane in lanes:
        begin = min(_cell(lane.begins or 0.0, last), CELLS - 1)
        end = max(_cell(last if lane.ends is None else lane.ends, last), begin + 1)
        cells[begin:end] = (" running " if end - begin > 12 else "").center(end - begin, "█")
    return "".join(cells)


def _progress(lane: Lane, begin: int, end: int, last: float) -> str:
    """Return the curve of an attempt, the silence before its end, and where each of its stages begins."""
    cells = [" "] * begin + ["│"] + [" "] * (end - begin - 1)
    spots = [(max(_cell((lane.begins or 0.0) + each.seconds, last), begin + 1), each) for each in lane.points]
    for (cell, point), (until, _) in pairwise([*spots, *((cell + 1, each) for cell, each in spots[-1:])]):
        if point.fraction is not None:
            height = _HEIGHTS[min(int(point.fraction * len(_HEIGHTS)), len(_HEIGHTS) - 1)]
            cells[cell:until] = height * (until - cell)
    if lane.silent_from is not None:
        gone = max(_cell(lane.silent_from, last), begin + 1)
        cells[gone:] = "╱" * (end - gone)
    begins = _stages(lane, begin, last)
    for (cell, stage), (until, _) in pairwise([*begins, (end, "")]):
        text = f"│{stage} "[: max(until - cell, 0)]
        cells[cell : cell + len(text)] = text
    return "".join(cells[:end]).ljust(end)


def _stages(lane: Lane, begin: int, last: float) -> list[tuple[int, str]]:
    """Return where each stage begins; the first one begins with its attempt."""
    found: list[tuple[int, str]] = []
    for point in lane.points:
        name = shown(point.stage or "")
        if name and (not found or name != found[-1][1]):
            found.append((max(_cell((lane.begins or 0.0) + point.seconds, last), begin) if found else begin, name))
    return found


def _beats(lane: Lane, begin: int, end: int, last: float) -> str:
    cells = [" "] * begin + ["└"] + [" "] * (end - begin - 1)
    for at in lane.beats:
        cells[min(max(_cell(at, last), begin + 1), end - 1)] = "╵"
    return "".join(cells)


def _came_of(lane: Lane) -> str:
    silence = None if lane.silent_from is None else f"no sign of life for {in_words((lane.ends or 0.0) - lane.silent_from)}"
    rescue = lane.rescue and f"⚓ {lane.rescue}"
    later = "" if lane.late_at is None or lane.ends is None else f" {in_words(max(lane.late_at - lane.ends, 0.0))} later"
    late = f"◇ late result{later}: refused, kept" if lane.has_late_result else ""
    return ", ".join(filter(None, (silence, rescue, late)))


def _name(lane: Lane) -> str:
    return f"attempt {lane.attempt}" + (", isolated" if lane.is_isolated else "")


def _glyph(lane: Lane) -> str:
    if lane.ending is None:
        return "▶"
    return "⚓" if ENDINGS[lane.ending].is_rescue else _GLYPHS.get(lane.ending, "✕")

"""The story of a job in a terminal: what happened, and when each attempt ran."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from holdfast._core.durations import in_words
from holdfast._core.story import Lane, Story
from holdfast._core.story_words import ENDINGS, Kind
from holdfast.cli.output import shown

CELLS: Final = 48
"""The width of the timeline in characters."""
MOST_LANES: Final = 12
"""The most attempts in the timeline: the newest ones."""
_GLYPHS: Final = {Kind.COMPLETED: "✓", Kind.CANCELLED: "⊘", Kind.RELEASED: "↩", Kind.SNOOZED: "◷"}


def lines_of(story: Story) -> Iterator[str]:
    """Yield the summary, and what happened entry by entry: when, how long after the enqueue, and what."""
    yield shown(story.summary)
    yield ""
    for entry in story.entries:
        after = "" if entry.after is None else f"+{in_words(max(entry.after, 0.0))}"
        yield f"{_stamp(entry.at):<24} {after:>13}  {shown(entry.text)}".rstrip()


def timeline_of(story: Story, now: float) -> Iterator[str]:
    """Yield a scale and a bar for each attempt; nothing if no attempt has begun. ``now``: seconds since the job was enqueued."""
    lanes = [lane for lane in story.lanes if lane.begins is not None][-MOST_LANES:]
    last = max((now if lane.ends is None else lane.ends for lane in lanes), default=0.0)
    if not lanes or last <= 0:
        return
    left = max(len(shown(_name(lane))) for lane in lanes)
    end = in_words(last)
    yield f"{'':{left}}  0{end:>{CELLS - 1}}"
    for lane in lanes:
        ends = last if lane.ends is None else lane.ends
        begin = min(round(CELLS * max(lane.begins or 0.0, 0.0) / last), CELLS - 1)
        bar = " " * begin + "█" * max(round(CELLS * ends / last) - begin, 1)
        yield f"{shown(_name(lane)):{left}}  {bar:<{CELLS}} {_glyph(lane)} {shown(lane.note or 'running')}".rstrip()


def _name(lane: Lane) -> str:
    return f"attempt {lane.attempt}, {lane.worker}"


def _glyph(lane: Lane) -> str:
    if lane.ending is None:
        return "▶"
    return "⚓" if ENDINGS[lane.ending].is_rescue else _GLYPHS.get(lane.ending, "✕")


def _stamp(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}Z"

"""How pages write states, numbers, times and ids."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from holdfast._core.durations import in_words
from holdfast._core.job import State
from holdfast._core.overview import NeedKind
from holdfast._core.queue_counts import at_least
from holdfast._core.story_words import Kind

FAMILIES: Final[Mapping[State, str]] = {
    State.AVAILABLE: "waiting",
    State.SCHEDULED: "waiting",
    State.BLOCKED: "waiting",
    State.CANCELLED: "waiting",
    State.HELD: "held",
    State.CLAIMED: "running",
    State.RUNNING: "running",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
}
"""The colour of each state; its glyph has the state's own name."""
TABS: Final = (*list(FAMILIES)[:3], State.HELD, State.CLAIMED, State.RUNNING, State.COMPLETED, State.FAILED, State.CANCELLED)

_FAILED: Final = (Kind.FAILED, Kind.KILLED, Kind.CRASHED, Kind.UNRESPONSIVE, Kind.STALLED, Kind.TIMED_OUT, Kind.EXPIRED)
_LOST: Final = (Kind.SILENT, Kind.CLOSED)
KIND_GLYPHS: Final[Mapping[Kind, tuple[str, str]]] = {
    Kind.ENQUEUED: ("available", "waiting"),
    Kind.NOT_KEPT: ("dot", "waiting"),
    Kind.STARTED: ("running", "running"),
    Kind.PROGRESS: ("dot", "waiting"),
    Kind.COMPLETED: ("completed", "completed"),
    Kind.CANCELLED: ("cancelled", "waiting"),
    Kind.RELEASED: ("available", "waiting"),
    Kind.SNOOZED: ("scheduled", "waiting"),
    Kind.RESCUED: ("rescued", "rescued"),
    Kind.LATE_RESULT: ("late", "rescued"),
    Kind.HELD: ("held", "held"),
    Kind.BLOCKED: ("blocked", "waiting"),
    Kind.CLAIMED: ("claimed", "running"),
    Kind.WAITING: ("available", "waiting"),
    **dict.fromkeys(_FAILED, ("failed", "failed")),
    **dict.fromkeys(_LOST, ("silent", "failed")),
}
"""The glyph and the colour of each kind of entry in a story."""
NEED_GLYPHS: Final[Mapping[NeedKind, tuple[str, str, str, str]]] = {
    NeedKind.NO_WORKER: ("workers", "failed", "/workers", "See workers"),
    NeedKind.SILENT_WORKER: ("silent", "failed", "/workers", "See workers"),
    NeedKind.LOST_WORKER: ("rescued", "rescued", "/jobs?rescued=yes", "See the jobs"),
    NeedKind.UNSERVED_QUEUE: ("blocked", "waiting", "/queues/{}", "See the queue"),
    NeedKind.NEW_ERROR: ("failed", "failed", "/errors/{}", "See the error"),
    NeedKind.UNKNOWN_TASK: ("blocked", "waiting", "/jobs?task={}", "See the jobs"),
    NeedKind.HELD: ("held", "held", "/jobs?state=held", "Decide"),
    NeedKind.PAUSED_QUEUE: ("paused", "held", "/queues/{}", "See the queue"),
    NeedKind.LIMIT_HELD: ("silent", "held", "/limits", "See limits"),
    NeedKind.FULL_LIMIT: ("limits", "held", "/limits", "See limits"),
    NeedKind.LATE_SCHEDULE: ("scheduled", "held", "/schedules", "See schedules"),
}
"""The glyph, the colour and the page of each kind of need, and what the button that opens the page is called."""


class Moment(Struct, frozen=True):
    """A time as a page writes it. ``text``: how long ago, or the time of day; ``iso``: exactly."""

    text: str
    iso: str


def moment(at: datetime | None, now: datetime) -> Moment | None:
    """Return a time relative to now below an hour, else as a date."""
    if at is None:
        return None
    ago = (now - at).total_seconds()
    if abs(ago) < 3600:
        text = f"{in_words(ago)} ago" if ago >= 0 else f"in {in_words(-ago)}"
    else:
        text = f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%d %b, %H:%M}"
    return Moment(text, f"{at:%Y-%m-%dT%H:%M:%S}Z")


def number(count: int, *, is_capped: bool = False, about: int | None = None) -> str:
    """Return a count as pages write it; ``is_capped``: not all were counted. ``about``: how many there are then, if that is known.

    >>> number(1069), number(3_081_000), number(100_001, is_capped=True)
    ('1,069', '3.1 M', '100,000+')
    >>> number(100_001, is_capped=True, about=3_012_345), number(100_001, is_capped=True, about=123_456)
    ('≈ 3.0 M', '≈ 123,000')
    """
    if is_capped and about is not None and about > count:
        return f"≈ {number(about if about >= 1_000_000 else round(about, -3))}"
    return at_least(count) if is_capped and count else f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:.1f} M"


def short(job: UUID | str) -> str:
    """Return the end of an id, which is enough to tell jobs apart."""
    return str(job)[-6:]


def took(begin: datetime | None, end: datetime | None) -> str:
    """Return the time between two moments, or a dash."""
    if begin is None or end is None:
        return "–"
    seconds = max((end - begin).total_seconds(), 0.0)
    return in_words(seconds) if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"

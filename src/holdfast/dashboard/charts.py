"""Charts of the last hours: where bars, lines and labels are drawn. The template draws them as SVG."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from holdfast._core.attempt_line import span
from holdfast._core.history import COMPLETED, FAILED, History, HistoryStep

WIDTH, HEIGHT = 372, 132
LEFT, RIGHT, TOP, BOTTOM = 38.0, 368.0, 14.0, 112.0
MOST_ANCHORS: Final = 60
_LABELS: Final = 4
_ROUND: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
SPARK_WIDTH, SPARK_HEIGHT = 132, 24

Value = Callable[[HistoryStep], float | None]


class Bar(Struct, frozen=True):
    """A bar, or a part of one."""

    x: float
    y: float
    width: float
    height: float
    style: str


class Line(Struct, frozen=True):
    """A line as an SVG path; ``style``: names of classes."""

    path: str
    style: str


class Key(Struct, frozen=True):
    """What a colour or a stroke stands for. ``kind``: bar, line or anchor."""

    name: str
    style: str
    kind: str


class Chart(Struct, frozen=True, kw_only=True):
    """All that is drawn. ``figure``, ``unit``: the newest value. ``label``: the same for people who do not see it.

    ``ticks``: heights with their labels; ``times``: places with theirs, and where the text is anchored. ``anchors``: places of rescues.
    """

    title: str
    figure: str
    unit: str
    label: str
    ticks: Sequence[tuple[float, str]]
    times: Sequence[tuple[float, str, str]]
    bars: Sequence[Bar] = ()
    areas: Sequence[Line] = ()
    lines: Sequence[Line] = ()
    anchors: Sequence[float] = ()
    keys: Sequence[Key] = ()


class Frame(Struct, frozen=True):
    """From the position of a step and a value to a place."""

    steps: int
    top: float

    def x(self, step: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * step / max(1, self.steps), 1)

    def y(self, value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * min(max(value, 0.0), self.top) / self.top, 1)

    def path(self, values: Sequence[float | None]) -> str:
        """Return a line through the middles of steps, which breaks where there is no value."""
        parts, is_open = list[str](), False
        for place, value in enumerate(values):
            if value is None:
                is_open = False
                continue
            is_single = not is_open and (place + 1 == len(values) or values[place + 1] is None)
            x, y = self.x(place + 0.5), self.y(value)
            parts.append(f"M{self.x(place)} {y}H{self.x(place + 1)}" if is_single else f"{'L' if is_open else 'M'}{x} {y}")
            is_open = True
        return "".join(parts)

    def area(self, values: Sequence[float | None]) -> str:
        """Return what is below the line, in as many parts as the line has."""
        parts, run = list[str](), list[tuple[float, float]]()
        for place, value in enumerate((*values, None)):
            if value is not None:
                run.append((self.x(place + 0.5), self.y(value)))
                continue
            if len(run) > 1:
                spots = "L".join(f"{x} {y}" for x, y in run)
                parts.append(f"M{spots}L{run[-1][0]} {BOTTOM}L{run[0][0]} {BOTTOM}Z")
            run = []
        return "".join(parts)


class Range(Struct, frozen=True):
    """The time that a chart shows, and the number of its steps."""

    since: datetime
    until: datetime
    steps: int

    def frame(self, most: float, *, least: float = 1.0) -> Frame:
        """Return where values up to this one are drawn."""
        return Frame(self.steps, rounded(most, least=least))

    def times(self, frame: Frame) -> list[tuple[float, str, str]]:
        """Return the labels of the axis of time."""
        places = [self.steps * part / _LABELS for part in range(_LABELS + 1)]
        anchors = ("start", *("middle",) * (_LABELS - 1), "end")
        whole = self.until - self.since
        clocks = [f"{self.since + whole * (part / _LABELS):%H:%M}" for part in range(_LABELS + 1)]
        return [(frame.x(place), clock, anchor) for place, clock, anchor in zip(places, clocks, anchors, strict=True)]


def ended(history: History, ago: str) -> Chart:
    """Draw the attempts that ended per second, with rescues."""
    steps, shown = history.steps, range_of(history)
    frame = shown.frame(max((step.rate for step in steps), default=0.0))
    parts: tuple[tuple[str, str, Value], ...] = (
        ("completed", "m-completed", lambda step: step.ended.get(COMPLETED, 0.0)),
        ("failed", "f-failed", failed),
        ("other", "f-waiting", others),
    )
    bars = list[Bar]()
    for place, step in enumerate(steps):
        below = 0.0
        for _, style, value in parts:
            if share := value(step):
                low, high = frame.y(below), frame.y(below + share)
                bars.append(
                    Bar(frame.x(place + 0.07), high, round((RIGHT - LEFT) / len(steps) * 0.86, 2), round(low - high, 1), style)
                )
                below += share
    keys = [Key(name, style, "bar") for name, style, value in parts[:2] + parts[2:] * any(map(others, steps))]
    rescues = sum(step.rescued for step in steps)
    anchors = [frame.x(place + 0.5) for place, step in enumerate(steps) if step.rescued][-MOST_ANCHORS:]
    last = steps[-1].rate if steps else 0.0
    total = history.total
    words = f"{per_second(total.ended.get(COMPLETED, 0.0))} completed and {per_second(failed(total))} failed, {rescues} rescued"
    return Chart(
        title="Ended per second",
        figure=per_second(last),
        unit="/s",
        label=f"Attempts that ended per second over the last {ago}, on the average {words}",
        ticks=[(frame.y(value), per_second(value)) for value in ticks(frame.top)],
        times=shown.times(frame),
        bars=bars,
        anchors=anchors,
        keys=[*keys, Key("a rescue", "c-rescued", "anchor")] if anchors else keys,
    )


def waiting(history: History, ago: str) -> Chart:
    """Draw for how long jobs were due when they started."""
    steps, shown = history.steps, range_of(history)
    frame = shown.frame(max((step.wait_p99 or 0.0 for step in steps), default=0.0), least=0.1)
    middle, most = [step.wait_p50 for step in steps], [step.wait_p99 for step in steps]
    last = next((each for each in reversed(middle) if each is not None), None)
    total = history.total
    words = "no job started"
    if total.wait_p50 is not None and total.wait_p99 is not None:
        words = f"half waited less than {span(total.wait_p50)}, 99 of 100 less than {span(total.wait_p99)}"
    figure, _, unit = span(last).rpartition(" ") if last is not None else ("–", "", "")
    return Chart(
        title="Wait of started jobs",
        figure=figure,
        unit=f"{unit} median".strip(),
        label=f"How long jobs waited over the last {ago}: {words}",
        ticks=[(frame.y(value), _short(value)) for value in ticks(frame.top)],
        times=shown.times(frame),
        lines=[Line(frame.path(most), "l-waiting dash"), Line(frame.path(middle), "l-running")],
        keys=[Key("median", "l-running", "line"), Key("99 of 100 wait less", "l-waiting dash", "line")],
    )


def slots(history: History, ago: str) -> Chart:
    """Draw how many slots of all workers were in use."""
    steps = history.steps
    used, every = [step.in_use for step in steps], [step.slots for step in steps]
    most, last = max(every, default=0.0), steps[-1] if steps else None
    return amounts(
        "Slots in use",
        range_of(history),
        used,
        every,
        figure=_whole(last.in_use if last else 0.0),
        unit=f"of {_whole(last.slots if last else 0.0)} on average",
        label=f"Slots in use over the last {ago}: at most {_whole(max(used, default=0.0))} of {_whole(most)}",
        names=("in use", "all slots"),
    )


def amounts(
    title: str,
    shown: Range,
    used: Sequence[float | None],
    every: Sequence[float | None] | None,
    *,
    figure: str,
    unit: str,
    label: str,
    names: tuple[str, ...],
    text: Callable[[float], str] = lambda value: f"{value:,g}",
    least: float = 1.0,
) -> Chart:
    """Draw an amount as an area, below a line that shows how much there could be."""
    frame = shown.frame(max((each for each in (*used, *(every or ())) if each is not None), default=0.0), least=least)
    most = [] if every is None else [Line(frame.path(every), "l-waiting dash")]
    keys = [Key(name, style, "line") for name, style in zip(names, ("l-running", "l-waiting dash"), strict=False)]
    return Chart(
        title=title,
        figure=figure,
        unit=unit,
        label=label,
        ticks=[(frame.y(value), text(value)) for value in ticks(frame.top)],
        times=shown.times(frame),
        areas=[Line(frame.area(used), "a-running")],
        lines=[*most, Line(frame.path(used), "l-running")],
        keys=keys,
    )


def range_of(history: History) -> Range:
    """Return the time of a history."""
    return Range(history.since, history.until, len(history.steps))


def spark(values: Sequence[float]) -> str:
    """Return a small line as a path, without axes."""
    most = max((*values, 0.0)) or 1.0
    width = SPARK_WIDTH / max(1, len(values) - 1)
    spots = (f"{place * width:.1f} {1 + (SPARK_HEIGHT - 2) * (1 - value / most):.1f}" for place, value in enumerate(values))
    return "M" + "L".join(spots) if values else ""


def failed(step: HistoryStep) -> float:
    """Return the attempts per second that failed."""
    return sum(step.ended.get(each, 0.0) for each in FAILED)


def others(step: HistoryStep) -> float:
    """Return the attempts per second that neither completed nor failed."""
    return max(0.0, step.rate - failed(step) - step.ended.get(COMPLETED, 0.0))


def rounded(most: float, *, least: float = 1.0) -> float:
    """Return the top of an axis: a round number that is not below the greatest value.

    >>> rounded(41.8), rounded(0.0), rounded(3.3, least=0.1), rounded(0.17, least=0.1)
    (50.0, 1.0, 4.0, 0.2)
    """
    top = least
    while top * 8 < most:
        top *= 10
    while top / 10 >= max(most, least):
        top /= 10
    return next((round(top * each, 6) for each in _ROUND if top * each >= most), top * 10)


def ticks(top: float) -> list[float]:
    """Return the values that an axis shows, from zero to its top.

    >>> ticks(60.0), ticks(4.0), ticks(50.0)
    ([0.0, 20.0, 40.0, 60.0], [0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0])
    """
    first = float(f"{top:e}".partition("e")[0])
    parts = {1.0: 2, 2.0: 2, 3.0: 3, 4.0: 4, 5.0: 5, 6.0: 3, 8.0: 4}.get(first, 2)
    return [round(top * part / parts, 6) for part in range(parts + 1)]


def per_second(value: float) -> str:
    """Return a rate as pages write it.

    >>> per_second(41.83), per_second(0.0), per_second(0.034), per_second(1980.0), per_second(0.001)
    ('41.8', '0', '0.03', '1,980', 'under 0.01')
    """
    if value < 0.01:
        return "under 0.01" if value else "0"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"
    return text.removesuffix(".0")


def _short(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:g} s" if seconds else "0"
    return f"{seconds / 60:.3g} min" if seconds < 3600 else f"{seconds / 3600:.3g} h"


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"

"""The scale of a timeline, which the page of a job and the terminal share."""

from collections.abc import Iterator
from typing import Final

from holdfast._core.durations import in_words

_STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)


def ticks(first: float, last: float, most: int) -> Iterator[tuple[float, str]]:
    """Yield where a scale has ticks, at most one more than ``most``, and what stands there.

    >>> [text for _, text in ticks(0, 130, 5)]
    ['0', '0:30', '1:00', '1:30', '2:00']
    """
    span = last - first
    step = next((each for each in _STEPS if span / each <= most), span / most)
    for position in range(int(span / step) + 1):
        at = first + step * position
        yield at, _clock(at, last)


def _clock(seconds: float, last: float) -> str:
    """Return a tick as a clock shows it. ``last``: the end of the drawing.

    >>> _clock(0, 9), _clock(0.5, 9), _clock(30, 90), _clock(90, 90), _clock(7200, 9000)
    ('0', '0.5 s', '0:30', '1:30', '2 h')
    """
    if not seconds:
        return "0"
    if last < 60:
        return in_words(round(seconds, 1))
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}" if seconds < 3600 else in_words(seconds)

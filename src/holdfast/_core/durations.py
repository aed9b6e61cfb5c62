"""Durations as users write them: a timedelta, seconds, or text with a unit."""

import re
from datetime import timedelta

Duration = timedelta | float | int | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# A hundred years: a longer delay can pass the end of the calendar, which would fail a whole batch instead of its one caller.
LONGEST = 36_525 * 86_400.0
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")


def seconds(duration: Duration) -> float:
    """Return a duration in seconds; ``ValueError``, naming the accepted forms, for any other value or one below zero.

    >>> seconds("0.6s"), seconds("5m"), seconds(2), seconds(timedelta(hours=1))
    (0.6, 300.0, 2.0, 3600.0)
    """
    if isinstance(duration, timedelta):
        value = duration.total_seconds()
    elif isinstance(duration, str):
        found = _TEXT.fullmatch(duration)
        if found is None:
            raise ValueError(f"{duration!r} is not a duration: use a number and a unit (ms s m h d), for example '30s' or '1.5h'")
        value = float(found[1]) * _UNITS[found[2]]
    elif type(duration) in (int, float):
        value = float(duration)
    else:
        raise ValueError(f"{duration!r} is not a duration: use a timedelta, seconds, or a string such as '30s'")
    if not 0 <= value <= LONGEST:  # NaN fails this, too
        raise ValueError(f"{duration!r} is not a duration: it must be between 0 and {LONGEST / _UNITS['d']:,.0f} days")
    return value


def in_words(duration: float) -> str:
    """Return seconds as sentences name them: in the two largest units that matter.

    >>> in_words(0.42), in_words(38.7), in_words(324), in_words(7440), in_words(90000)
    ('0.4 s', '38 s', '5 min 24 s', '2 h 04 min', '1 d 1 h')
    """
    if duration < 9.95:
        return f"{duration:.1f}".removesuffix(".0") + " s"
    whole = int(max(duration, 10))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{whole} s"


def in_one_unit(duration: float) -> str:
    """Return seconds as ``seconds`` reads them: in the largest unit that divides them.

    >>> in_one_unit(2_592_000), in_one_unit(5400), in_one_unit(1.5)
    ('30d', '90m', '1.5s')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if duration % size == 0:
            return f"{duration / size:.0f}{unit}"
    return f"{duration:.6f}".rstrip("0").rstrip(".") + "s"

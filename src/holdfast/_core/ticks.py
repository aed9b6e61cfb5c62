"""The calendar of schedules: when is the tick after this one. Pure functions; every process computes the same ticks.

A tick follows from the tick before it, never from now: so it does not matter who computes it, or how late.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any, Final, assert_never
from uuid import UUID

from msgspec import Struct

from holdfast._core.durations import Duration, in_one_unit, seconds
from holdfast.errors import ConfigurationError, InvalidCron, MissingExtra

MOST_COUNTED: Final = 1_000
"""The most missed ticks of one schedule that are counted, and fired, at once."""

_FIELDS: Final = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, of which one of its months must have the day, or L for the last",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7, or SUN to SAT; 5#2 is the second Friday, 5L the last",
}
_STEP = timedelta(microseconds=1)
_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Every(Struct, frozen=True, tag="every"):
    """Ticks at the schedule's anchor and each multiple of this many microseconds of elapsed time after it."""

    micros: int

    def __str__(self) -> str:
        return f"every {in_one_unit(self.micros / 1e6)}"


class Cron(Struct, frozen=True, tag="cron"):
    """Ticks where the local time of a zone matches a cron expression of five fields."""

    expression: str
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"cron {self.expression} {self.zone}"


When = Every | Cron


def every(interval: Duration) -> Every:
    """Tick each time that so much time has passed, counted from when the schedule was first stored.

    ``every("1d")`` is 24 hours, also on the days on which clocks change; a time of day needs ``cron``. ``ConfigurationError`` for
    less than a second or more than a year.

    >>> every("5m")
    Every(micros=300000000)
    """
    try:
        length = seconds(interval)
    except ValueError as error:
        raise ConfigurationError([f"every: {error}"]) from None
    if not 1.0 <= length <= 366 * 86_400.0:
        raise ConfigurationError([f"every: {interval!r} is out of range: use a duration from '1s' to '366d'"])
    return Every(round(length * 1e6))


def cron(expression: str, *, tz: str = "UTC") -> Cron:
    """Tick when the clocks of a time zone match five fields: minute, hour, day of month, month, day of week.

    A fixed time that a change of clocks leaves out ticks once, right after the gap; one that comes twice ticks the first time only. If the
    minute or the hour begins with ``*``, elapsed time counts: an hourly job ticks in both hours. Needs the extra ``schedules``.

    >>> cron("0 3 * * *", tz="Europe/Berlin")
    Cron(expression='0 3 * * *', zone='Europe/Berlin')
    """
    when = Cron(" ".join(str(expression).split()), str(tz))
    if len(when.expression.split()) != 5:
        raise InvalidCron([f"cron({expression!r}): use five fields: minute, hour, day of month, month, day of week"])
    following(when, _EPOCH, _EPOCH)  # raises for what cannot be read
    return when


def following(when: When, anchor: datetime, after: datetime) -> datetime:
    """Return the first tick that is later than this instant.

    >>> start = datetime(2026, 1, 1, tzinfo=UTC)
    >>> following(every("1h"), start, start + timedelta(minutes=90)).hour
    2
    """
    return next(_ticks(when, anchor, after))


def upcoming(when: When, anchor: datetime, after: datetime, number: int) -> list[datetime]:
    """Return the next ticks that are later than this instant."""
    return list(islice(_ticks(when, anchor, after), number))


def newest(when: When, anchor: datetime, first: datetime, until: datetime, most: int) -> list[datetime]:
    """Return the newest ticks, at most ``most``, from the tick ``first`` up to, not including, ``until``; oldest first."""
    window = _HOUR
    while True:
        start = max(first - _STEP, until - window) if until - first > window else first - _STEP
        found = list(_between(when, anchor, start, until))
        if len(found) >= most or start < first:
            return found[-most:] if most else []
        window *= 4


def number_of(when: When, anchor: datetime, first: datetime, until: datetime) -> int:
    """Return how many ticks there are from the tick ``first`` up to, not including, ``until``: at most ``MOST_COUNTED``."""
    return sum(1 for _ in islice(_between(when, anchor, first - _STEP, until), MOST_COUNTED))


def jitter_of(name: str, tick: datetime, jitter: float) -> float:
    """Return by how many seconds the job of a tick is delayed: in [0, jitter), and the same for any caller."""
    return jitter * (_digest(name, tick)[0] / 2**64)


def job_of(name: str, tick: datetime, edition: UUID) -> UUID:
    """Return the id of a tick's job, which follows from the schedule, the tick and the edition of its definition.

    It has the form of other jobs' ids (a UUID of version 7): the tick's time comes first.
    """
    high, low = _digest(f"{edition.hex}{name}", tick)
    stamp = max(0, (tick - _EPOCH) // timedelta(milliseconds=1)) & (2**48 - 1)
    return UUID(int=stamp << 80 | 0x7 << 76 | (high & 0xFFF) << 64 | 0b10 << 62 | low & (2**62 - 1))


def _digest(name: str, tick: datetime) -> tuple[int, int]:
    digest = sha256(f"{name}\0{(tick - _EPOCH) // _STEP}".encode(errors="replace")).digest()
    return int.from_bytes(digest[:8]), int.from_bytes(digest[8:16])


def _between(when: When, anchor: datetime, after: datetime, until: datetime) -> Iterator[datetime]:
    for tick in _ticks(when, anchor, after):
        if tick >= until:
            return
        yield tick


def _ticks(when: When, anchor: datetime, after: datetime) -> Iterator[datetime]:
    match when:
        case Every(interval):
            tick = anchor + timedelta(microseconds=((after - anchor) // _STEP // interval + 1) * interval)
            while True:
                yield tick
                tick += timedelta(microseconds=interval)
        case Cron(expression, zone):
            for local in _cron(expression, zone, after):
                if (tick := local.astimezone(UTC)) > after:  # in a repeated hour the first of two equal local times is earlier
                    yield tick
        case _:
            assert_never(when)


def _cron(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise MissingExtra("cronsim", "schedules") from error
    from zoneinfo import ZoneInfo  # 0.5 MB of each worker and supervisor

    try:
        place: Any = UTC if zone == "UTC" else ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        raise InvalidCron([f"cron: this machine has no time zone {zone!r}: use a name such as 'Europe/Berlin'"]) from None
    try:
        ticks = CronSim(expression, after.astimezone(place))
        yield next(ticks)
    except (CronSimError, StopIteration, ValueError) as error:
        raise InvalidCron([f"cron({expression!r}): {_problem_of(str(error))}"]) from None
    yield from ticks


def _problem_of(error: str) -> str:
    """Return what is wrong with a cron expression; ``error``: "Bad minute", or another field, or nothing if no date fits."""
    field = error.removeprefix("Bad ")
    if field not in _FIELDS:
        return error or "it never comes: use a date that a year has"
    return f"the {field.replace('-', ' ')} is not possible: use {_FIELDS[field]}; also *, 1,15, 1-5 and */5"

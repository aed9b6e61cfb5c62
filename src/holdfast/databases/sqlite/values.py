"""Conversions to the values that SQLite stores: times are microseconds."""

from datetime import UTC, datetime, timedelta

Values = dict[str, bytes | str | int | float | None]
"""Parameters of a statement, by name."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(seconds: float) -> int:
    """Return seconds as an integer number of microseconds."""
    return round(seconds * 1e6)


def micros_of(instant: datetime | None) -> int | None:
    """Return the microseconds from the epoch to an instant."""
    return None if instant is None else (instant - _EPOCH) // timedelta(microseconds=1)

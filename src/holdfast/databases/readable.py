"""Reads rows one by one, so that one that was damaged by hand hides no other."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec import ValidationError

Value = TypeVar("Value")

logger = logging.getLogger("holdfast")

_UNREADABLE = (TypeError, ValueError, KeyError, OverflowError, AssertionError, ValidationError)
"""What reading such a row raises: ``UUID`` asserts the type of its bytes."""


def readable(read: Callable[[Any], Value], found: Iterable[Any]) -> tuple[Value, ...]:
    """Return the values of all readable rows; log and leave out the others."""
    values = []
    for row in found:
        try:
            values.append(read(row))
        except _UNREADABLE:
            logger.warning("a row of the jobs' database cannot be read and is left alone: %.200r", tuple(row)[:3])
    return tuple(values)

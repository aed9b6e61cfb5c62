"""The short forms of job ids that people read and type."""

import re
from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

SHORT: Final = 6
"""Digits of an id that lists show. An id begins with its time, so only its end distinguishes jobs of one minute."""
LONGER: Final = 8
LEAST: Final = 4
_PART: Final = re.compile(r"[0-9a-f]{4,31}")


def short_ids(ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the last six digits of each id; if two of them meet, the last eight, and whole ids if those meet, too.

    >>> one, other = UUID(int=0x1A2B3C4D), UUID(int=0x992B3C4D)
    >>> [*short_ids([one]).values()], [*short_ids([one, other]).values()]
    (['2b3c4d'], ['1a2b3c4d', '992b3c4d'])
    """
    for digits in (SHORT, LONGER):
        short = {id: id.hex[-digits:] for id in ids}
        if len(set(short.values())) == len(short):
            return short
    return {id: str(id) for id in ids}


def part_of_id(text: str) -> str | None:
    """Return the digits if the text can be the beginning or the end of an id: 4 to 31 hex digits, hyphens left out."""
    digits = text.replace("-", "").lower()
    return digits if _PART.fullmatch(digits) else None


def fits(id: UUID, part: str) -> bool:
    """Return whether the id begins or ends with these digits."""
    return id.hex.startswith(part) or id.hex.endswith(part)


def fitting(ids: Iterable[UUID], part: str) -> tuple[UUID, ...]:
    """Return the ids that begin or end with these digits, in their order."""
    return tuple(id for id in ids if fits(id, part))

"""Which job has a unique key, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from holdfast._core.job import FINISHED, Json, State
from holdfast._core.payload import decode_json

if TYPE_CHECKING:
    from holdfast._core.record import JobRecord

LONGEST_KEY = 200
"""The characters of a unique key at most."""


def keeps_key(row: JobRecord) -> bool:
    """Return whether a job is the one to ask about its unique key: no later job has taken it, and it neither failed nor was cancelled."""
    if row.unique_key is None or row.uniqueness.is_freed:
        return False
    return row.state not in FINISHED or (row.state is State.COMPLETED and row.uniqueness.seconds is not None)


def holds_key(row: JobRecord, now: datetime) -> bool:
    """Return whether no other job with its unique key may be enqueued now."""
    if not keeps_key(row):
        return False
    if row.state not in FINISHED and not (row.uniqueness.until_started and row.token.number > 0):
        return True
    until = key_kept_until(row)
    return until is not None and now < until


def key_kept_until(row: JobRecord) -> datetime | None:
    """Return the time before which also a completed job holds its unique key."""
    period = row.uniqueness.period
    return None if row.unique_key is None or period is None else row.created_at + period


def asks_again(row: JobRecord) -> bool:
    """Return whether a finished job needs its unique key to run again: not if a claim had freed the key."""
    return row.unique_key is not None and not (row.uniqueness.until_started and row.token.number > 0)


def unique_key_in(payload: bytes, fields: Sequence[str], defaults: Mapping[str, Json]) -> str:
    """Return the unique key that these parameters of a payload make; one that was not given counts with its default.

    A long one is replaced by its SHA-256.

    >>> unique_key_in(b'{"order":7}', ["order", "urgent"], {"urgent": False})
    '{"order":7,"urgent":false}'
    """
    given = decode_json(payload)
    values = {name: given.get(name, defaults.get(name)) for name in sorted(fields)}
    text = msgspec.json.encode(values, order="sorted").decode()
    is_plain = len(text) <= LONGEST_KEY and text.isprintable()
    return text if is_plain else f"sha256:{sha256(text.encode()).hexdigest()}"

"""Packing of the parameters of a walk over lanes."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast._core.lanes import Cursor, share
from holdfast._core.requests import ClaimRequest
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.claim_cursor import LastClaimed, Range
from holdfast.stores.postgres.lane_report import Position

NEXT: Final = "\x01"
"""Makes the next string after a string, in the order of bytes."""
_LEAST_PRIORITY: Final = 1 - 2**63


def walking(
    request: ClaimRequest,
    look: int,
    patience: int,
    turns: int,
    start: Cursor,
    *,
    at: Position | None = None,
    seen: Mapping[Range, LastClaimed] = {},
    caps: str | None = None,
) -> tuple[Any, ...]:
    """Return the parameters of ``walk.sql``. A turn that is over begins right behind its lane."""
    rings = (
        [turn.priority for turn in start],
        [turn.queue for turn in start],
        [turn.key if turn.left else turn.key + NEXT for turn in start],
        [turn.left for turn in start],
    )
    behind = (_LEAST_PRIORITY, False, None, None) if at is None else (*at[:3], at[3] + NEXT)
    columns: tuple[Any, ...] = tuple(zip(*seen, strict=True)) or ((),) * 4
    last = [position.at for position in seen.values()], [position.job for position in seen.values()]
    least = share(look, 1)
    return (packing.queues(request), look, patience, least, max(least, turns), *rings, *behind, *columns, *last, caps)

"""What a walk over lanes is asked, as parameters of ``exchange_lanes.sql``."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holdfast._core.lanes import Cursor, share
from holdfast._core.requests import ClaimRequest
from holdfast.stores.postgres.claim_cursor import LastClaimed, Range
from holdfast.stores.postgres.lane_report import Position

NEXT = "\x01"
"""Makes the next string after a string, in the order of bytes."""

_LEAST_PRIORITY = 1 - 2**63


class Walk(Struct, frozen=True, kw_only=True):
    """A walk over the lanes of a request.

    ``look``: how many jobs are dealt out. ``misses``: at how many lanes without due jobs it gives up. ``turns``: how many turns of each
    lane it reads at once, if that is more than its share. ``start``: the cursor with which its round began. ``at``: where an earlier walk
    of that round gave up. ``seen``: the last jobs taken from deep ranges. ``caps``: how many more jobs limits allow; None leaves out all
    lanes that limits count.
    """

    look: int
    misses: int = 64
    turns: int = 0
    start: Cursor = ()
    at: Position | None = None
    seen: Mapping[Range, LastClaimed] = {}
    caps: str | None = None

    def parameters(self, request: ClaimRequest) -> tuple[Any, ...]:
        """Return the parameters. A turn that is over begins right behind its lane."""
        least, start, at = share(self.look, 1), self.start, self.at
        rings = (
            [turn.priority for turn in start],
            [turn.queue for turn in start],
            [turn.key if turn.left else turn.key + NEXT for turn in start],
            [turn.left for turn in start],
        )
        behind = (_LEAST_PRIORITY, False, None, None) if at is None else (*at[:3], at[3] + NEXT)
        columns: tuple[Any, ...] = tuple(zip(*self.seen, strict=True)) or ((),) * 4
        last = [position.at for position in self.seen.values()], [position.job for position in self.seen.values()]
        asked = queues_of(request), self.look, self.misses, least, max(least, self.turns)
        return (*asked, *rings, *behind, *columns, *last, self.caps)


def queues_of(request: ClaimRequest) -> list[str] | None:
    """Return the wanted queues, each once; ``None`` for all."""
    return None if request.queues is None else list(dict.fromkeys(request.queues))

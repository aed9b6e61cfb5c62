"""What a walk over lanes saw, and the cursor that follows from it and from the jobs it claimed."""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from msgspec import Struct

from holdfast._core.lanes import Cursor, LaneHead, Turn, deal, in_ring, moved_on
from holdfast.stores.postgres.records import Row

_LANE = itemgetter("priority", "queue", "key")

Position = tuple[int, bool, str, str]
"""(priority, whether it lies before the start of its ring, queue, key): a position of a walk; they go in this order."""


class LaneReport(Struct, frozen=True):
    """The last row of ``exchange_lanes.sql``.

    ``dealt``: the jobs dealt out; if fewer were claimed, others had them locked. ``cut``: the priority in whose ring due lanes are left.
    ``given_up``: where the walk ran out of patience. ``ranges``: how many there are up to the priority of the first due job.
    ``weights``: those of lanes that are not 1. ``has_owner``: whether the lease may claim, NULL if there is nothing to claim.
    ``has_limits``: whether there are any.
    """

    dealt: int = 0
    cut: int | None = None
    given_up: Position | None = None
    ranges: int = 0
    weights: list[tuple[str, str, int]] | None = None
    has_owner: bool | None = None
    is_isolated: bool | None = None
    has_limits: bool = False

    def weight_of(self, queue: str, key: str) -> int:
        """Return how many jobs a turn of the lane has."""
        return next((weight for *lane, weight in self.weights or () if lane == [queue, key]), 1)

    def heads(self, claimed: Sequence[Row]) -> list[LaneHead]:
        """Return the lanes of the claimed jobs, each with their number."""
        numbers = Counter[tuple[int, str, str]](map(_LANE, claimed))
        return [
            LaneHead(priority, queue, key, number, self.weight_of(queue, key))
            for (priority, queue, key), number in numbers.items()
        ]

    def cursor(self, heads: Sequence[LaneHead], look: int, start: Cursor, cursor: Cursor) -> Cursor:
        """Return the cursor after a claim of these jobs, whose rings began at ``start``, when ``look`` jobs were dealt out."""
        ring = in_ring(heads, start)
        if self.cut is not None and ring and ring[-1].priority == ring[0].priority == self.cut and not self.weights:
            cursor = moved_on(cursor, [Turn(self.cut, ring[-1].queue, ring[-1].key)])  # what deal returns, but faster
        else:
            is_cut = self.cut is not None and bool(ring) and ring[-1].priority == self.cut
            cursor = deal(ring, look, cursor, is_cut=is_cut).cursor
        if self.given_up is None:
            return cursor
        priority, _, queue, key = self.given_up
        return moved_on(cursor, [Turn(priority, queue, key)])

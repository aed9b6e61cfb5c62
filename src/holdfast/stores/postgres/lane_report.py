"""What a walk over lanes saw, and the cursor that follows from it and from the jobs it claimed."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from holdfast._core.lanes import Cursor, LaneHead, Turn, deal, in_ring, moved_on
from holdfast.stores.postgres.records import Row

Position = tuple[int, bool, str, str]
"""(priority, whether it lies before the start of its ring, queue, key): a position of a walk; they go in this order."""


class LaneReport(Struct, frozen=True):
    """The last row of ``exchange_lanes.sql``.

    ``dealt``: the jobs dealt out; if fewer were claimed, others had them locked. ``cut``: the priority in whose ring due lanes are left.
    ``given_up``: where the walk ran out of patience. ``ranges``: how many there are up to the priority of the first due job.
    ``weights``: those of lanes that are not 1. ``has_owner``: whether the lease may claim, NULL if there is nothing to claim.
    """

    dealt: int = 0
    cut: int | None = None
    given_up: Position | None = None
    ranges: int = 0
    weights: list[tuple[str, str, int]] | None = None
    has_owner: bool | None = None
    is_isolated: bool | None = None

    def weight_of(self, queue: str, key: str) -> int:
        """Return how many jobs a turn of the lane has."""
        return next((weight for *lane, weight in self.weights or () if lane == [queue, key]), 1)

    def turns_of(self, claimed: Sequence[Row]) -> int:
        """Return the most turns that a lane had in this claim."""
        lanes = Counter((row["queue"], row["key"]) for row in claimed)
        return max(-(-number // self.weight_of(*lane)) for lane, number in lanes.items())

    def cursor(self, claimed: Sequence[Row], look: int, start: Cursor, cursor: Cursor) -> Cursor:
        """Return the cursor after a claim whose rings began at ``start``, when ``look`` jobs were dealt out."""
        numbers = Counter((row["priority"], row["queue"], row["key"]) for row in claimed)
        lanes = [LaneHead(*lane, number, self.weight_of(*lane[1:])) for lane, number in numbers.items()]
        ring = in_ring(lanes, start)
        is_cut = self.cut is not None and bool(ring) and ring[-1].priority == self.cut
        cursor = deal(ring, look, cursor, is_cut=is_cut).cursor
        if self.given_up is None:
            return cursor
        priority, _, queue, key = self.given_up
        return moved_on(cursor, [Turn(priority, queue, key)])

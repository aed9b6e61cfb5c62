"""What a claim takes from lanes that limits count: turns as everywhere, then a slot in each scope."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from holdfast._core.lanes import Cursor, LaneHead, Turn, deal, in_ring, in_turns, looked_at, moved_on
from holdfast._core.limits import CountedBy, Uses, seated

Id = TypeVar("Id", UUID, bytes)
"""A job's id, as the rows of its store have it."""

LaneName = tuple[int, str, str]
"""Priority, queue and key."""


class Candidate(Struct, Generic[Id], frozen=True, order=True):
    """A due job that a limited claim may take; ``at``: when it was due."""

    priority: int
    at: datetime | int
    id: Id
    seat: CountedBy


class LimitedDeal(Struct, Generic[Id], frozen=True):
    """The jobs that the claim takes, by (priority, due time, id), and its next cursor. ``is_whole``: the limits left none out."""

    taken: tuple[Candidate[Id], ...]
    cursor: Cursor
    is_whole: bool


def limited_deal(
    lanes: Mapping[LaneName, Sequence[Candidate[Id]]],
    weights: Mapping[LaneName, int],
    room: int,
    cursor: Cursor,
    uses: Uses,
    *,
    may_be_cut: bool = False,
) -> LimitedDeal[Id]:
    """Return what a claim takes. ``lanes``: of each lane, its first due jobs; no range has more than its limits allow.

    ``may_be_cut``: more lanes may be left in the ring of the last one.
    """
    heads = [LaneHead(*name, len(some), weights[name]) for name, some in lanes.items()]
    looked, is_cut = looked_at(in_ring(heads, cursor), room)
    dealt = deal(looked, room, cursor, is_cut=is_cut or may_be_cut)
    order = in_turns(looked, dealt, cursor)
    found = [lanes[looked[lane].priority, looked[lane].queue, looked[lane].key][nth] for lane, nth in order]
    keeps = seated([candidate.seat for candidate in found], uses)
    taken = tuple(sorted(candidate for candidate, is_kept in zip(found, keeps, strict=True) if is_kept))
    if all(keeps):
        return LimitedDeal(taken, dealt.cursor, is_whole=True)
    last = {looked[lane].priority: looked[lane] for (lane, _), is_kept in zip(order, keeps, strict=True) if is_kept}
    served = [Turn(lane.priority, lane.queue, lane.key) for lane in last.values()]
    return LimitedDeal(taken, moved_on(cursor, served), is_whole=False)

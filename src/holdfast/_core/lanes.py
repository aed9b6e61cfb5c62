"""Which lanes a claim serves, and how many jobs it takes from each. A lane is a (queue, key); lanes of one priority take turns.

The lanes of a priority form a ring, ordered by the bytes of queue and key. A claim goes round it from the lane after the one that was
served last, which the worker remembers in a cursor. Each lane gives its share, a sixteenth of the jobs asked for; the claim looks at as
many lanes as that needs: 16 deep lanes, or more shallow ones. So what a claim costs does not grow with the number of lanes, and every
lane is looked at within ``ceil(lanes / 16)`` claims. Rings with fewer jobs than that are dealt out whole: one job a turn from each lane,
or as many as its weight, until the claim is full. ``room`` is how many jobs a claim may take.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

LANES = 16
"""The deep lanes that share one claim."""
MOST_TURNS = 16
"""The priorities whose turns a cursor remembers."""


class Turn(Struct, frozen=True):
    """The lane of a priority that was served last; ``left``: the jobs that are left of its turn."""

    priority: int
    queue: str
    key: str
    left: int = 0


Cursor = tuple[Turn, ...]
"""The turns of a worker, the newest first; one for each priority."""


class LaneHead(Struct, frozen=True):
    """A lane as a claim sees it. ``due``: how many of its jobs a claim may take now, as far as counted. ``weight``: the jobs of a turn."""

    priority: int
    queue: str
    key: str
    due: int
    weight: int = 1


class Deal(Struct, frozen=True):
    """The jobs to take from each lane, in the order of the lanes given, and the cursor afterwards."""

    takes: tuple[int, ...]
    cursor: Cursor


def share(room: int, weight: int) -> int:
    """Return how many jobs one lane gives a claim of ``room`` while other lanes wait."""
    return -(-room // LANES) * weight


def turns_of(cursor: Cursor) -> dict[int, Turn]:
    """Return the turn of each priority."""
    return {turn.priority: turn for turn in cursor}


def in_ring(lanes: Iterable[LaneHead], cursor: Cursor) -> list[LaneHead]:
    """Return lanes in the order of claims: by priority, then round the ring from the lane whose turn it is."""
    turns = turns_of(cursor)

    def place(lane: LaneHead) -> tuple[int, bool, str, str]:
        turn = turns.get(lane.priority)
        is_before = turn is not None and not _is_reached(lane, turn)
        return lane.priority, is_before, lane.queue, lane.key

    return sorted(lanes, key=place)


def looked_at(ring: Sequence[LaneHead], room: int) -> tuple[list[LaneHead], bool]:
    """Return the lanes, in the order of claims, that a claim looks at, and whether more are left in the ring of the last one."""
    found, number = list[LaneHead](), 0
    for lane in ring:
        if number >= room:
            return found, found[-1].priority == lane.priority
        found.append(lane)
        number += min(lane.due, share(room, lane.weight))
    return found, False


def deal(looked: Sequence[LaneHead], room: int, cursor: Cursor, *, is_cut: bool) -> Deal:
    """Deal out the jobs of the lanes that a claim looked at. ``is_cut``: more lanes are left in the ring of the last one."""
    turns, left, takes, served = turns_of(cursor), room, list[int](), list[Turn]()
    last_priority = looked[-1].priority if looked else 0
    for priority, group in groupby(looked, key=lambda lane: lane.priority):
        lanes = list(group)
        is_cut_here = is_cut and priority == last_priority
        due = [min(lane.due, share(room, lane.weight) if is_cut_here else left) for lane in lanes]
        begun = [_begun(lane, turns.get(priority)) for lane in lanes]
        numbers, last = _in_rounds(due, [lane.weight for lane in lanes], begun, left)
        takes += numbers
        left -= sum(numbers)
        if last is not None:
            if is_cut_here:
                last = max(place for place, number in enumerate(numbers) if number)
            lane = lanes[last]
            rest = -(begun[last] + numbers[last]) % lane.weight
            if is_cut_here and begun[last]:
                # A turn that ends in this claim is over: rounded up to the next one, claims of two jobs would stay in such a lane.
                rest = max(0, lane.weight - begun[last] - numbers[last])
            served.append(Turn(priority, lane.queue, lane.key, rest))
    return Deal(tuple(takes), moved_on(cursor, served))


def in_turns(looked: Sequence[LaneHead], dealt: Deal, cursor: Cursor) -> list[tuple[int, int]]:
    """Return the jobs dealt out, each as its lane and its position there, in the order of turns."""
    turns = turns_of(cursor)
    order = [
        (lane.priority, (nth + _begun(lane, turns.get(lane.priority))) // lane.weight, place, nth)
        for place, (lane, number) in enumerate(zip(looked, dealt.takes, strict=True))
        for nth in range(number)
    ]
    return [(place, nth) for _, _, place, nth in sorted(order)]


def moved_on(cursor: Cursor, served: Sequence[Turn]) -> Cursor:
    """Return the cursor after these turns."""
    new = turns_of(tuple(served))
    return (*served, *(turn for turn in cursor if turn.priority not in new))[:MOST_TURNS]


def weight_of(queue_weight: int, key_weights: Mapping[str, int], key: str) -> int:
    """Return how many jobs one turn of a lane has."""
    return queue_weight * key_weights.get(key, 1)


def _in_rounds(due: Sequence[int], weights: Sequence[int], begun: Sequence[int], room: int) -> tuple[list[int], int | None]:
    """Return how many jobs each lane gives, dealt out in turns, and the lane of the last one."""
    numbers, last, begun = [0] * len(due), None, list(begun)
    while room > 0 and (waiting := [place for place, most in enumerate(due) if numbers[place] < most]):
        whole = min((due[place] - numbers[place]) // weights[place] for place in waiting)
        whole = min(whole, room // sum(weights[place] for place in waiting))
        if whole > 0 and not any(begun[place] for place in waiting):
            for place in waiting:
                numbers[place] += whole * weights[place]
                room -= whole * weights[place]
            last = waiting[-1]
            continue
        for place in waiting:
            turn = room if len(waiting) == 1 else weights[place] - begun[place]
            number = min(turn, due[place] - numbers[place], room)
            begun[place] = 0
            if number > 0:
                numbers[place] += number
                room -= number
                last = place
    return numbers, last


def _is_reached(lane: LaneHead, turn: Turn) -> bool:
    """Return whether a walk from this turn on meets the lane before it goes round."""
    here, there = (lane.queue, lane.key), (turn.queue, turn.key)
    return here >= there if turn.left else here > there


def _begun(lane: LaneHead, turn: Turn | None) -> int:
    """Return how many jobs of the lane's turn were taken before."""
    is_its_turn = turn is not None and turn.left > 0 and (turn.queue, turn.key) == (lane.queue, lane.key)
    return max(0, lane.weight - turn.left) if turn is not None and is_its_turn else 0

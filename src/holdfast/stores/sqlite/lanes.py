"""Look at the lanes of a claim, and deal out the jobs of the claim among them by the rule of ``_core/lanes``.

Looking takes no lock. A look is one statement, which passes a bounded number of lanes; lanes in which nothing is due are passed by looking
again. A claim that comes to its end before it has gone all the way round remembers where, for the next claim of that lease.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.lanes import Cursor, LaneHead, Turn, deal, looked_at, moved_on, share
from holdfast._core.requests import ClaimRequest
from holdfast._core.text import json_text
from holdfast.databases.sqlite.values import Values
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite.database import StoreDatabase

LOOKS = 16
"""The looks of a claim that finds no job."""
STEPS, MORE_STEPS = 64, 512
"""The lanes of one look in which nothing is due: of the first look, which most claims need alone, and of further ones."""
_ROUNDS = 64
_BEFORE_ALL = -(2**63) + 1


class Place(NamedTuple):
    """The place of a lane in the order in which a claim meets lanes. ``mode``: see ``look.sql``."""

    priority: int
    mode: int
    queue: str
    key: str


class Walk(NamedTuple):
    """Where the walk of a task goes on: after ``seen`` jobs, with the lane that is judged next. It is a row of ``:walks``."""

    task: str
    seen: int = 0
    priority: int = _BEFORE_ALL
    queue: str = ""
    key: str = ""
    mode: int = 3
    weight: int = 0

    @property
    def place(self) -> Place:
        """The place of the lane that is judged next."""
        return Place(self.priority, self.mode, self.queue, self.key)


class Lane(Struct):
    """A lane with due jobs. ``due``: how many, by task. ``is_exact``: no more are due than are counted."""

    place: Place
    weight: int
    due: dict[str, int]
    is_exact: bool = True

    def has_just(self, number: int) -> bool:
        """Return whether exactly this number of jobs is due."""
        return self.is_exact and sum(self.due.values()) == number

    def head(self) -> LaneHead:
        """Return the lane as the rule sees it."""
        return LaneHead(self.place.priority, self.place.queue, self.place.key, sum(self.due.values()), self.weight)


class View(Struct):
    """The lanes that a claim saw, in its order, up to ``end``; None: it went all the way round, or saw enough."""

    lanes: list[Lane]
    end: Place | None = None


class Dealt(Struct):
    """The jobs to take from each lane. ``least``: how many are there for certain."""

    takes: list[tuple[Lane, int]]
    cursor: Cursor
    least: int = 0

    def ranges(self) -> list[tuple[str, int, str, str, int]]:
        """Return ``:ranges``: of each task of each lane how many jobs may be taken."""
        return [
            (task, lane.place.priority, lane.place.queue, lane.place.key, number)
            for lane, number in self.takes
            for task in lane.due
            if number > 0
        ]

    def is_even(self) -> bool:
        """Return whether each lane gives jobs of one task, and the same number as others, or one less, or all it has."""
        given = [(lane, number) for lane, number in self.takes if number]
        most = max((number for _, number in given), default=0)
        return all(len(lane.due) == 1 and (number >= most - 1 or lane.has_just(number)) for lane, number in given)


class _Round(Struct, frozen=True):
    """A round that found nothing yet: the cursor that was answered, the one from which the round began, and how it goes on."""

    scope: tuple[object, ...]
    answered: Cursor
    began: Cursor
    walks: list[Walk]


class Rounds:
    """What is remembered of the leases that claim through one store: unfinished rounds, and which of them last saw several lanes."""

    def __init__(self) -> None:
        self._of: dict[UUID, _Round] = {}
        self._last_with_several: UUID | None = None

    def may_be_single(self, lease: UUID) -> bool:
        """Return whether it is worth asking first whether there is just one lane: not after this lease saw several."""
        return self._last_with_several != lease

    def note(self, lease: UUID, lanes: int) -> None:
        """Remember how many lanes a look has seen."""
        if lanes > 1:
            self._last_with_several = lease
        elif self._last_with_several == lease:
            self._last_with_several = None

    def resumed(self, part: ClaimRequest) -> tuple[ClaimRequest, list[Walk]]:
        """Return the request from the beginning of its lease's unfinished round, and how that goes on; else a new round."""
        known = self._of.pop(part.lease, None)
        if known is None or known.answered != part.cursor or known.scope != _scope(part):
            return part, [Walk(task) for task in part.tasks]
        return structs.replace(part, cursor=known.began), known.walks

    def remember(self, part: ClaimRequest, answered: Cursor, walks: list[Walk]) -> None:
        """Remember how the round of a request goes on, once the request comes with the cursor that is answered now."""
        while len(self._of) >= _ROUNDS:
            del self._of[next(iter(self._of))]
        self._of[part.lease] = _Round(_scope(part), answered, part.cursor, walks)


def _scope(part: ClaimRequest) -> tuple[object, ...]:
    return tuple(part.tasks), part.queues, part.isolated, part.kind


class Look:
    """The walks of a claim round the lanes."""

    def __init__(
        self, database: StoreDatabase, part: ClaimRequest, walks: list[Walk], *, is_settled: bool, caps: str | None = None
    ) -> None:
        self._database, self._part, self._began = database, part, {walk.task: walk for walk in walks}
        self._lanes: dict[Place, Lane] = {}
        self._counted = min(part.room, 2 * share(part.room, 1))
        self._values: Values = {
            **packing.claimable((), part.queues, part.isolated),
            "lease": part.lease.bytes,
            "voids": part.voids,
            "turns": json_text([(turn.priority, turn.queue, turn.key, turn.left) for turn in part.cursor]),
            "most": part.room,
            "share": share(part.room, 1),
            "counted": self._counted,
            "is_settled": is_settled,
            "caps": caps,
        }
        self.walks = walks

    def view(self) -> View:
        """Look until the claim has seen enough lanes, or all, or for long enough."""
        for steps in (self._part.room + STEPS, *(MORE_STEPS,) * (LOOKS - 1)):
            self.walks = self._steps(steps)
            end = min((walk.place for walk in self.walks), default=None)
            lanes = [self._lanes[place] for place in sorted(self._lanes) if end is None or place < end]
            if end is None or lanes:
                break
        return View(lanes, end)

    def rest(self) -> list[Walk]:
        """Return how the round goes on, if no lane before the end of the view had jobs; a task with later ones starts again."""
        found = {task for lane in self._lanes.values() for task in lane.due}
        return [walk for walk in self.walks if walk.task not in found] + [self._began[task] for task in sorted(found)]

    def _steps(self, steps: int) -> list[Walk]:
        cut = list[Walk]()
        for row in self._database.read("look", **self._values, walks=json_text(self.walks), steps=steps):
            task, step, seen, priority, queue, key, mode, weight, due, *following = row
            if due > 0:
                self._add(task, Place(priority, mode, queue, key), weight, due)
            if step == steps and following[0] is not None:
                cut.append(Walk(task, seen, *following))
        return cut

    def _add(self, task: str, place: Place, weight: int, due: int) -> None:
        lane = self._lanes.setdefault(place, Lane(place, weight, {}))
        lane.due[task] = due
        most = self._counted if weight == 1 else self._part.room
        lane.is_exact = lane.is_exact and (due < most or most == self._part.room)


def dealt_out(database: StoreDatabase, view: View, part: ClaimRequest) -> Dealt:
    """Deal out what a claim may take among the lanes that it saw.

    Lanes are counted up to twice their share: enough where more lanes are left, or where the whole ring is dealt out and has eight.
    In a smaller ring, those that would give all that was counted are counted again.
    """
    looked, is_cut = looked_at([lane.head() for lane in view.lanes], part.room)
    is_cut = is_cut or may_be_cut(looked, view.end, part.room)
    lanes, most = view.lanes[: len(looked)], 2 * share(part.room, 1)
    while True:
        dealt = deal(looked, part.room, part.cursor, is_cut=is_cut)
        takes, whole = list(dealt.takes), len(looked)
        if is_cut:
            whole = next(place for place, lane in enumerate(looked) if lane.priority == looked[-1].priority)
        unsure = [place for place in range(whole) if not lanes[place].is_exact and takes[place] >= looked[place].due]
        if len(unsure) == 1 and _is_last(looked, unsure[0], dealt.cursor):
            takes[unsure[0]] += part.room - sum(takes)
        elif unsure:
            most = min(part.room, max(2 * most, -(-part.room // len(unsure)) + 1))
            _count_again(database, [lanes[place] for place in unsure], part, most)
            looked = [lane.head() for lane in lanes]
            continue
        return Dealt(list(zip(lanes, takes, strict=True)), dealt.cursor, sum(dealt.takes))


def cursor_after(view: View, dealt: Cursor) -> Cursor:
    """Return the cursor of a claim that is not full: behind all lanes that it saw."""
    return dealt if view.end is None else moved_on(dealt, [Turn(view.end.priority, view.end.queue, view.end.key)])


def may_be_cut(looked: Sequence[LaneHead], end: Place | None, room: int) -> bool:
    """Return whether a claim that saw enough ended its look in the ring of its last lane: more lanes may be left there."""
    if end is None or not looked or looked[-1].priority != end.priority:
        return False
    return sum(min(lane.due, share(room, lane.weight)) for lane in looked) >= room


def _is_last(looked: Sequence[LaneHead], place: int, cursor: Cursor) -> bool:
    """Return whether this lane, if it had more jobs, would be given all that is left to deal out, and the last job too."""
    lane = looked[place]
    return lane.weight == 1 and lane.priority == looked[-1].priority and Turn(lane.priority, lane.queue, lane.key) in cursor


def _count_again(database: StoreDatabase, lanes: Sequence[Lane], part: ClaimRequest, most: int) -> None:
    asked = [(lane, task) for lane in lanes for task in lane.due]
    ranges = [(task, lane.place.priority, lane.place.queue, lane.place.key) for lane, task in asked]
    values = packing.claimable((), part.queues, part.isolated)
    counts = database.read("due_counts", **values, ranges=json_text(ranges), most=most)
    for lane in lanes:
        lane.is_exact = True
    for (lane, task), (due,) in zip(asked, counts, strict=True):
        lane.due[task] = due
        lane.is_exact = lane.is_exact and (due < most or most == part.room)

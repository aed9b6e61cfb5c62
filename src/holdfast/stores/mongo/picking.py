"""The pick of a claim: which due jobs it takes, by the lanes in which they wait. It writes nothing, and its reads are judged again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.book.rows import KeptLimit, Range
from holdfast._core.lanes import LANES, Cursor, Deal, LaneHead, deal, in_ring, looked_at, share, weight_of
from holdfast._core.limited_claim import LaneName
from holdfast._core.limits import CountedBy, Scope, is_limited
from holdfast._core.requests import ClaimRequest, IsolatedJobs, NewLease, QueueSettings
from holdfast._ports.clock import Randomness
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.stores.mongo.documents import lines_between, range_in
from holdfast.stores.mongo.loading import unexpired
from holdfast.stores.mongo.names import Names

MOST_LANES = 64
"""The lanes whose first jobs one command reads at most."""


class Picked(Struct, frozen=True):
    """What a claim takes: the jobs to start at once, those to keep claimed, and the cursor after them."""

    running: tuple[UUID, ...]
    claimed: tuple[UUID, ...]
    lines: frozenset[str]
    cursor: Cursor


class Early(Struct, frozen=True):
    """A job that was taken from a line before the claim has looked. ``base``: the number before its claim's."""

    job: Document
    line: str
    base: int


class View(Struct, frozen=True):
    """What a claim reads first. ``lease``: ``None`` if it takes nothing. ``ruling``: paused queues and limits, as they are stored.

    ``heads``: the first due jobs of the lines from which the last claim took some, as many as the claim wants.
    """

    now: datetime
    lease: NewLease | None
    lines: tuple[str, ...]
    paused: frozenset[str]
    settings: Mapping[str, QueueSettings]
    limits: Mapping[Scope, KeptLimit]
    ruling: Sequence[object]
    heads: Mapping[str, Sequence[Document]]

    def weight(self, lane: LaneName) -> int:
        _, queue, key = lane
        chosen = self.settings.get(queue, QueueSettings())
        return weight_of(chosen.weight, chosen.key_weights, key)

    def others_of(self, early: Early) -> Sequence[Document]:
        """Return the due jobs that were read of the same line."""
        return [each for each in self.heads.get(early.line, ()) if each["_id"] != early.job["_id"]]

    def without(self, early: Early) -> "View":
        """Return what is left to take after a job that was taken early."""
        return structs.replace(self, heads={early.line: self.others_of(early)})

    def cursor_after(self, early: Early, cursor: Cursor) -> Cursor:
        """Return the cursor after a job that was taken early, from the only lane that had some."""
        _, queue, key, priority = range_in(early.line)
        lane = LaneHead(priority, queue, key, 1, self.weight((priority, queue, key)))
        return deal([lane], 1, cursor, is_cut=False).cursor

    def may_take(self, which: Range, queues: Sequence[str] | None) -> bool:
        task, queue, key, _ = which
        is_wanted = queues is None or queue in queues
        return is_wanted and queue not in self.paused and not is_limited(CountedBy(task, queue, key), self.limits)


class Picking:
    """Picks of jobs that no limit counts."""

    def __init__(self, database: MongoDatabase, names: Names, chance: Randomness) -> None:
        self.database, self.names, self.chance = database, names, chance

    async def pick(self, view: View, request: ClaimRequest, reach: int) -> Picked:
        """Return what a claim takes. ``reach``: it looks at that many times the jobs it takes, because other workers take the first."""
        if request.ids is not None:
            return await self._pick_delivered(view, request)
        heads, cursor, chosen, lines = self._heads(view, request, reach), request.cursor, list[list[UUID]](), set[str]()
        for part in request.parts():
            looked, dealt = await self._deal(heads, part, cursor)
            cursor, ids = dealt.cursor, list[tuple[int, datetime, UUID]]()
            for lane, number in zip(looked, dealt.takes, strict=True):
                taken = heads.take(lane, number)
                lines |= {each["line"] for each in taken}
                ids += [(lane.priority, each["available_at"], each["_id"]) for each in taken]
            chosen.append([job for *_, job in sorted(ids)])
        running = chosen[0] if request.limit > 0 and chosen else []
        claimed = chosen[-1] if request.prefetch > 0 and chosen else []
        return Picked(tuple(running), tuple(claimed), frozenset(lines), cursor)

    def _heads(self, view: View, request: ClaimRequest, reach: int) -> "_Heads":
        lanes = dict[LaneName, list[str]]()
        for line in view.lines:
            which = range_in(line)
            if view.may_take(which, request.queues):
                _, queue, key, priority = which
                lanes.setdefault((priority, queue, key), []).append(line)
        return _Heads(self, view, lanes, request.room, reach)

    async def _deal(self, heads: "_Heads", part: ClaimRequest, cursor: Cursor) -> tuple[Sequence[LaneHead], Deal]:
        """Return the lanes that a part of a claim looks at, and what each gives; lanes that give all that was read are read further."""
        ring = in_ring([LaneHead(*lane, 0, heads.view.weight(lane)) for lane in heads.lanes], cursor)
        await heads.read_ring(ring, part.room)
        while True:
            looked, is_cut = looked_at(in_ring(heads.known(), cursor), part.room)
            last = looked[-1].priority if looked else None
            is_cut = is_cut or any(lane.priority == last and not heads.is_read(lane) for lane in ring)
            dealt = deal(looked, part.room, cursor, is_cut=is_cut)
            bounded = [each.priority == last and is_cut for each in looked]
            short = [
                lane
                for lane, number, is_bounded in zip(looked, dealt.takes, bounded, strict=True)
                if heads.may_give_more(lane, number) and not (is_bounded and number >= share(part.room, lane.weight))
            ]
            if not short:
                return looked, dealt
            await heads.read_further(short)

    async def _pick_delivered(self, view: View, request: ClaimRequest) -> Picked:
        which = {
            "_id": {"$in": [*(request.ids or ())]},
            "line": {"$exists": True},
            "available_at": {"$lte": view.now},
            **unexpired(view.now),
        }
        found = await self.database.find(self.names.jobs, which, concern="local", projection={"line": 1, "available_at": 1})
        spans = spans_of(request)
        rows = [(range_in(each["line"]), each) for each in found if any(a < each["line"] < b for a, b in spans)]
        rows = [(which, each) for which, each in rows if view.may_take(which, request.queues)]
        rows.sort(key=lambda row: (row[0][3], row[1]["available_at"], row[1]["_id"]))
        ids = tuple(each["_id"] for _, each in rows[: request.room])
        lines = frozenset(each["line"] for _, each in rows)
        return Picked(ids[: request.limit], ids[request.limit :], lines, request.cursor)


class _Heads:
    """The first due jobs of lanes, as far as they were read. ``lanes``: the lines of each lane."""

    def __init__(self, picking: Picking, view: View, lanes: Mapping[LaneName, Sequence[str]], room: int, reach: int) -> None:
        self._database, self._names, self._chance = picking.database, picking.names, picking.chance
        self.view, self.lanes = view, lanes
        self._room, self._reach = room, reach
        self._due, self._depths, self._skips = dict[LaneName, list[Document]](), dict[LaneName, int](), dict[LaneName, int]()
        self._cut, self._taken = set[LaneName](), set[UUID]()
        self._sizes = dict[int, int]()
        for name, lines in lanes.items():
            self._sizes[name[0]] = self._sizes.get(name[0], 0) + 1
            if view.heads.keys() >= {*lines}:
                self._depths[name], self._due[name] = room, _merged([view.heads[line] for line in lines])

    def known(self) -> list[LaneHead]:
        """Return the lanes that were read and have due jobs."""
        return [LaneHead(*lane, len(jobs), self.view.weight(lane)) for lane, jobs in self._due.items() if jobs]

    def is_read(self, lane: LaneHead) -> bool:
        """Return whether the jobs of a lane were read."""
        return _name(lane) in self._due

    def may_give_more(self, lane: LaneHead, number: int) -> bool:
        """Return whether all jobs that were read of a lane are taken, and it may have more."""
        name = _name(lane)
        return number == len(self._due[name]) and name in self._cut

    def take(self, lane: LaneHead, number: int) -> Sequence[Document]:
        """Take the first jobs of a lane that were read."""
        name, due = _name(lane), self._due[_name(lane)]
        taken, self._due[name] = due[:number], due[number:]
        self._taken.update(each["_id"] for each in taken)
        if taken and name in self._cut:  # the next part of the claim reads it again
            del self._due[name]
        return taken

    async def read_ring(self, ring: Sequence[LaneHead], room: int) -> None:
        """Read the first due jobs of lanes in the order of claims, until they are enough."""
        number, place, most = 0, 0, LANES
        while place < len(ring) and number < room:
            some = [*takewhile(lambda lane: not self.is_read(lane), ring[place : place + most])]
            if some:
                await self._read(some)
                most = min(2 * most, MOST_LANES)
            else:
                some = [ring[place]]
            number += sum(self._given(each, room) for each in some)
            place += len(some)

    async def read_further(self, some: Sequence[LaneHead]) -> None:
        """Read four times as many jobs of lanes."""
        for lane in some:
            self._depths[_name(lane)] *= 4
        await self._read(some)

    def _given(self, lane: LaneHead, room: int) -> int:
        return min(len(self._due[_name(lane)]), share(room, lane.weight))

    def _depth(self, lane: LaneHead) -> int:
        """Return how many jobs of a lane to read: twice what it gives if all lanes of its priority give as many."""
        alike = -(-2 * self._room // self._sizes[lane.priority])
        depth = self._depths.setdefault(_name(lane), max(share(self._room, lane.weight), alike))
        return min(depth, self._room) + len(self._taken)

    def _skip(self, lane: LaneHead) -> int:
        """Return how many of the first jobs of a lane to leave to the workers that take these."""
        farthest = self._depth(lane) * (self._reach - 1)
        return self._skips.setdefault(_name(lane), round(farthest * (self._chance.jitter() + 1) / 2) if farthest else 0)

    async def _read(self, some: Sequence[LaneHead]) -> None:
        """Read the first jobs of lanes, or a random run of jobs while other workers take the first."""
        await self._read_from(some)
        short = [lane for lane in some if self._skip(lane) and len(self._due[_name(lane)]) < self._depth(lane)]
        if short:
            self._skips.update((_name(lane), 0) for lane in short)
            await self._read_from(short)

    async def _read_from(self, some: Sequence[LaneHead]) -> None:
        depths = {line: (self._skip(each), self._depth(each)) for each in some for line in self.lanes[_name(each)]}
        first, *others = [_head_of(self.view.now, line, *span) for line, span in depths.items()]
        pipeline = [*first, *({"$unionWith": {"coll": self._names.jobs, "pipeline": each}} for each in others)]
        found = dict[str, list[Document]]()
        for each in await self._database.find(self._names.jobs, pipeline, concern="local"):
            found.setdefault(each["line"], []).append(each)
        for lane in some:
            name, depth = _name(lane), self._depth(lane)
            jobs = _merged([found.get(line, []) for line in self.lanes[name]])
            self._cut.discard(name)
            if len(jobs) >= depth and min(self._depths[name], self._room) < self._room:
                self._cut.add(name)
            self._due[name] = [each for each in jobs[:depth] if each["_id"] not in self._taken]


def spans_of(request: ClaimRequest) -> list[tuple[str, str]]:
    """Return the strings between which the lines are from which a request takes jobs."""
    kinds = {IsolatedJobs.EXCLUDE: (False,), IsolatedJobs.ONLY: (True,), IsolatedJobs.INCLUDE: (False, True)}[request.isolated]
    return [lines_between(task, is_isolated=each) for task in request.tasks for each in kinds]


def first_due(line: str, now: Any, most: int) -> list[Document]:
    """Return the pipeline for the first due jobs of a line. ``now``: the expression by which the server knows the time."""
    return [
        {"$match": {"line": line, "$expr": {"$lte": ["$available_at", now]}}},
        {"$sort": {"available_at": 1, "_id": 1}},
        {"$limit": most},
        {"$project": {"line": 1, "available_at": 1, "expiring": 1}},
    ]


def _merged(read: Sequence[Sequence[Document]]) -> list[Document]:
    return [*read[0]] if len(read) == 1 else sorted((job for each in read for job in each), key=_position)


def _name(lane: LaneHead) -> LaneName:
    return lane.priority, lane.queue, lane.key


def _position(job: Document) -> tuple[datetime, UUID]:
    return job["available_at"], job["_id"]


def _head_of(now: datetime, line: str, skip: int, most: int) -> list[Document]:
    return [
        {"$match": {"line": line, "available_at": {"$lte": now}, **unexpired(now)}},
        {"$sort": {"available_at": 1, "_id": 1}},
        *([{"$skip": skip}] if skip else []),
        {"$limit": most},
        {"$project": {"line": 1, "available_at": 1}},
    ]

"""Claims within limits: the limits are locked and counted, and jobs chosen and taken, in one transaction. So limits hold exactly.

It is short, because all other claims within these limits wait for it. If it must wait itself for longer than a second, it takes nothing.
A worker that freezes in it loses it after a few seconds. Claims from other lanes do none of this.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from typing import Final
from uuid import UUID

from msgspec import Struct, json, structs

from holdfast._core.lanes import Cursor, LaneHead, Turn, in_ring, looked_at, moved_on, share
from holdfast._core.lifecycle import Transition
from holdfast._core.limited_claim import Candidate, LaneName, limited_deal
from holdfast._core.limits import CountedBy, Limit, Scope, ScopeKind, Uses, ready_after
from holdfast._core.requests import ClaimRequest
from holdfast.errors import StoreBusy
from holdfast.stores.postgres import limit_uses as limits
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.claim_cursor import ClaimCursor, LastClaimed, Range, kind_of
from holdfast.stores.postgres.claiming import MISSES, MOST_WALKS, Claimed, Round, Rows
from holdfast.stores.postgres.lane_report import Position
from holdfast.stores.postgres.lane_walk import Walk, queues_of
from holdfast.stores.postgres.members import MemberMoves

SHORT: Final = (
    "SET LOCAL lock_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = '3s'; SET LOCAL enable_bitmapscan = off"
)
"""Settings of the transaction. A bitmap scan would not mark the index entries of deleted rows, and each claim would read them all."""

_NEW = ClaimCursor()

Fetch = Callable[..., Awaitable[Rows]]


class Seen(Struct, frozen=True):
    """The lanes that a walk saw and in which limits allow more jobs, and where it gave up.

    ``is_whole``: it saw all lanes, each from its beginning.
    """

    lanes: Mapping[LaneName, Sequence[Candidate[UUID]]] = {}
    weights: Mapping[LaneName, int] = {}
    given_up: Position | None = None
    is_whole: bool = True

    def may_be_cut(self, room: int) -> bool:
        """Return whether more lanes may be left in the ring of the last one, because the walk gave up there."""
        if self.given_up is None or max(priority for priority, _, _ in self.lanes) != self.given_up[0]:
            return False
        return sum(min(len(found), share(room, self.weights[name])) for name, found in self.lanes.items()) >= room

    def is_cut(self, room: int, cursor: Cursor) -> bool:
        """Return whether a claim takes the shares of some lanes, and needs no more of any."""
        heads = [LaneHead(*name, len(found), self.weights[name]) for name, found in self.lanes.items()]
        looked, is_cut = looked_at(in_ring(heads, cursor), room)
        return is_cut and looked[0].priority == looked[-1].priority

    def is_short(self, turns: int, room: int) -> bool:
        """Return whether a lane may have more jobs than those that were read, which are those of ``turns``."""
        return any(turns * self.weights[name] <= len(found) < room for name, found in self.lanes.items())


class LimitedClaiming(MemberMoves):
    """The part of the store that claims within limits."""

    async def _exchange_within_limits(
        self, transitions: Sequence[Transition], request: ClaimRequest
    ) -> tuple[frozenset[int], Claimed]:
        """Settle, and claim within limits, in one transaction; while others have the limits locked for long, only settle."""
        try:
            return await self._retrying(partial(self._settle_and_claim, transitions, request), "exchange")
        except StoreBusy:
            settled, refused = await self._settle(transitions)
            return refused, Claimed(settled, request.cursor, has_limits=self._has_limits)

    async def _settle_and_claim(self, transitions: Sequence[Transition], request: ClaimRequest) -> tuple[frozenset[int], Claimed]:
        async with self._transaction(settings=SHORT) as connection:
            fetch = partial(self._fetch_on, connection)
            settled, refused = await _settle_on(fetch, transitions)
            answer = Claimed(settled, request.cursor)
            parts = request.parts() if request.tasks else ()
            kept, is_lone = await self._lock_limits(fetch, request) if parts else ({}, False)
            for part in parts if kept else ():
                uses = limits.uses_of(kept, await fetch("limit_uses"))
                found = await self._claim_within(fetch, structs.replace(part, cursor=answer.cursor), uses, is_lone=is_lone)
                answer.cursor, answer.is_whole = found.cursor, found.is_whole
                answer.claims += found.claims
        answer.is_whole = answer.is_whole or len(answer.claims) == request.room
        answer.has_limits = self._has_limits
        return refused, answer

    async def _lock_limits(self, fetch: Fetch, request: ClaimRequest) -> tuple[dict[Scope, Limit], bool]:
        """Lock the lease and the limits that may count the jobs of a claim; return these, and whether the lease is isolated.

        A second claim of an isolated lease waits here, and then sees the job that the first one took.
        """
        where = sorted(request.tasks), queues_of(request)
        if found := await fetch("lock_limits", request.lease, False, request.voids, *where):
            self._has_limits = True
            return limits.kept_of(found), False
        ((self._has_limits, is_isolated),) = await fetch("has_limits", request.lease)
        if not (self._has_limits and is_isolated and await fetch("isolated_lease", request.lease)):
            return {}, False
        if await fetch("lease_has_jobs", request.lease):
            return {}, True
        return limits.kept_of(await fetch("lock_limits", request.lease, True, request.voids, *where)), True

    async def _claim_within(self, fetch: Fetch, request: ClaimRequest, uses: Uses, *, is_lone: bool) -> Claimed:
        """Claim jobs within these limits, over all lanes that they count, in as few walks as find some."""
        kind, round_ = kind_of(request), self._rounds.pop((kind_of(request), request.cursor), Round(request.cursor))
        for number in range(MOST_WALKS):
            known, most_missed, room = self._cursors.get(kind, _NEW), MISSES[number > 0], request.room
            hints, turns = known.seen(self._clock.monotonic()), max(share(room, 1), known.turns)
            seen = await _look(fetch, request, uses, (most_missed, turns, round_, hints))
            if seen.is_short(turns, room) and not seen.is_cut(room, round_.start):
                seen = await _look(fetch, request, uses, (most_missed, room, round_, hints))
            if seen.lanes:
                return await self._choose(fetch, structs.replace(request, cursor=round_.start), uses, seen, is_lone=is_lone)
            if seen.is_whole:
                return Claimed(0, round_.start)
            self._remember(kind, _NEW)
            round_ = Round(round_.start, seen.given_up)
        cursor = _behind(round_.start, round_.at)
        self._rounds[kind, cursor] = round_
        return Claimed(0, cursor, is_whole=False)

    async def _choose(self, fetch: Fetch, request: ClaimRequest, uses: Uses, seen: Seen, *, is_lone: bool) -> Claimed:
        """Choose jobs from these lanes and take them. A job that another session has locked is left, and takes no start of a rate."""
        room, cut = request.room, seen.may_be_cut(request.room)
        dealt = limited_deal(seen.lanes, seen.weights, room, request.cursor, uses, may_be_cut=cut)
        values = *packing.settling(()), *packing.claiming(request, is_isolated=is_lone)
        rows = await fetch("claim due_chosen", *values, [candidate.id for candidate in dealt.taken])
        if paid := ready_after([CountedBy(row["task"], row["queue"], row["key"]) for row in rows], uses):
            await fetch("set_rates", *limits.rates_of(paid))
        cursor = self._cursors.get(kind_of(request), _NEW)
        is_full, now = len(rows) == room, self._clock.monotonic()
        turns = 0 if seen.is_cut(room, request.cursor) else room
        self._remember(kind_of(request), cursor.after_limited(rows, now, turns) if is_full else _NEW)
        is_all = dealt.is_whole and seen.is_whole and len(rows) == len(dealt.taken)
        after = dealt.cursor if is_full or not dealt.is_whole else _behind(dealt.cursor, seen.given_up)
        return Claimed(0, after, answers.claims_of(rows, request), is_whole=is_full or is_all)


async def _settle_on(fetch: Fetch, transitions: Sequence[Transition]) -> tuple[int, frozenset[int]]:
    """Settle transitions; return how many were applied, and the claim numbers of those whose precondition failed."""
    settled, refused = 0, frozenset[int]()
    plain, rare = packing.split(transitions)
    if plain:
        ((settled,),) = await fetch("settle_plain", *packing.settling(plain))
    if rare:
        ((number, found, *_),) = await fetch("settle", *packing.settling(rare), packing.rare_kinds(rare), [])
        settled, refused = settled + number, frozenset(found)
    return settled, refused


async def _look(
    fetch: Fetch, request: ClaimRequest, uses: Uses, how: tuple[int, int, Round, Mapping[Range, LastClaimed]]
) -> Seen:
    """Return the lanes in which the limits allow more jobs, as far as one walk sees them."""
    tasks, queues = _where(request, uses)
    if not tasks or queues == ():
        return Seen()
    (most_missed, turns, round_, hints), room = how, request.room
    asked = structs.replace(request, queues=queues)
    caps = limits.caps_of(uses)
    walk = Walk(look=room, misses=most_missed, turns=turns, start=round_.start, at=round_.at, seen=hints, caps=caps)
    *rows, last = await fetch("limited_lanes", tasks, *packing.takes(request.isolated), *walk.parameters(asked))
    lanes, weights = dict[LaneName, list[Candidate[UUID]]](), dict[LaneName, int]()
    for task, priority, queue, key, weight, due_ats, ids, _ in rows:
        name, seat = (priority, queue, key), CountedBy(task, queue, key)
        due = [Candidate(priority, at, job, seat) for at, job in zip(due_ats, ids, strict=True)]
        lanes[name] = nsmallest(room, [*lanes[name], *due]) if name in lanes else due
        weights[name] = weight
    given_up = json.decode(last["given_up"] or "null", type=Position | None)
    return Seen(lanes, weights, given_up, is_whole=given_up is None and not hints)


def _where(request: ClaimRequest, uses: Uses) -> tuple[list[str], tuple[str, ...] | None]:
    """Return the tasks and queues of lanes in which limits may allow more jobs; None: all queues."""
    full = {scope for scope, use in uses.items() if limits.room_of(use) == 0}
    tasks = sorted(task for task in request.tasks if Scope(ScopeKind.TASK, task) not in full)
    if Scope(ScopeKind.ALL) in full:
        return [], None
    if Scope(ScopeKind.ALL) in uses or any(Scope(ScopeKind.TASK, task) in uses for task in tasks):
        return tasks, request.queues
    return tasks, tuple(scope.name for scope in uses if scope.kind is ScopeKind.QUEUE and scope not in full)


def _behind(cursor: Cursor, position: Position | None) -> Cursor:
    """Return the cursor behind the position at which a walk gave up."""
    if position is None:
        return cursor
    priority, _, queue, key = position
    return moved_on(cursor, [Turn(priority, queue, key)])

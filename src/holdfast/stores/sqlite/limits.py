"""Limits in a file: their verbs, and the choice of jobs within them.

A claim within limits counts, chooses and takes under the lock of the file, in one transaction, so that limits hold exactly. Claims of
other lanes do not do so: there no Python runs while the file is locked.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from holdfast._core.audit import AuditNote
from holdfast._core.limited_claim import Candidate, LaneName, LimitedDeal, limited_deal
from holdfast._core.limits import (
    Counted,
    CountedBy,
    Holder,
    Limit,
    LimitView,
    Scope,
    ScopeKind,
    Use,
    Uses,
    room_for,
    view_of,
    wait_for,
)
from holdfast._core.origin import Origin
from holdfast._core.requests import ClaimRequest
from holdfast._core.text import json_text
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import Values
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite.audited import audited
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.lanes import View
from holdfast.stores.sqlite.records import Row


class LimitVerbs:
    """The part of the store that has the verbs of ``Limits`` in ``_ports.store``."""

    _thread: ConnectionThread[StoreDatabase]

    async def limits(self, key: str | None = None) -> tuple[LimitView, ...]:
        return await self._thread.run(lambda database: _views(database, key))

    async def set_limit(self, scope: Scope, limit: Limit | None, origin: Origin, *, by: AuditNote | None = None) -> None:
        names: Values = {"scope": scope.kind.value, "named": scope.name}

        def write(database: StoreDatabase) -> int:
            if limit is None:
                changed = database.write("remove_limit", **names)
                database.write("remove_rates", **names)
                return changed
            return database.write("set_limit", **names, plan=json_text(limit), origin=json_text(origin))

        def set_limit(database: StoreDatabase) -> int:
            return audited(database, by, "set_limit", lambda: write(database), int)

        await self._thread.run(lambda database: database.atomically("set_limit", lambda: set_limit(database)))


def uses_of(database: StoreDatabase) -> dict[Scope, Use]:
    """Return how much of each limit is used now; nothing without limits."""
    kept = _kept(database)
    if not kept:
        return {}
    active, ready_at = dict[Scope, Counter[str | None]](), dict[Scope, dict[str | None, int]]()
    for task, queue, key, number in database.read("limit_counts"):
        for scope in CountedBy(task, queue, key).scopes:
            active.setdefault(scope, Counter()).update({key: number, None: number})
    for kind, name, is_key, key, at in database.read("rates"):
        ready_at.setdefault(Scope(ScopeKind(kind), name), {})[key if is_key else None] = at
    now = database.now()
    return {
        scope: Use(limit=limit, now=now, active=active.get(scope, {}), ready_at=ready_at.get(scope, {}))
        for scope, (limit, _) in kept.items()
    }


def caps_of(uses: Uses) -> str:
    """Return ``:caps`` of a look: how many more jobs each scope allows, of any key, and of those keys that use some of it."""
    caps = list[tuple[str, str, str | None, int]]()
    for scope, use in uses.items():
        caps.append((scope.kind.value, scope.name, None, min(use.room(None), use.room_of_new_key())))
        keys = {key for key in (*use.active, *use.ready_at) if key is not None} if use.limit.counts_keys else set()
        caps += [(scope.kind.value, scope.name, key, use.room(key)) for key in sorted(keys)]
    return json_text(caps)


def choose(database: StoreDatabase, view: View, part: ClaimRequest, uses: Uses, *, is_cut: bool) -> LimitedDeal[bytes]:
    """Return the jobs that a claim takes of the lanes that it saw."""
    asked = [(lane, CountedBy(task, lane.place.queue, lane.place.key)) for lane in view.lanes for task in sorted(lane.due)]
    left = [min(part.room, room_for(seat, uses)) for _, seat in asked]
    ranges = [(seat.task, lane.place.priority, seat.queue, seat.key) for lane, seat in asked]
    values = packing.claimable((), part.queues, part.isolated)
    lanes, weights = dict[LaneName, list[Candidate[bytes]]](), dict[LaneName, int]()
    for place, at, job in database.read("limited_jobs", **values, ranges=json_text(ranges), most=max(left, default=0)):
        lane, seat = asked[place]
        name = (lane.place.priority, seat.queue, seat.key)
        weights[name] = lane.weight
        left[place] -= 1
        if left[place] >= 0 and len(found := lanes.setdefault(name, [])) < part.room:
            found.append(Candidate(lane.place.priority, at, job, seat))
    return limited_deal(lanes, weights, part.room, part.cursor, uses, may_be_cut=is_cut)


def pay(database: StoreDatabase, ready_at: Mapping[Counted, int]) -> None:
    """Remember the starts that a claim has used of its rates."""
    rates = [(scope.kind, scope.name, key is not None, key or "", at) for (scope, key), at in ready_at.items()]
    if rates:
        database.write("set_rates", rates=json_text(rates))


def wait_of(found: Iterable[Row], uses: Uses) -> int | None:
    """Return the microseconds until a claim would find a job, from the rows of ``next_due_ranges.sql``; None if there is none."""
    waits = list[int]()
    for task, queue, key, wait in found:
        limited = wait_for(CountedBy(task, queue, key), uses)
        if wait is not None and limited is not None:
            waits.append(max(wait, limited))
    return max(0, min(waits)) if waits else None


def _views(database: StoreDatabase, key: str | None) -> tuple[LimitView, ...]:
    kept, uses = _kept(database), uses_of(database)
    holding = database.read("limit_holders") if kept else []
    return tuple(view_of(scope, uses[scope], origin, _held(scope, holding), key) for scope, (_, origin) in sorted(kept.items()))


def _held(scope: Scope, holding: Sequence[Row]) -> list[tuple[str, Holder]]:
    return [
        (key, Holder(UUID(bytes=job), worker or "", since / 1e6))
        for task, queue, key, job, worker, since in holding
        if scope in CountedBy(task, queue, key).scopes
    ]


def _kept(database: StoreDatabase) -> dict[Scope, tuple[Limit, Origin]]:
    return {
        Scope(ScopeKind(kind), name): (msgspec.json.decode(plan, type=Limit), msgspec.json.decode(origin, type=Origin))
        for kind, name, plan, origin in database.read("limits")
    }

"""How much of each limit is used, from rows; and the other way round, what a walk over lanes needs to know of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import json, structs

from holdfast._core.limits import Counted, CountedBy, Holder, KeyUse, Limit, LimitView, Scope, ScopeKind, Use, Uses, wait_for
from holdfast._core.origin import Origin
from holdfast._core.text import json_text
from holdfast.stores.postgres.records import Row

Kept = Mapping[Scope, Limit]


def kept_of(found: Iterable[Row]) -> dict[Scope, Limit]:
    """Return the limits of rows of ``limits`` or ``lock_limits``."""
    return {Scope(ScopeKind(row["scope"]), row["name"]): json.decode(row["plan"], type=Limit) for row in found}


def uses_of(kept: Kept, found: Iterable[Row]) -> dict[Scope, Use]:
    """Return how much of each of these limits is used, from the rows of ``limit_uses``."""
    now, active, ready_at = 0, dict[Scope, Counter[str | None]](), dict[Scope, dict[str | None, int]]()
    for kind, task, name, key, number in found:
        if kind == "now":
            now = number
        elif kind != "active":
            ready_at.setdefault(Scope(ScopeKind(kind), name), {})[key] = number
        else:
            for scope in CountedBy(task, name, key).scopes:
                if scope in kept:
                    counts = active.setdefault(scope, Counter())
                    counts[key] += number
                    counts[None] += number
    return {
        scope: Use(limit=limit, now=now, active=active.get(scope, {}), ready_at=ready_at.get(scope, {}))
        for scope, limit in kept.items()
    }


def room_of(use: Use) -> int:
    """Return how many more jobs a limit allows of a key that uses nothing of it."""
    return min(use.room(None), use.room_of_new_key())


def caps_of(uses: Uses) -> str:
    """Return ``:caps`` of a walk: how many more jobs of a key each scope allows, and of each key that uses some of it."""
    caps = dict[str, dict[str, dict[str, Any]]]()
    for scope, use in uses.items():
        keys = {key for key in (*use.active, *use.ready_at) if key is not None} if use.limit.counts_keys else set()
        caps.setdefault(scope.kind, {})[scope.name] = {"room": room_of(use), "keys": {key: use.room(key) for key in keys}}
    return json_text(caps)


def rates_of(ready_at: Mapping[Counted, int]) -> tuple[list[Any], ...]:
    """Return the columns of ``set_rates``; in the order of their key, so that two statements never wait for each other."""
    rows = sorted((scope.kind.value, scope.name, key is not None, key or "", at) for (scope, key), at in ready_at.items())
    return tuple(list(column) for column in zip(*rows, strict=True))


def wait_of(found: Iterable[Row], uses: Uses) -> int | None:
    """Return the microseconds until a claim would find a job, from the rows of ``next_due_ranges``; None if there is none."""
    limited = ((due_in, wait_for(CountedBy(task, queue, key), uses)) for task, queue, key, due_in in found)
    waits = [max(due_in, wait) for due_in, wait in limited if wait is not None]
    return max(0, min(waits)) if waits else None


def views_of(holding: Sequence[Row], found: Iterable[Row], key: str | None) -> tuple[LimitView, ...]:
    """Return all limits by scope, from the rows of ``limit_holders`` and those of ``limit_uses``."""
    uses = uses_of(kept_of(holding), found)
    views = [_view(Scope(ScopeKind(row["scope"]), row["name"]), uses, row, key) for row in holding]
    return tuple(sorted(views, key=lambda view: view.scope))


def _view(scope: Scope, uses: Uses, row: Row, key: str | None) -> LimitView:
    use, wait_of = uses[scope], structs.replace(uses[scope], active={}).wait
    of_key = None
    if key is not None:
        of_key = KeyUse(key, use.active.get(key, 0), (wait_of(key) or 0) / 1e6, _holders(row["holders_of_key"]))
    return LimitView(
        scope=scope,
        limit=use.limit,
        active=use.active.get(None, 0),
        wait=(wait_of(None) or 0) / 1e6,
        holders=_holders(row["holders"]),
        of_key=of_key,
        origin=json.decode(row["origin"], type=Origin),
    )


def _holders(found: str | None) -> tuple[Holder, ...]:
    held = json.decode(found or "[]", type=list[tuple[UUID, str, int]])
    return tuple(Holder(job, worker, since / 1e6) for job, worker, since in held)

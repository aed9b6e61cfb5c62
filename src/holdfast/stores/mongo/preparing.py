"""What a verb of a book will ask for, as far as its arguments tell: read before it begins, so that it is seldom called twice."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from holdfast._core.book.operations import BookOperations
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.requests import ClaimRequest
from holdfast.stores.mongo.loading import Loader
from holdfast.stores.mongo.part import ALL, PartBook, Wanted
from holdfast.stores.mongo.writing import Writer


async def prepare(
    loader: Loader, now: datetime, verb: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Wanted]:
    """Put in candidates of verbs that search, and return what else the verb will ask for."""
    act = _SEARCHES.get(verb)
    if act is not None:
        await act(loader, now, *arguments, **{name: value for name, value in keywords.items() if name != "by"})
    action = keywords.get("by")
    audited: list[Wanted] = [] if action is None else [("audits", action.id)]
    return [*audited, *_WANTED[verb](*arguments, **keywords)] if verb in _WANTED else audited


def most_claims(verb: str, arguments: Sequence[Any]) -> int:
    """Return how many claim numbers a verb may use."""
    request = arguments[1] if verb == "exchange" and len(arguments) > 1 else None
    return 0 if request is None else int(request.room)


def touch(writer: Writer, book: PartBook, verb: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Let the write conflict with others to rows that it depends on and does not change."""
    match verb:
        case "exchange":
            moved = {key for name, key, _ in book.written() if name == "jobs"}
            for each in arguments[0]:
                if each.precondition is not Precondition.TOKEN and each.job in moved:
                    writer.break_fence(each.job)
            _touch_leases(writer, book, arguments)
        case "start":
            _touch_leases(writer, book, arguments)
        case "enqueue" | "enqueue_member" if (under := keywords.get("under")) is not None:
            writer.touch_job(under[0])
        case "record_step" | "take_signal" | "signal":
            writer.touch_job(arguments[0])


def _touch_leases(writer: Writer, book: PartBook, arguments: Sequence[Any]) -> None:
    """No lease ends while jobs of it are claimed or started, or starts what is taken from it because it lost the right to."""
    voided = {each.job for each in arguments[0] if isinstance(each, Transition) and each.precondition is Precondition.VOIDED}
    started = {job for job, _ in arguments[0]} if arguments[0] and not isinstance(arguments[0][0], Transition) else set()
    leases = set[UUID]()
    for name, key, old in book.written():
        row = book.raw("jobs", key)
        if name != "jobs" or row is None:
            continue
        if key in started or (row.lease is not None and (old is None or old.lease is None)):
            leases.add(row.lease)
        elif key in voided and old is not None and old.lease is not None:
            leases.add(old.lease)
    for lease in leases:
        writer.touch_lease(lease)
    if len(arguments) > 1 and arguments[1] is not None and leases:
        writer.touch_limits()


async def _expire(loader: Loader, now: datetime, limit: int) -> None:
    await loader.candidates({"expiring": {"$lte": now}}, limit, {"expiring": 1, "_id": 1})


async def _owed(loader: Loader, now: datetime, tasks: Sequence[str], limit: int, *, pause: float) -> None:
    del pause
    which = {"owed": {"$in": [*tasks]}, "hook_due_at": {"$lte": now}}
    await loader.candidates(which, limit, {"hook_due_at": 1, "_id": 1})


async def _overdue(loader: Loader, now: datetime, limit: int) -> None:
    del now, limit
    await loader.candidates({"timed": {"$exists": True}}, 0)


async def _prune(loader: Loader, now: datetime, limit: int) -> None:
    floor = now - timedelta(seconds=BookOperations.floor)
    await loader.candidates({"prune_at": {"$lte": now}}, 2 * limit, {"prune_at": 1, "_id": 1})
    await loader.prunable(floor, limit)


async def _revive(
    loader: Loader, now: datetime, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False
) -> None:
    del now, dry_run
    if flow is None:
        which = {"$exists": True} if after is None else {"$gt": after}
        await loader.candidates({"open_flow": which}, limit + 1, {"open_flow": 1})


async def _purge(loader: Loader, now: datetime, queue: str, limit: int, until: datetime | None = None) -> None:
    which = {"queue": queue, "state": "available", "created_at": {"$lte": until or now}}
    await loader.candidates({**which, "flow": {"$exists": False}}, limit)
    await loader.candidates({**which, "flow": {"$exists": True}}, limit)


async def _set_queue(loader: Loader, now: datetime, queue: str, settings: object) -> None:
    del now, settings
    await loader.candidates({"queue": queue, "state": {"$in": ["available", "blocked", "held"]}}, 0)


async def _limits(loader: Loader, now: datetime, key: str | None = None) -> None:
    del now, key
    await loader.uses()


async def _held(loader: Loader, now: datetime, lease: UUID, limit: int | None = None) -> None:
    del now
    if limit is not None:
        await loader.first_holds(lease, limit)


async def _leases(loader: Loader, now: datetime, limit: int = 0) -> None:
    del now, limit
    await loader.load([("leases", ALL)])
    await loader.count_holds()


async def _exchange(
    loader: Loader, now: datetime, transitions: Sequence[Transition], request: ClaimRequest | None = None
) -> None:
    del transitions
    if request is not None:
        await loader.load([("leases", request.lease), ("holds", request.lease)])
        await loader.due(now, request)


_SEARCHES: dict[str, Callable[..., Awaitable[None]]] = {
    "expire": _expire,
    "owed_hooks": _owed,
    "overdue": _overdue,
    "prune": _prune,
    "revive": _revive,
    "purge": _purge,
    "set_queue": _set_queue,
    "limits": _limits,
    "held": _held,
    "workers": _leases,
    "expired": _leases,
    "exchange": _exchange,
}


def _of_enqueue(call: UUID, jobs: Any, *, under: Any = None) -> list[Wanted]:
    keys = [("keys", (each.task, each.unique_key)) for each in jobs if each.unique_key is not None]
    parent = [] if under is None else [("jobs", under[0])]
    return [("receipts", call), *(("jobs", each.id) for each in jobs), *keys, *parent]


def _of_exchange(transitions: Sequence[Transition], request: ClaimRequest | None = None) -> list[Wanted]:
    del request
    return [("jobs", each.job) for each in transitions]


def _of_ids(ids: Sequence[UUID], *_: Any, **__: Any) -> list[Wanted]:
    return [("jobs", job) for job in ids]


def _of_job(job: UUID, *_: Any, **__: Any) -> list[Wanted]:
    return [("jobs", job), ("attempts", job)]


_WANTED: dict[str, Callable[..., Sequence[Wanted]]] = {
    "enqueue": _of_enqueue,
    "enqueue_by": lambda call, jobs, by: _of_enqueue(call, jobs),
    "exchange": _of_exchange,
    "start": lambda tokens: [("jobs", job) for job, _ in tokens],
    "report": lambda updates: [("jobs", each.job) for each in updates],
    "annotate": lambda notes: [("attempts of one", (each.job, each.token)) for each in notes],
    "request_cancel": _of_ids,
    "reopen": _of_ids,
    "reschedule": _of_ids,
    "delete": _of_ids,
    "outputs": _of_ids,
    "steer": lambda how, ids, which, **_: [("jobs", job) for job in ids],
    "get": _of_job,
    "beat": lambda leases, **_: [each for lease in leases for each in (("leases", lease), ("holds", lease))],
}

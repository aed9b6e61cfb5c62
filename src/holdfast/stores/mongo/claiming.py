"""The claim: pick, write under a nonce, read back together with the lease.

An idle worker takes the first job of the line that it last took from while it looks: its job starts a round trip sooner.

A claim is returned only if the lease is still open in a read that is causally after the write. A lease that has ended stays so: the
lease was open when the claim landed. A claim that lands after the end is undone. If its worker died before that, supervisors find it,
because they look for jobs of ended leases. It does not use a transaction: two workers that pick the same head would conflict as a whole.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from bson import Binary
from msgspec import structs

from holdfast._core.book.rows import KeptLimit
from holdfast._core.job import Claim, State
from holdfast._core.lanes import Cursor
from holdfast._core.limits import Scope
from holdfast._core.record import claim_of, needs_isolation
from holdfast._core.requests import ClaimKind, ClaimRequest, NewLease, QueueSettings
from holdfast._core.text import json_text
from holdfast._ports.clock import Randomness
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.databases.mongo.errors import Duplicate
from holdfast.databases.readable import readable
from holdfast.stores.mongo.claim_numbers import KeptNumbers, reserve
from holdfast.stores.mongo.documents import line_of, range_in, record_of
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.picking import Early, Picked, Picking, View, first_due, spans_of
from holdfast.stores.mongo.schema import missing
from holdfast.stores.mongo.settling import MOST

FARTHEST = 8
"""How many times as far a claim looks while other workers take what it picks."""
MOST_TRIES = 6
MOST_GUESSED = 4
"""The most lines whose jobs are read before it is known that there are some."""


class Claiming:
    """Claims of jobs that no limit counts. ``now``: the expression by which the server knows the time."""

    def __init__(self, database: MongoDatabase, names: Names, chance: Randomness) -> None:
        self._database, self._names = database, names
        self._picking, self._numbers = Picking(database, names, chance), KeptNumbers(database, names)
        self._reach, self._calm, self._is_busy = 1, 0, False
        self._lines, self._others = frozenset[str](), frozenset[str]()
        self._lease: NewLease | None = None
        self._held = dict[UUID, bool]()
        self._in_flight, self._acts = Counter[UUID](), Counter[UUID]()

    async def look(self, now: Any, request: ClaimRequest) -> View:
        """Read the lease, the settings, and the lines in which jobs of these tasks wait, with the first jobs of those last taken from."""
        self._held.setdefault(request.lease, True)
        guessed = self._guess(request)
        lines = [
            {"$unionWith": {"coll": self._names.jobs, "pipeline": [{"$match": {"line": {"$gt": after, "$lt": before}}}, _GROUP]}}
            for after, before in spans_of(request)
        ]
        pipeline = [
            {"$match": {"_id": "settings"}},
            {"$set": {"now": now}},
            {"$unionWith": {"coll": self._names.leases, "pipeline": [{"$match": {"_id": request.lease}}]}},
            *lines,
            *({"$unionWith": {"coll": self._names.jobs, "pipeline": first_due(each, now, request.room)}} for each in guessed),
        ]
        found = await self._database.find(self._names.state, pipeline, concern="local")
        if not found or found[0]["_id"] != "settings":
            raise missing(self._database.location.public, self._names.state, "settings")
        settings = found[0]
        lease = next((each for each in found[1:] if "spec" in each), None)
        limits = [msgspec.json.decode(text, type=tuple[Scope, KeptLimit]) for text in settings["limits"]]
        is_open = lease is not None and "ended_at" not in lease and lease["expires_at"] >= settings["now"]
        is_voided = lease is not None and request.voids is not None and lease["voids"] != request.voids
        may_claim = lease is not None and is_open and not is_voided
        self._lease = msgspec.json.decode(lease["spec"], type=NewLease) if lease is not None and may_claim else None
        names = tuple(each["_id"] for each in found[1:] if isinstance(each["_id"], str))
        self._others = frozenset(names)
        return View(
            now=settings["now"],
            lease=self._lease,
            lines=names,
            paused=frozenset(queue for queue, _ in settings["paused"]),
            settings={queue: msgspec.json.decode(text, type=QueueSettings) for queue, text in settings["queues"]},
            limits=dict(limits),
            ruling=_ruling(settings),
            heads=_heads(guessed, found[1:], settings["now"]),
        )

    def _guess(self, request: ClaimRequest) -> Sequence[str]:
        """Return the lines whose jobs are read beside the list of lines: there are probably some that this claim will take."""
        if self._reach > 1 or request.ids is not None or not request.room:
            return ()
        spans = spans_of(request)
        return [line for line in self._lines if any(after < line < before for after, before in spans)]

    @contextmanager
    def taking(self, lease: UUID) -> Iterator[None]:
        """Note that a lease may have jobs, while it takes some and after."""
        self._begin(lease)
        try:
            yield
        finally:
            self._end(lease, took=True)

    def acts(self, lease: UUID) -> int:
        """Return how often the lease has begun or ended to take jobs."""
        return self._acts[lease]

    def may_hold(self, lease: UUID) -> bool:
        """Return whether the lease may have jobs: it takes some, or took some since it was known to have none."""
        return self._in_flight[lease] > 0 or self._held.get(lease, True)

    def holds_none(self, lease: UUID, acts: int) -> None:
        """Note that a lease had no job, unless it has begun or ended to take some since it had done that so often."""
        if lease in self._held and not self._in_flight[lease] and self._acts[lease] == acts:
            self._held[lease] = False

    def _begin(self, lease: UUID) -> None:
        self._in_flight[lease] += 1
        self._acts[lease] += 1

    def _end(self, lease: UUID, *, took: bool) -> None:
        self._in_flight[lease] -= 1
        self._acts[lease] += 1
        if took:
            self._held[lease] = True

    async def take_early(self, now: Any, request: ClaimRequest) -> Early | None:
        """Take the first job of the only line that had some, while the claim looks, if the worker is idle; ``claim`` judges it."""
        lease, lines = self._lease, self._guess(request)
        is_idle = not self._is_busy and len(lines) == 1 and self._others <= {*lines} and self._numbers.has(1)
        is_plain = request.limit > 0 and not request.prefetch and request.kind is ClaimKind.PLAIN
        if not (is_idle and is_plain) or lease is None or lease.id != request.lease or lease.is_isolated:
            return None
        base = self._numbers.base
        number = {"$max": [{"$add": ["$number", 1]}, base + 1]}
        command = {
            "findAndModify": self._names.jobs,
            "query": {"line": lines[0], **_due(now)},
            "sort": {"available_at": 1, "_id": 1},
            "update": _taken(now, lease, request, number, is_running=True),
            "new": True,
            "hint": "waiting",
        }
        self._begin(lease.id)
        took = True
        try:
            found = (await self._database.write(command))["value"]
            took = found is not None
        finally:
            self._end(lease.id, took=took)
        if found is None:
            return None
        await self._numbers.take(1)  # perhaps not the one that was used: another lease of this process may have taken that
        return Early(found, lines[0], base)

    async def claim(
        self, now: Any, view: View, request: ClaimRequest, early: Early | None = None
    ) -> tuple[tuple[Claim, ...], Cursor, bool]:
        """Take jobs; return them, the next cursor, and whether the claim found all that it could have."""
        claims, cursor, has = list[Claim](), request.cursor, None
        if early is not None:
            kept, cursor = await self._keep(now, view, request, early)
            claims += kept or ()
            if kept is None or (kept and not view.others_of(early)):
                return tuple(claims), cursor, True
            view, has = (view.without(early), early.job["_id"]) if kept else (await self.look(now, request), None)
        for _ in range(MOST_TRIES):
            wanted = _rest(request, claims, cursor)
            if view.lease is None or not wanted.room:
                return tuple(claims), cursor, True
            picked, base = await self._pick_and_reserve(view, wanted)
            cursor, ids = picked.cursor, (*picked.running, *picked.claimed)
            if 0 < len(picked.lines) <= MOST_GUESSED:
                self._lines = picked.lines
            taken = await self._claim_these(now, view, wanted, picked, base, has) if ids else ()
            self._is_busy = bool(taken)
            if taken is None:
                return tuple(claims), cursor, True
            claims += taken
            is_whole = len(taken) == len(ids)
            self._adapt(is_whole)
            if claims or is_whole:
                return tuple(claims), cursor, is_whole
            view = await self.look(now, request)
        return tuple(claims), cursor, False

    async def _keep(self, now: Any, view: View, request: ClaimRequest, early: Early) -> tuple[tuple[Claim, ...] | None, Cursor]:
        """Return the claim of a job that was taken early, and the next cursor; undo it if a job of another line may come first."""
        others = [line for line in view.lines if line != early.line and view.may_take(range_in(line), request.queues)]
        if others or not view.may_take(range_in(early.line), request.queues):
            await self._undo(_mine(request, early.base), [early.job])
            return (), request.cursor
        self._is_busy = True
        kept = await self._read_back(now, view, request, _mine(request, early.base))
        return kept, view.cursor_after(early, request.cursor) if kept else request.cursor

    def _adapt(self, is_whole: bool) -> None:
        """Look farther after a claim of which other workers took a part, and nearer after some of which they took none."""
        self._calm = self._calm + 1 if is_whole else 0
        if not is_whole:
            self._reach = min(FARTHEST, self._reach * 2)
        elif self._calm > self._reach:
            self._reach, self._calm = max(1, self._reach // 2), 0

    async def _pick_and_reserve(self, view: View, request: ClaimRequest) -> tuple[Picked, int]:
        """Pick jobs, and reserve their numbers: beside it if the last claim took jobs, else only once there are some."""
        has_kept = not request.prefetch and self._numbers.has(request.room)
        if self._is_busy and not has_kept:
            return await asyncio.gather(
                self._picking.pick(view, request, self._reach), reserve(self._database, self._names, request.room)
            )
        picked = await self._picking.pick(view, request, self._reach)
        number = len(picked.running) + len(picked.claimed)
        if not number:
            return picked, 0
        if request.prefetch:
            return picked, await reserve(self._database, self._names, number)
        return picked, await self._numbers.take(number)

    async def _claim_these(
        self, now: Any, view: View, request: ClaimRequest, picked: Picked, base: int, has: UUID | None
    ) -> tuple[Claim, ...] | None:
        """Return those of the picked jobs that no other worker took; ``None`` if the lease takes none any more.

        ``has``: the job that this claim has taken early, whose number may be any.
        """
        assert view.lease is not None
        try:
            with self.taking(request.lease):
                await self._take(now, view.lease, request, picked, base)
        except Duplicate:  # a lease for isolated attempts has a job
            return None
        claims = await self._read_back(now, view, request, _mine(request, base, has))
        order = {job: place for place, job in enumerate((*picked.running, *picked.claimed))}
        return None if claims is None else tuple(sorted(claims, key=lambda claim: order.get(claim.job.id, len(order))))

    async def _take(self, now: Any, lease: NewLease, request: ClaimRequest, picked: Picked, base: int) -> None:
        statements, lines = list[Document](), [*picked.lines]
        for ids, is_running in ((picked.running, True), (picked.claimed, False)):
            for start in range(0, len(ids), MOST):
                some = [Binary.from_uuid(each) for each in ids[start : start + MOST]]  # once for both places
                place = {"$indexOfArray": [{"$literal": some}, "$_id"]}
                number = {"$max": [{"$add": ["$number", 1]}, {"$add": [base + start + 1, place]}]}
                which = {"_id": {"$in": some}, "line": {"$in": lines}, **_due(now)}
                change = _taken(now, lease, request, number, is_running=is_running)
                statements.append({"q": which, "u": change, "multi": True})
            base += len(ids)
        await self._database.write({"update": self._names.jobs, "updates": statements, "ordered": False})

    async def _read_back(self, now: Any, view: View, request: ClaimRequest, mine: Document) -> tuple[Claim, ...] | None:
        """Return the claimed jobs; ``None``, after the claim was undone, if the lease is not open any more.

        A queue that was paused since, or a limit that was set, undoes the claim too: its operator has been answered.
        """
        ruling = [{"$match": {"_id": "settings"}}, {"$project": {"paused": 1, "limits": 1}}]
        pipeline = [
            {"$match": {"_id": request.lease}},
            {"$set": {"now": now}},
            {"$unionWith": {"coll": self._names.state, "pipeline": ruling}},
            {"$unionWith": {"coll": self._names.jobs, "pipeline": [{"$match": mine}, {"$unset": [*_KNOWN]}]}},
        ]
        found = await self._database.find(self._names.leases, pipeline)
        leases = [each for each in found if "spec" in each]
        settings = next((each for each in found if each["_id"] == "settings"), {})
        known = {"claim": request.claim, "lease": request.lease}
        jobs = [{**each, **known} for each in found if "state" in each]
        is_open = bool(leases) and _is_open(leases[0], request)
        if not is_open or _ruling(settings) != view.ruling:
            await self._undo(mine, jobs)
            return () if is_open else None
        return readable(lambda job: claim_of(record_of(job)), jobs)

    async def _undo(self, mine: Document, jobs: Sequence[Document]) -> None:
        """Put jobs back in their lines: their claim was not handed out. One that is to be cancelled waits for an audit, which ends it."""
        statements, still_mine = list[Document](), {**mine, "is_marked": {"$exists": False}}
        for job in jobs:
            back: Document = {
                "state": "available",
                "line": _line_again(job),
                "attempt": job["attempt"] - (job["state"] == "running"),
            }
            gone = dict.fromkeys(("claim", "lease", "active", "worker", "claimed_at", "started_at", "timed", "alone"), "")
            if "expires_at" in job and back["attempt"] == 0:
                back["expiring"] = job["expires_at"]
            statements.append({"q": {**still_mine, "_id": job["_id"]}, "u": {"$set": back, "$unset": gone}})
        if statements:
            await self._database.write({"update": self._names.jobs, "updates": statements})


_KNOWN = ("claim", "lease", "active")
"""Fields of a job that its claim has just written: to decode an id takes as long as to decode ten other fields."""

_GROUP = {"$group": {"_id": "$line"}}


def _mine(request: ClaimRequest, base: int, has: UUID | None = None) -> Document:
    """Return the filter of the jobs that a claim has taken with numbers above ``base``, but for one that it ``has``."""
    mine: Document = {"active": request.lease, "claim": request.claim, "number": {"$gt": base}}
    return mine if has is None else {**mine, "_id": {"$ne": has}}


def _taken(now: Any, lease: NewLease, request: ClaimRequest, number: Document, *, is_running: bool) -> list[Document]:
    """Return the change by which a lease takes a job."""
    fields = {
        "claim": request.claim,
        "lease": request.lease,
        "active": request.lease,
        "worker": {"$literal": lease.worker},
        "state": "running" if is_running else "claimed",
        "number": number,
        "claimed_at": now,
        **({"started_at": now, "attempt": {"$add": ["$attempt", 1]}} if is_running else {}),
        **_policies(request),
    }
    if lease.is_isolated:
        fields["alone"] = request.lease
    gone = ["line", "expiring", "awaits", "said", *(() if is_running else ("started_at",))]
    return [{"$set": fields}, {"$unset": gone}]


def _rest(request: ClaimRequest, claims: Sequence[Claim], cursor: Cursor) -> ClaimRequest:
    """Return what is left of a request once it has got these jobs."""
    running = sum(each.job.state is State.RUNNING for each in claims)
    limit, prefetch = request.limit - running, request.prefetch - (len(claims) - running)
    return structs.replace(request, limit=max(0, limit), prefetch=max(0, prefetch), cursor=cursor)


def _due(now: Any) -> Document:
    """Return the filter of jobs that may be started now, judged by the server."""
    is_due = {"$lte": ["$available_at", now]}
    is_fresh = {"$or": [{"$gt": ["$attempt", 0]}, {"$lte": ["$expires_at", None]}, {"$gt": ["$expires_at", now]}]}
    return {"$expr": {"$and": [is_due, is_fresh]}}


def _policies(request: ClaimRequest) -> Document:
    """Return the fields that depend on the task of a job."""
    texts = {task: json_text(policy) for task, policy in request.tasks.items()}
    limited = [task for task, policy in request.tasks.items() if policy.timeout is not None or policy.progress_within is not None]
    if len({*texts.values()}) == 1:
        policy: Any = {"$literal": next(iter(texts.values()))}
    else:
        branches = [{"case": {"$eq": ["$task", {"$literal": task}]}, "then": {"$literal": text}} for task, text in texts.items()]
        policy = {"$switch": {"branches": branches, "default": "$policy"}}
    if not limited:
        return {"policy": policy}
    is_limited_task = {"$in": ["$task", {"$literal": limited}]}
    return {"policy": policy, "timed": {"$cond": [is_limited_task, request.lease, "$$REMOVE"]}}


def _heads(lines: Sequence[str], found: Sequence[Document], now: datetime) -> dict[str, list[Document]]:
    """Return the first due jobs of lines; not those of a line that has expired ones, behind which others may be."""
    heads: dict[str, list[Document]] = {each: [] for each in lines}
    for each in found:
        if "available_at" in each:
            heads[each["line"]].append(each)
    return {line: jobs for line, jobs in heads.items() if all("expiring" not in each or each["expiring"] > now for each in jobs)}


def _ruling(settings: Document) -> Sequence[object]:
    return settings.get("paused"), settings.get("limits")


def _is_open(lease: Mapping[str, Any], request: ClaimRequest) -> bool:
    is_voided = request.voids is not None and lease["voids"] != request.voids
    return "ended_at" not in lease and lease["expires_at"] >= lease["now"] and not is_voided


def _line_again(job: Document) -> str:
    row = record_of(job)
    return line_of((row.task, row.queue, row.key, row.priority), is_isolated=needs_isolation(row))

"""Reads the rows that a part of a book asks for, with those that are needed next."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from holdfast._core.audit import KeptAudit
from holdfast._core.book.rows import KeptLimit, KeptSchedule, Lease
from holdfast._core.job import State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.limits import Scope, Use
from holdfast._core.record import SettledAttempt
from holdfast._core.requests import ClaimRequest, IsolatedJobs, NewLease, QueueSettings
from holdfast._core.steps import Signal, StepRecord
from holdfast._core.workflow import Edge, Flow
from holdfast.databases.mongo.caller import CallerDatabase
from holdfast.databases.mongo.database import Document, MongoDatabase, Session
from holdfast.databases.readable import readable
from holdfast.stores.mongo.documents import lines_between, lock_of, marks_of, range_in, receipt_of, record_of, stamp_of
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.part import ALL, PartBook, Wanted

MANY = 1000
"""The members that are read in advance at most."""


class Loader:
    """Fills a part within one session. ``documents``: those of the jobs in it, as they were read."""

    def __init__(self, database: MongoDatabase | CallerDatabase, names: Names, session: Session, part: PartBook) -> None:
        self._database, self._names, self._session, self._part = database, names, session, part
        self.documents: dict[UUID, Document] = {}
        self._levels = 1

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Put in what every verb may look at: paused queues, settings of queues, and limits."""
        for queue, at in settings.get("paused", ()):
            self._part.add("paused_queues", queue, at)
        for queue, text in settings.get("queues", ()):
            self._part.add("queue_settings", queue, msgspec.json.decode(text, type=QueueSettings))
        for text in settings.get("limits", ()):
            scope, kept = msgspec.json.decode(text, type=tuple[Scope, KeptLimit])
            self._part.add("limits", scope, kept)

    async def load(self, wanted: Iterable[Wanted]) -> None:
        """Read rows, and note that they have been read."""
        asked = defaultdict[str, list[Any]](list)
        for each in dict.fromkeys(wanted):
            if each not in self._part.known.read:
                asked[each[0]].append(each[1])
        for table, keys in asked.items():
            await getattr(self, "_" + table.replace(" ", "_"))(keys)
            self._part.known.read.update((table, key) for key in keys)

    async def candidates(self, which: Mapping[str, Any], limit: int, sort: Mapping[str, int] | None = None) -> list[UUID]:
        """Put in the first jobs of a filter, all for 0; the verb judges them."""
        found = await self._find(self._names.jobs, which, limit=limit, sort=sort)
        await self._add_jobs(found)
        return [each["_id"] for each in found]

    async def first_holds(self, lease: UUID, limit: int) -> None:
        """Put in the first jobs of a lease. If some of them are unreadable, the verb will ask for all."""
        found = await self.candidates({"active": lease}, limit, {"number": 1})
        if len(found) == limit and all(self._part.raw("jobs", each) is not None for each in found):
            self._part.known.read.add(("holds", lease))

    async def prunable(self, floor: datetime, limit: int) -> None:
        """Put in what else may be pruned: leases without jobs; receipts and brief attempts, of which only the keys are needed."""
        for each in await self._find(self._names.leases, {"ended_at": {"$lte": floor}}, limit=limit):
            self._part.add("leases", each["_id"], lease_of(each))
        for each in await self._find(self._names.jobs, {"received_at": {"$lte": floor}}, limit=limit):
            self._part.add("receipts", each["call"], receipt_of(each))
            self._part.known.read.add(("receipts", each["call"]))
        found = await self._find(self._names.attempts, {"brief_at": {"$lte": floor}}, limit=limit, sort={"brief_at": 1})
        self._add_attempts(found)
        await self._rates(())

    async def count_holds(self) -> None:
        """Put in the states of the jobs of each lease."""
        found = await self._find(
            self._names.jobs,
            [
                {"$match": {"active": {"$exists": True}}},
                {"$project": {"active": 1, "state": 1, "number": 1}},
            ],
        )
        for each in found:
            lease = self._part.raw("leases", each["active"])
            has_begun = lease is not None and each["number"] <= lease.started
            state = State.RUNNING if has_begun else State(each["state"])
            self._part.held_states.setdefault(each["active"], []).append(state)

    async def uses(self) -> None:
        """Put in the active jobs that limits may count, and the rates."""
        if self._part.content.limits:
            await self.candidates({"active": {"$exists": True}}, 0)
            await self._rates(())

    async def due(self, now: datetime, request: ClaimRequest) -> None:
        """Put in the first due jobs of each line that a claim may take from."""
        await self.uses()
        if request.ids is not None:
            await self.candidates({"_id": {"$in": [*request.ids]}, "line": {"$exists": True}}, 0)
            return
        for line in await self.lines(request.tasks, request.queues, request.isolated):
            which = {"line": line, "available_at": {"$lte": now}}
            await self.candidates({**which, **unexpired(now)}, request.room, {"available_at": 1, "_id": 1})

    async def lines(self, tasks: Iterable[str], queues: Sequence[str] | None, isolated: IsolatedJobs) -> list[str]:
        """Return the lines of these tasks in which jobs wait, but those of paused queues."""
        found = list[str]()
        for task in tasks:
            for is_isolated in (False, True):
                if isolated is IsolatedJobs.INCLUDE or is_isolated is (isolated is IsolatedJobs.ONLY):
                    after, before = lines_between(task, is_isolated=is_isolated)
                    pipeline = [{"$match": {"line": {"$gt": after, "$lt": before}}}, {"$group": {"_id": "$line"}}]
                    found += [each["_id"] for each in await self._find(self._names.jobs, pipeline)]
        paused = self._part.content.paused_queues
        return [line for line in found if (queue := range_in(line)[1]) not in paused and (queues is None or queue in queues)]

    @property
    def limits(self) -> Mapping[Scope, KeptLimit]:
        """All limits, by scope."""
        return self._part.content.limits

    @property
    def paused(self) -> Mapping[str, datetime]:
        """Paused queues, and since when."""
        return self._part.content.paused_queues

    @property
    def queue_settings(self) -> Mapping[str, QueueSettings]:
        """The settings of queues that have some."""
        return self._part.content.queue_settings

    async def read_uses(self, now: datetime) -> Mapping[Scope, Use]:
        """Return how much of each limit is used."""
        await self.uses()
        return self._part.uses(now)

    async def find_jobs(self, which: Mapping[str, Any], **options: Any) -> list[Document]:
        """Return documents of jobs, which are not put in."""
        return await self._find(self._names.jobs, which, **options)

    async def gather(self, pipeline: Sequence[Mapping[str, Any]], *others: Sequence[Mapping[str, Any]]) -> list[Document]:
        """Return what pipelines make of the jobs, in one read."""
        jobs = self._names.jobs
        return await self._find(jobs, [*pipeline, *({"$unionWith": {"coll": jobs, "pipeline": each}} for each in others)])

    async def started(self) -> dict[UUID, int]:
        """Return the claim numbers through which leases have started their jobs."""
        found = await self._find(self._names.leases, {"started": {"$gt": 0}}, projection={"started": 1})
        return {each["_id"]: each["started"] for each in found}

    async def beats(self, worker: str, limit: int) -> list[Document]:
        """Return the newest notes on a worker."""
        return await self._find(self._names.beats, {"worker": worker}, limit=limit, sort={"at": -1, "_id": -1})

    async def audits(self, which: Document, limit: int) -> list[KeptAudit]:
        """Return the newest matching actions of operators."""
        found = await self._find(self._names.audits, which, limit=limit, sort={"_id": -1}) if limit else []
        return [msgspec.json.decode(each["value"], type=KeptAudit) for each in found]

    async def worn_audits(self, end: datetime, limit: int) -> list[Any]:
        """Return the ids of actions up to a time, the oldest first."""
        found = await self._find(self._names.audits, {"at": {"$lte": end}}, limit=limit, sort={"at": 1}, projection={"_id": 1})
        return [each["_id"] for each in found] if limit else []

    async def worn_beats(self, now: datetime, limit: int) -> list[Any]:
        """Return the ids of notes that need not be kept, those first that are over for longest."""
        which = {"delete_after": {"$lte": now}}
        found = await self._find(self._names.beats, which, limit=limit, sort={"delete_after": 1}, projection={"_id": 1})
        return [each["_id"] for each in found] if limit else []

    async def lone_roots(self, roots: Sequence[UUID]) -> set[UUID]:
        """Return the roots that are the only members of their flows."""
        pipeline: list[Document] = [{"$match": {"flow": {"$in": roots}}}, {"$group": {"_id": "$flow", "number": {"$sum": 1}}}]
        return {each["_id"] for each in await self.gather(pipeline) if each["number"] == 1}

    async def _jobs(self, ids: Sequence[UUID]) -> None:
        await self._add_jobs(await self._find(self._names.jobs, {"_id": {"$in": ids}, "state": {"$exists": True}}))

    async def _add_jobs(self, found: Sequence[Document]) -> None:
        known = self._part.known.read
        news = [each for each in found if each["_id"] not in self.documents]
        flows = {each["flow"] for each in news if "flow" in each}
        leases = {each["active"] for each in news if "active" in each}
        await self.load([*(("leases", lease) for lease in leases), *(("flows", flow) for flow in flows)])
        for each in news:
            self.documents[each["_id"]] = each
            lease = self._part.raw("leases", each.get("active"))
            if "place" in each:
                self._part.add("places", each["_id"], each["place"])
            if (marks := marks_of(each)) is not None:
                self._part.add("marks", each["_id"], marks)
            for row in readable(partial(record_of, started=0 if lease is None else lease.started), [each]):
                self._part.add("jobs", row.id, row)
        known.update(("jobs", each["_id"]) for each in news)

    async def _receipts(self, calls: Sequence[UUID]) -> None:
        fields = {"call": 1, "state": 1, "created_at": 1, "received_at": 1, "answer": 1}
        for each in await self._find(self._names.jobs, {"call": {"$in": calls}}, projection=fields):
            self._part.add("receipts", each["call"], receipt_of(each))

    async def _leases(self, ids: Sequence[Any]) -> None:
        which = {} if ALL in ids else {"_id": {"$in": ids}}
        for each in await self._find(self._names.leases, which):
            self._part.add("leases", each["_id"], lease_of(each))
            self._part.terms[each["_id"]] = each.get("term", -1)

    async def _signals(self, jobs: Sequence[UUID]) -> None:
        found = defaultdict[UUID, list[Signal]](list)
        for each in await self._find(self._names.signals, {"job": {"$in": jobs}}, sort={"place": 1}):
            self._part.last_signals[each["job"]] = each["place"]
            found[each["job"]].append(msgspec.json.decode(each["value"], type=Signal))
        for job, signals in found.items():
            self._part.add("signals", job, tuple(signals))

    async def _flows(self, flows: Sequence[UUID]) -> None:
        for each in await self._find(self._names.flows, {"_id": {"$in": flows}}):
            self._part.sizes.setdefault(each["_id"], each.get("size", 0))
            self._part.add("flows", each["_id"], msgspec.json.decode(each["value"], type=Flow))

    async def _schedules(self, _: Sequence[Any]) -> None:
        for each in await self._find(self._names.schedules, {}):
            self._part.add("schedules", each["_id"], msgspec.json.decode(each["value"], type=KeptSchedule))
        self._part.known.read.add(("schedules", ALL))

    async def _audits(self, actions: Sequence[UUID]) -> None:
        for each in await self._find(self._names.audits, {"_id": {"$in": actions}}):
            self._part.add("audits", each["_id"], msgspec.json.decode(each["value"], type=KeptAudit))

    async def _rates(self, _: Sequence[Any]) -> None:
        for each in await self._find(self._names.rates, {}):
            key = msgspec.json.decode(each["_id"], type=tuple[Scope, str | None])
            self._part.add("rates", key, each["ready_at"])
        self._part.known.read.add(("rates", ALL))

    async def _attempts(self, jobs: Sequence[UUID]) -> None:
        self._add_attempts(await self._find(self._names.attempts, {"job": {"$in": jobs}}))

    async def _attempts_of_one(self, keys: Sequence[tuple[UUID, Token]]) -> None:
        ids = [attempt_id(job, token) for job, token in keys]
        self._add_attempts(await self._find(self._names.attempts, {"_id": {"$in": ids}}))

    def _add_attempts(self, found: Iterable[Document]) -> None:
        for each in found:
            key = each["_id"]
            value = msgspec.json.decode(each["value"], type=SettledAttempt)
            self._part.add("attempts", (key["job"], Token(key["claim"], key["number"])), value)

    async def _steps(self, jobs: Sequence[UUID]) -> None:
        self._add_steps(await self._find(self._names.steps, {"job": {"$in": jobs}}))

    async def _steps_of_one(self, keys: Sequence[tuple[UUID, tuple[str, int]]]) -> None:
        ids = [{"job": job, "name": name, "nth": nth} for job, (name, nth) in keys]
        self._add_steps(await self._find(self._names.steps, {"_id": {"$in": ids}}))

    def _add_steps(self, found: Iterable[Document]) -> None:
        for each in found:
            record = msgspec.json.decode(each["value"], type=StepRecord)
            self._part.add("steps", (each["job"], record.key), record)

    async def _edges(self, children: Sequence[UUID]) -> None:
        self._add_edges(await self._find(self._names.edges, {"child": {"$in": children}}))

    async def _edges_of_one(self, keys: Sequence[tuple[UUID, UUID]]) -> None:
        ids = [{"child": child, "parent": parent} for child, parent in keys]
        self._add_edges(await self._find(self._names.edges, {"_id": {"$in": ids}}))

    def _add_edges(self, found: Iterable[Document]) -> None:
        for each in found:
            self._part.add("edges", (each["child"], each["parent"]), msgspec.json.decode(each["value"], type=Edge))

    async def _holds(self, leases: Sequence[UUID]) -> None:
        await self._add_jobs(await self._find(self._names.jobs, {"active": {"$in": leases}}))

    async def _keys(self, keys: Sequence[tuple[str, str]]) -> None:
        locks = [lock_of(*key) for key in keys]
        await self._add_jobs(await self._find(self._names.jobs, {"lock": {"$in": locks}}))

    async def _members(self, flows: Sequence[UUID]) -> None:
        found = await self._find(self._names.jobs, {"flow": {"$in": flows}})
        await self._add_jobs(found)
        await self.load([("edges", each["_id"]) for each in found])

    async def _children(self, parents: Sequence[UUID]) -> None:
        """Read what depends on jobs. A verb that asks again passes something on, so each time it gets four times as many levels."""
        levels, self._levels = self._levels, min(4 * self._levels, MANY)
        parents = [*dict.fromkeys([*parents, *self._siblings_of(parents)])]
        edges = {"from": self._names.edges, "startWith": "$child", "connectFromField": "child", "connectToField": "parent"}
        pipeline: list[Document] = [{"$match": {"parent": {"$in": parents}}}]
        if levels > 1:
            pipeline.append({"$graphLookup": {**edges, "maxDepth": levels - 2, "depthField": "depth", "as": "below"}})
        found = await self._find(self._names.edges, pipeline)
        below = {(each["child"], each["parent"]): each for first in found for each in first.pop("below", ())}
        near = [*found, *(each for each in below.values() if each["depth"] < levels - 2)]
        self._add_edges([*found, *below.values()])
        known = self._part.known.read
        known.update(("edges of one", (each["child"], each["parent"])) for each in (*found, *below.values()))
        children = {each["child"] for each in (*found, *below.values())}
        known.update(("children", each["child"]) for each in near if levels > 1)
        known.update(("children", each) for each in parents)
        await self.load([("jobs", child) for child in children])
        if levels > 1:
            await self._load_flows_of(children)

    def _siblings_of(self, jobs: Sequence[UUID]) -> Iterable[UUID]:
        """Return the members of the same flows, as far as they are here: a verb that looks at one of many will look at all."""
        flows = {self.documents[job].get("flow") for job in jobs if job in self.documents}
        read = {flow for flow in flows if ("members", flow) in self._part.known.read}
        return (job for job, each in self.documents.items() if each.get("flow") in read)

    async def _load_flows_of(self, jobs: Collection[UUID]) -> None:
        """Read all members of the flows of these jobs, unless there are many."""
        flows = {self.documents[job]["flow"] for job in jobs if "flow" in self.documents.get(job, ())}
        flows = {flow for flow in flows if ("members", flow) not in self._part.known.read}
        found = await self._find(self._names.jobs, {"flow": {"$in": [*flows]}}, limit=MANY) if flows else []
        if flows and len(found) < MANY:
            await self._add_jobs(found)
            await self.load([("edges", each["_id"]) for each in found])
            self._part.known.read.update(("members", flow) for flow in flows)

    async def _find(self, name: str, which: Any, **options: Any) -> list[Document]:
        return await self._database.find(name, which, session=self._session, **options)


def unexpired(now: datetime) -> Document:
    """Return the filter of jobs that may be started: only a first attempt can come too late."""
    return {"expiring": {"$not": {"$lte": now}}}


def attempt_id(job: UUID, token: Token) -> Document:
    """Return the id of the record of an attempt."""
    return {"job": job, "number": token.number, "claim": token.claim}


def lease_of(found: Mapping[str, Any]) -> Lease:
    """Return the lease of a document."""
    end = found.get("end")
    return Lease(
        msgspec.json.decode(found["spec"], type=NewLease),
        opened_at=found["opened_at"],
        renewed_at=stamp_of(found["renewed_at"]),
        expires_at=stamp_of(found["expires_at"]),
        renewals=found["renewals"],
        is_draining=found["is_draining"],
        end=None if end is None else msgspec.json.decode(end, type=LeaseEnd),
        ended_at=found.get("ended_at"),
        started=found.get("started", 0),
        voids=found.get("voids", 0),
    )

"""The changes of a part as statements, for one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import KeptAudit
from holdfast._core.book.table import RowChange
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.steps import Signal
from holdfast._core.text import json_text, storable_text
from holdfast.databases.mongo.caller import CallerDatabase
from holdfast.databases.mongo.database import Document, MongoDatabase, Session
from holdfast.stores.mongo.documents import date, job_document, lease_document, stamp_of
from holdfast.stores.mongo.loading import attempt_id
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.part import PartBook
from holdfast.stores.mongo.schema import INDEXED

MOST_STATEMENTS, MOST_BYTES = 1000, 12 * 2**20
"""Of one command; the server takes 16 MiB, and raw commands are not split by the driver."""

MOST_REPLACED = 16 * 2**10
"""The bytes of the largest document that is replaced."""

_KEPT = frozenset(("_id", "call", "touched", "digest"))
"""Fields of a job's document that do not follow from its row."""


_LARGE = (str, dict, list)


class Writer:
    """Turns changes into statements. ``documents``: those of jobs as they were read."""

    def __init__(self, names: Names, part: PartBook, documents: Mapping[UUID, Document], now: datetime, term: int) -> None:
        self._names, self._part, self._documents, self._now, self._term = names, part, documents, now, term
        self._floor = now - timedelta(seconds=RETENTION_FLOOR)
        self._updates, self._inserts = defaultdict[str, list[Document]](list), defaultdict[str, list[Document]](list)
        self._deletes = defaultdict[str, list[Any]](list)
        self._plain_calls, self._forgotten_calls = list[UUID](), list[UUID]()
        self._jobs, self._touched_jobs, self._touched_flows = set[UUID](), set[UUID](), set[UUID]()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self._updates or self._inserts or self._deletes or self._forgotten_calls)

    def touch_job(self, job: UUID) -> None:
        """Conflict with every other write to this job, because what is written depends on it."""
        self._touched_jobs.add(job)

    def delete(self, name: str, ids: Sequence[Any]) -> None:
        """Delete documents of a collection that no part has."""
        if ids:
            self._deletes[name] += ids

    def touch_limits(self) -> None:
        """Conflict with every other claim that limits count."""
        self._updates[self._names.state].append({"q": {"_id": "limited"}, "u": {"$inc": {"touched": 1}}, "upsert": True})

    def break_fence(self, job: UUID) -> None:
        """Let an open transaction of the job's owner fail, because the job is taken from it."""
        old = self._documents.get(job)
        if old is not None and "fence" in old:
            fence = {"job": job, "number": old["number"], "claim": old["claim"]}
            change = {"$set": {"broken": True}}
            self._updates[self._names.fences].append({"q": {"_id": fence}, "u": change, "upsert": True})

    def touch_lease(self, lease: UUID) -> None:
        """Conflict with every other write to this lease."""
        self._updates[self._names.leases].append({"q": {"_id": lease}, "u": {"$inc": {"touched": 1}}})

    def add(self, changes: Iterable[RowChange]) -> None:
        """Turn the changes of a verb into statements."""
        settings = False
        for name, key, row in changes:
            if name in ("jobs", "marks", "places"):
                self._jobs.add(key)
            elif name in ("paused_queues", "queue_settings", "limits"):
                settings = True
            elif name != "numbers":
                getattr(self, f"_add_{name}")(key, row)
        self._add_jobs()
        for call in self._plain_calls:
            self._inserts[self._names.jobs].append(_receipt(call, self._now, EnqueueAnswer()))
        for flow in self._touched_flows:
            size = {"size": self._part.sizes.get(flow, 0)}
            self._updates[self._names.flows].append({"q": {"_id": flow}, "u": {"$inc": {"v": 1}, "$set": size}})
        for job in self._touched_jobs - self._jobs:
            self._updates[self._names.jobs].append({"q": {"_id": job}, "u": {"$inc": {"touched": 1}}})
        if settings:
            self._updates[self._names.state].append({"q": {"_id": "settings"}, "u": {"$set": self._settings()}})

    async def write(self, database: MongoDatabase | CallerDatabase, session: Session) -> None:
        """Send the statements: what frees a unique key before what takes it."""
        if self._forgotten_calls:
            receipts = {"call": {"$in": self._forgotten_calls}, "received_at": {"$exists": True}}
            await _send(database, session, "delete", self._names.jobs, "deletes", [{"q": receipts, "limit": 0}])
        for name, ids in self._deletes.items():
            await _send(database, session, "delete", name, "deletes", [{"q": {"_id": {"$in": ids}}, "limit": 0}])
        for name, updates in self._updates.items():
            updates.sort(key=lambda each: "lock" in each["u"].get("$set", ()) if isinstance(each["u"], dict) else False)
            await _send(database, session, "update", name, "updates", updates)
        for name, documents in self._inserts.items():
            await _send(database, session, "insert", name, "documents", documents)

    def _add_jobs(self) -> None:
        content = self._part.content
        for job in self._jobs:
            row, old = self._part.raw("jobs", job), self._documents.get(job)
            if row is None:
                if old is not None:
                    self._remove_job(old)
                continue
            if row.member is not None:
                self._touched_flows.add(row.member.flow)
            new = job_document(row, content.marks.get(job), content.places.get(job))
            if old is None:
                if self._plain_calls:
                    new["call"] = self._plain_calls.pop()
                self._inserts[self._names.jobs].append(new)
            elif change := _difference(old, new):
                self._change_job(old, change)

    def _change_job(self, old: Document, change: Document) -> None:
        changed = {**old, **change.get("$set", {})}
        new = {name: value for name, value in changed.items() if name not in change.get("$unset", ())}
        if _is_cheaper_to_replace(old, new):
            self._deletes[self._names.jobs].append(old["_id"])
            self._inserts[self._names.jobs].append(new)
        else:
            self._updates[self._names.jobs].append({"q": {"_id": old["_id"]}, "u": change})

    def _remove_job(self, old: Document) -> None:
        self._deletes[self._names.jobs].append(old["_id"])
        if "call" in old and old["created_at"] > self._floor:
            self._inserts[self._names.jobs].append(_receipt(old["call"], old["created_at"], EnqueueAnswer()))

    def _add_receipts(self, call: UUID, row: Any) -> None:
        if row is None:
            self._forgotten_calls.append(call)
        elif row[1] == EnqueueAnswer():
            self._plain_calls.append(call)
        else:
            self._inserts[self._names.jobs].append(_receipt(call, *row))

    def _add_attempts(self, key: tuple[UUID, Any], row: Any) -> None:
        found = attempt_id(*key)
        if row is None:
            self._deletes[self._names.attempts].append(found)
            return
        document = {"job": key[0], "value": json_text(row)}
        if row.prunable_from is not None:
            document["brief_at"] = date(row.prunable_from)
        if self._is_active(found):  # it has no record: that is written with the end of the attempt
            self._inserts[self._names.attempts].append({"_id": found, **document})
        else:
            self._put(self._names.attempts, found, document)

    def _is_active(self, attempt: Document) -> bool:
        old = self._documents.get(attempt["job"], {})
        return "active" in old and (old["number"], old.get("claim")) == (attempt["number"], attempt["claim"])

    def _add_leases(self, lease: UUID, row: Any) -> None:
        if row is None:
            self._deletes[self._names.leases].append(lease)
        else:
            document = lease_document(row)
            del document["_id"]
            is_renewed = row.renewed_at == stamp_of(self._now)
            document["term"] = self._term if is_renewed else self._part.terms.get(lease, self._term)
            self._put(self._names.leases, lease, document)

    def _add_schedules(self, name: str, row: Any) -> None:
        if row is None:
            self._deletes[self._names.schedules].append(name)
        else:
            self._put(self._names.schedules, name, {"value": json_text(row)})

    def _add_audits(self, action: UUID, row: KeptAudit) -> None:
        entry = row.entry
        names = {"action": storable_text(entry.action), "who": storable_text(entry.who)}
        document = {"at": date(entry.at), **names, "value": json_text(row)}
        self._put(self._names.audits, action, document)

    def _add_rates(self, key: Any, row: int | None) -> None:
        if row is None:
            self._deletes[self._names.rates].append(json_text(key))
        else:
            self._put(self._names.rates, json_text(key), {"ready_at": row})

    def _add_steps(self, key: tuple[UUID, tuple[str, int]], row: Any) -> None:
        job, (name, nth) = key
        found = {"job": job, "name": name, "nth": nth}
        if row is None:
            self._deletes[self._names.steps].append(found)
        else:
            self._touched_jobs.add(job)
            self._put(self._names.steps, found, {"job": job, "value": json_text(row)})

    def _add_signals(self, job: UUID, row: Sequence[Signal] | None) -> None:
        self._touched_jobs.add(job)
        before = self._part.before("signals", job) or ()
        left = {each.call for each in row or ()}
        self._deletes[self._names.signals] += [each.call for each in before if each.call not in left]
        known = {each.call for each in before}
        place = self._part.last_signals.get(job, 0) + 1
        for number, each in enumerate(row or ()):
            if each.call not in known:
                self._inserts[self._names.signals].append(
                    {"_id": each.call, "job": job, "place": place + number, "value": json_text(each)}
                )

    def _add_flows(self, flow: UUID, row: Any) -> None:
        if row is None:
            self._deletes[self._names.flows].append(flow)
        else:
            self._put(self._names.flows, flow, {"value": json_text(row)})
            self._touched_flows.add(flow)

    def _add_edges(self, key: tuple[UUID, UUID], row: Any) -> None:
        child, parent = key
        found = {"child": child, "parent": parent}
        if row is None:
            self._deletes[self._names.edges].append(found)
            return
        self._put(self._names.edges, found, {"child": child, "parent": parent, "value": json_text(row)})
        for job in (child, parent):
            member = getattr(self._part.raw("jobs", job), "member", None)
            if member is not None:
                self._touched_flows.add(member.flow)

    def _put(self, name: str, key: Any, fields: Document) -> None:
        self._updates[name].append({"q": {"_id": key}, "u": {"$set": fields}, "upsert": True})

    def _settings(self) -> Document:
        content = self._part.content
        return {
            "paused": [[queue, date(at)] for queue, at in content.paused_queues.items()],
            "queues": [[queue, json_text(settings)] for queue, settings in content.queue_settings.items()],
            "limits": [json_text([scope, kept]) for scope, kept in content.limits.items()],
        }


def _receipt(call: UUID, at: datetime, answer: EnqueueAnswer) -> Document:
    # The call of a schedule's tick is the id of its job, which may be enqueued again while the receipt is kept.
    return {"_id": {"call": call}, "call": call, "received_at": date(at), "answer": json_text(answer)}


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    """Return the update that turns one document into the other; empty if they are alike."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    kept = _KEPT | {"fence"} if "active" in new else _KEPT
    gone = {name: "" for name in old if name not in new and name not in kept}
    return {verb: fields for verb, fields in (("$set", changed), ("$unset", gone)) if fields}


def _is_cheaper_to_replace(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether to delete and insert a document rather than to update it.

    In a transaction of MongoDB 6 the update of an indexed field takes time that grows with the square of the number of indexes: 0.4 ms for
    one of ``jobs``, where a deletion and an insert take 0.07 ms. The owner of an active job updates it without a transaction, and would not
    find it while it is replaced.
    """
    stays_active = "active" in old and "active" in new
    return not stays_active and weight_of(new) <= MOST_REPLACED and any(old.get(name) != new.get(name) for name in INDEXED)


async def _send(
    database: MongoDatabase | CallerDatabase, session: Session, verb: str, name: str, part: str, statements: Sequence[Document]
) -> None:
    for some in batches(statements):
        await database.write({verb: name, part: some, "ordered": True}, session=session)


def batches(statements: Sequence[Document], weights: Iterable[int] | None = None) -> Iterable[Sequence[Document]]:
    """Split statements into those of one command each."""
    some, size = list[Document](), 0
    for each, weight in zip(statements, map(weight_of, statements) if weights is None else weights, strict=True):
        if some and (len(some) >= MOST_STATEMENTS or size + weight > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += weight
    if some:
        yield some


def weight_of(value: Any) -> int:
    """Return about how many bytes a value takes."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="replace"))
    if isinstance(value, dict):
        return 20 + 20 * len(value) + sum(weight_of(each) if isinstance(each, _LARGE) else 20 for each in value.values())
    if isinstance(value, list):
        return 20 + sum(weight_of(each) if isinstance(each, _LARGE) else 20 for each in value)
    return 20

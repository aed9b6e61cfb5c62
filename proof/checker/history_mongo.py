"""The history of real processes on one MongoDB replica set: its change stream has each document before and after each write.

The stream has only what a majority of the members keeps, in the order of the log, so writes that a fail-over undoes leave no event. Its
times are those of the primary. Where the clocks of the members differ, documents with the time of the process log show by how much.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from bson.codec_options import CodecOptions
from msgspec import structs
from pymongo import MongoClient
from pymongo.database import Database

from holdfast._core.job import RescueReason
from holdfast._core.mongo_url import MongoUrl
from holdfast._core.record import JobRecord
from holdfast.stores.mongo.documents import record_of
from holdfast.stores.mongo.loading import lease_of
from holdfast.stores.mongo.names import Names
from proof.checker.book_rows import job_row, lease_row
from proof.checker.history import By, Event, History, LeaseRow, Phase, label
from proof.checker.process_log import ProcessEvent

Document = dict[str, Any]

_HISTORY = "history"
_CODEC: CodecOptions[Document] = CodecOptions(tz_aware=True, uuid_representation=4)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 60_000
"""Milliseconds that the stream may take until it has all."""


def watch(url: str, *, schema: str = "holdfast") -> None:
    """Let the server keep each document as it was before a write, from now on; the schema must be there."""
    names = Names(schema)
    with MongoClient[Document](url) as client:
        database = client.get_database(MongoUrl.of(url).database, _CODEC)
        for name in (names.jobs, names.leases):
            database.command("collMod", name, changeStreamPreAndPostImages={"enabled": True})
        began = client.admin.command("hello")["operationTime"]
        database[_HISTORY].insert_one({"_id": "began", "at": began})


def note_time(url: str, clock: Callable[[], float]) -> None:
    """Write what time it is by the clock of the process log, in seconds since the epoch."""
    with MongoClient[Document](url, serverSelectionTimeoutMS=1000) as client:
        history = client.get_database(MongoUrl.of(url).database)[_HISTORY]
        client.admin.command("ping")  # connecting takes time
        history.insert_one({"clock": clock()})


def read(url: str, process_log: Iterable[ProcessEvent] = (), *, schema: str = "holdfast") -> History:
    """Return the history so far, with the events of the process log, in the order of time."""
    with MongoClient[Document](url) as client:
        changes = _joined([*_changes(client.get_database(MongoUrl.of(url).database, _CODEC), Names(schema))])
        terms = [*client["local"]["oplog.rs"].aggregate([{"$group": {"_id": "$t", "ts": {"$min": "$ts"}}}, {"$sort": {"ts": 1}}])]
    clocks = _Clocks(terms, changes)
    began = _seconds(clocks.true(changes[0])) if changes else 0.0
    reader = _Reader(clocks, began)
    jobs, leases = Names(schema).jobs, Names(schema).leases
    events = list[Event]()
    for change in changes:
        if change["ns"]["coll"] == jobs:
            events += reader.job_events(change)
        elif change["ns"]["coll"] == leases:
            events += reader.lease_events(change)
    return History(sorted([*events, *(each.event(began) for each in process_log)], key=lambda event: event.time))


class _Clocks:
    """How many whole seconds the clock of each primary was ahead of the process log's, by what was noted in its term, or else before."""

    def __init__(self, terms: Sequence[Document], changes: Sequence[Document]) -> None:
        self._begins, self._terms = [each["ts"] for each in terms], [each["_id"] for each in terms]
        self._ahead = dict[int, timedelta]()
        for change in changes:
            if "clock" in (found := change.get("fullDocument") or {}):
                term, ahead = self._term(change), change["wallTime"] - _EPOCH - timedelta(seconds=found["clock"])
                self._ahead[term] = min(ahead, self._ahead.get(term, ahead))  # the way to the server takes time

    def true(self, change: Document) -> datetime:
        """Return when a change was made, by the clock of the process log."""
        at: datetime = change["wallTime"]
        term = self._term(change)
        noted = max((each for each in self._ahead if each <= term), default=None)
        return at if noted is None else at - timedelta(seconds=round(self._ahead[noted].total_seconds()))

    def _term(self, change: Document) -> int:
        return int(self._terms[bisect_right(self._begins, change["clusterTime"]) - 1])


def _changes(database: Database[Document], names: Names) -> Iterator[Document]:
    (first,) = database[_HISTORY].find({"_id": "began"})
    end = database[_HISTORY].insert_one({"is_asked": True}).inserted_id
    wanted = [{"$match": {"ns.coll": {"$in": [names.jobs, names.leases, _HISTORY]}}}]
    with database.watch(
        wanted,
        full_document="whenAvailable",
        full_document_before_change="whenAvailable",
        start_at_operation_time=first["at"],
        max_await_time_ms=_LONGEST,
    ) as stream:
        for change in stream:
            if change["ns"]["coll"] == _HISTORY and change["documentKey"]["_id"] == end:
                return
            yield change


def _joined(changes: Sequence[Document]) -> list[Document]:
    """Make one change of the deletion and the insert of a document in the same transaction: it was replaced."""
    before = {_place(each): each.get("fullDocumentBeforeChange") for each in changes if _is(each, "delete")}
    replaced = {_place(each) for each in changes if _is(each, "insert")} & before.keys()
    found = list[Document]()
    for change in changes:
        is_replaced = _place(change) in replaced
        if not (is_replaced and _is(change, "delete")):
            found.append({**change, "fullDocumentBeforeChange": before[_place(change)]} if is_replaced else change)
    return found


def _is(change: Document, what: str) -> bool:
    return change["operationType"] == what and "txnNumber" in change


def _place(change: Document) -> tuple[object, ...]:
    """Return what names a document within a transaction."""
    return change["ns"]["coll"], change["documentKey"]["_id"], change.get("lsid", {}).get("id"), change.get("txnNumber")


class _Reader:
    def __init__(self, clocks: _Clocks, began: float) -> None:
        self._clocks, self._began = clocks, began
        self._runs_out = dict[UUID, datetime]()

    def job_events(self, change: Document) -> Iterator[Event]:
        before, after = _job(change.get("fullDocumentBeforeChange")), _job(change.get("fullDocument"))
        if before is None and after is None:
            return  # a receipt
        at, known = change["wallTime"], [row for row in (after, before) if row is not None]
        lease = next((row.lease for row in known if row.lease), None)
        old, new = (None if row is None else job_row(row, at) for row in (before, after))
        yield self._event(change, "job", job=known[0].id, token=known[0].token, lease=lease, before=old, after=new)

    def lease_events(self, change: Document) -> Iterator[Event]:
        found, before = change.get("fullDocument"), change.get("fullDocumentBeforeChange")
        if found is None:
            return  # it was pruned
        lease, old = lease_of(found), self._row(change, before)
        if before is None or before["expires_at"] != found["expires_at"]:  # it was written by the clock of this primary
            self._runs_out[lease.spec.id] = self._clocks.true(change) + (found["expires_at"] - change["wallTime"])
        by = None if lease.end is None else By("end_lease", is_judged=lease.end.reason is RescueReason.EXPIRED)
        is_closed = lease.end is not None and lease.end.reason is RescueReason.CLOSED
        made = self._event(change, "lease", lease=lease.spec.id, before=old, after=self._row(change, found))
        yield structs.replace(made, process=label(lease.spec.process) if is_closed else "", by=by)

    def _row(self, change: Document, found: Document | None) -> LeaseRow | None:
        if found is None:
            return None
        lease = lease_of(found)
        return lease_row(lease, (self._clocks.true(change) - self._runs_out[lease.spec.id]).total_seconds())

    def _event(self, change: Document, what: str, **values: Any) -> Event:
        return Event(time=_seconds(self._clocks.true(change)) - self._began, process="", what=what, phase=Phase.TRUTH, **values)


def _job(found: Document | None) -> JobRecord | None:
    return None if found is None or "state" not in found else record_of(found)


def _seconds(at: datetime) -> float:
    return (at - _EPOCH) / timedelta(seconds=1)

"""The history of real processes on one MongoDB replica set: its change stream has each document before and after each write.

The stream has only what a majority of the members keeps, in the order of the log, so writes that a fail-over undoes leave no event. Its
times are those of the primary. On one machine that is also the clock of the process log.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bson.codec_options import CodecOptions
from msgspec import structs
from pymongo import MongoClient

from holdfast._core.job import RescueReason
from holdfast._core.mongo_url import MongoUrl
from holdfast._core.record import JobRecord
from holdfast.stores.mongo.documents import date_of, record_of
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


def read(url: str, process_log: Iterable[ProcessEvent] = (), *, schema: str = "holdfast") -> History:
    """Return the history so far, with the events of the process log, in the order of time."""
    changes = [*_changes(url, Names(schema))]
    began = _seconds(changes[0]["wallTime"]) if changes else 0.0
    jobs = Names(schema).jobs
    events = [
        event for change in changes for event in (_job_events if change["ns"]["coll"] == jobs else _lease_events)(change, began)
    ]
    return History(sorted([*events, *(each.event(began) for each in process_log)], key=lambda event: event.time))


def _changes(url: str, names: Names) -> Iterator[Document]:
    with MongoClient[Document](url) as client:
        database = client.get_database(MongoUrl.of(url).database, _CODEC)
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
                if change["ns"]["coll"] != _HISTORY:
                    yield change
                elif change["documentKey"]["_id"] == end:
                    return


def _job_events(change: Document, began: float) -> Iterator[Event]:
    before, after = _job(change.get("fullDocumentBeforeChange")), _job(change.get("fullDocument"))
    if before is None and after is None:
        return  # a receipt
    at, known = change["wallTime"], [row for row in (after, before) if row is not None]
    lease = next((row.lease for row in known if row.lease), None)
    old, new = (None if row is None else job_row(row, at) for row in (before, after))
    yield _event(at, began, "job", job=known[0].id, token=known[0].token, lease=lease, before=old, after=new)


def _job(found: Document | None) -> JobRecord | None:
    return None if found is None or "state" not in found else record_of(found)


def _lease_events(change: Document, began: float) -> Iterator[Event]:
    found, at = change.get("fullDocument"), change["wallTime"]
    if found is None:
        return  # it was pruned
    lease, old = lease_of(found), _lease_row(change.get("fullDocumentBeforeChange"), at)
    by = None if lease.end is None else By("end_lease", is_judged=lease.end.reason is RescueReason.EXPIRED)
    is_closed = lease.end is not None and lease.end.reason is RescueReason.CLOSED
    made = _event(at, began, "lease", lease=lease.spec.id, before=old, after=_lease_row(found, at))
    yield structs.replace(made, process=label(lease.spec.process) if is_closed else "", by=by)


def _lease_row(found: Document | None, at: datetime) -> LeaseRow | None:
    if found is None:
        return None
    lease = lease_of(found)
    return lease_row(lease, (at - date_of(lease.expires_at)).total_seconds())


def _event(at: datetime, began: float, what: str, **values: Any) -> Event:
    return Event(time=_seconds(at) - began, process="", what=what, phase=Phase.TRUTH, **values)


def _seconds(at: datetime) -> float:
    return (at - _EPOCH) / timedelta(seconds=1)

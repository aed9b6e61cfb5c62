"""Rows of a book as documents. What queries and updates look at are fields; what is only carried is JSON.

Instants are dates, which have milliseconds: those that have not come yet are rounded up. A *presence field* exists exactly while its
index must list the job, so history and jobs that wait for later cost the others nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.book.job_row import body_of, body_text
from holdfast._core.book.rows import KeptBeat, Lease, Marks, Range, kept_beat
from holdfast._core.encoding import failure_of, failure_text
from holdfast._core.job import ACTIVE, FINISHED, HeldFor, Reason, Rescue, State, Token
from holdfast._core.member import Member
from holdfast._core.policy import RETENTION_FLOOR, Policy, policy_of
from holdfast._core.record import JobRecord, begun, needs_isolation, retention_of
from holdfast._core.requests import BeatNote, NewLease
from holdfast._core.text import json_text, storable_text
from holdfast._core.unique_keys import keeps_key, key_kept_until
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness

Document = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISOLATED, _OTHERS = "!", "-"
_STATES = {state.value: state for state in State}
_MIDDLE: Final = 2**63  # priorities sort as text once they are not negative


def date(at: datetime) -> datetime:
    """Return an instant in milliseconds, rounded up."""
    return at if not at.microsecond % 1000 else at + timedelta(microseconds=1000 - at.microsecond % 1000)


def stamp_of(at: datetime) -> int:
    """Return an instant as the microseconds that a book computes with."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def date_of(stamp: int) -> datetime:
    """Return the date of a stamp."""
    return date(_EPOCH + timedelta(microseconds=stamp))


def line_of(which: Range, *, is_isolated: bool = False) -> str:
    """Return the line in which jobs wait, as a string whose order is that of task, priority, queue and key."""
    task, queue, key, priority = which
    return "\0".join((_start(task, is_isolated=is_isolated), f"{priority + _MIDDLE:016x}", queue, key))


def range_in(line: str) -> Range:
    """Return what a line is."""
    task, priority, queue, key = line[1:].split("\0", 3)
    return task, queue, key, int(priority, 16) - _MIDDLE


def queue_in(line: object) -> str:
    """Return the queue of a line; an empty string for what is not a line.

    >>> queue_in(line_of(("send", "mail", "", 0)))
    'mail'
    """
    parts = line.split("\0", 3) if isinstance(line, str) else ()
    return parts[2] if len(parts) == 4 else ""


def lines_between(task: str, *, is_isolated: bool) -> tuple[str, str]:
    """Return two strings between which all lines of a task are."""
    start = _start(task, is_isolated=is_isolated)
    return f"{start}\0", f"{start}\1"


def lock_of(task: str, unique_key: str) -> str:
    """Return what only one job may have: the one to ask about its unique key."""
    return json_text([task, storable_text(unique_key)])


def job_document(row: JobRecord, marks: Marks | None, place: int | None) -> Document:  # size: one line for each field
    """Return the document of a job; fields that are ``None`` are left out."""
    member = row.member
    found = {
        "_id": row.id,
        "claim": row.token.claim,
        "number": row.token.number,
        "task": row.task,
        "queue": row.queue,
        "key": storable_text(row.key),
        "priority": row.priority,
        "state": row.state.value,
        "payload": body_text(row.payload),
        "policy": json_text(row.policy),
        "attempt": row.attempt,
        "failures": row.failures,
        "crashes": row.crashes,
        "created_at": date(row.created_at),
        "available_at": date(row.available_at),
        "claimed_at": _date(row.claimed_at),
        "started_at": _date(row.started_at),
        "finished_at": _date(row.finished_at),
        "reason": None if row.reason is None else row.reason.value,
        "error": failure_text(row.error),
        "result": None if row.result is None else body_text(row.result),
        "lease": row.lease,
        "worker": storable_text(row.worker),
        "stage": storable_text(row.stage),
        "fraction": row.fraction,
        "message": storable_text(row.message),
        "progress_at": _date(row.last_progress_at),
        "checkpoint": None if row.checkpoint is None else body_text(row.checkpoint),
        "is_marked": row.cancel_requested or None,
        "expires_at": _date(row.expires_at),
        "unique_key": storable_text(row.unique_key),
        "is_stub": row.is_stub or None,
        "rescue": None if row.rescue is None else json_text(row.rescue),
        "hook_due_at": _date(row.hook_due_at),
        "awaits": row.awaits,
        "held_for": None if row.held_for is None else row.held_for.value,
        "tags": [*row.tags] or None,
        "headers": json_text(dict(row.headers)) if row.headers else None,
        "flow": None if member is None else member.flow,
        "member": None if member is None else json_text(member),
        "points": row.points,
        "uniqueness": None if row.uniqueness == UNTIL_FINISHED else json_text(row.uniqueness),
        "place": place,
        "said": None if marks is None else marks.reported or None,
        **_presence(row),
    }
    return {name: value for name, value in found.items() if value is not None}


def _presence(row: JobRecord) -> Document:
    state, is_active = row.state, row.state in ACTIVE
    is_waiting, is_root = state is State.AVAILABLE, row.member is not None and row.member.flow == row.id
    has_limit = row.policy.timeout is not None or row.policy.progress_within is not None
    which = (row.task, row.queue, storable_text(row.key) or "", row.priority)
    is_owed = row.hook_due_at is not None and (state in FINISHED or state is State.HELD)
    prunable = row.finished_at is not None and (row.member is None or is_root)
    return {
        "line": line_of(which, is_isolated=needs_isolation(row)) if is_waiting else None,
        "active": row.lease if is_active else None,
        "marked": row.lease if is_active and row.cancel_requested else None,
        "timed": row.lease if is_active and has_limit else None,
        "lock": lock_of(row.task, row.unique_key or "") if keeps_key(row) else None,
        "locked_until": _date(key_kept_until(row)),
        "expiring": _date(row.expires_at) if is_waiting and row.attempt == 0 else None,
        "owed": row.task if is_owed else None,
        "open_flow": row.id if is_root and state not in FINISHED else None,
        "prune_at": _prune_at(row) if prunable else None,
        "error_key": None if row.error is None else row.error.key or None,
        "failed_at": _date(row.finished_at) if state is State.FAILED and not row.is_stub else None,
    }


def _prune_at(row: JobRecord) -> datetime | None:
    """Return when a finished job is reduced to a stub or, as one, deleted."""
    if row.finished_at is None:
        return None
    return date(row.finished_at + timedelta(seconds=RETENTION_FLOOR if row.is_stub else retention_of(row)))


def record_of(found: Mapping[str, Any], started: int = 0) -> JobRecord:  # size: one line for each field
    """Return the job of a document. ``started``: the claim number through which its lease has started its jobs."""
    get = found.get
    reason, result, checkpoint, rescue, held_for, member = map(
        get, ("reason", "result", "checkpoint", "rescue", "held_for", "member")
    )
    row = JobRecord(
        id=found["_id"],
        token=Token(get("claim"), found["number"]),
        task=found["task"],
        queue=found["queue"],
        key=found["key"],
        priority=found["priority"],
        state=_STATES[found["state"]],
        payload=_body(get("payload")) or b"",
        policy=_policy(get("policy")),
        attempt=found["attempt"],
        failures=found["failures"],
        crashes=found["crashes"],
        created_at=found["created_at"],
        available_at=found["available_at"],
        claimed_at=get("claimed_at"),
        started_at=get("started_at"),
        finished_at=get("finished_at"),
        reason=None if reason is None else Reason(reason),
        error=failure_of(get("error")),
        result=_body(result),
        lease=get("lease"),
        worker=get("worker"),
        stage=get("stage"),
        fraction=get("fraction"),
        message=get("message"),
        last_progress_at=get("progress_at"),
        checkpoint=_body(checkpoint),
        cancel_requested=get("is_marked", False),
        expires_at=get("expires_at"),
        unique_key=get("unique_key"),
        is_stub=get("is_stub", False),
        rescue=None if rescue is None else msgspec.json.decode(rescue, type=Rescue),
        hook_due_at=get("hook_due_at"),
        awaits=get("awaits"),
        held_for=None if held_for is None else HeldFor(held_for),
        tags=tuple(get("tags", ())),
        headers=tuple(sorted(msgspec.json.decode(get("headers", "{}")).items())),
        member=None if member is None else msgspec.json.decode(member, type=Member),
        points=get("points"),
        uniqueness=_uniqueness(get("uniqueness")),
    )
    return begun(row) if row.state is State.CLAIMED and row.token.number <= started else row


def _uniqueness(text: str | None) -> Uniqueness:
    return UNTIL_FINISHED if text is None else msgspec.json.decode(text, type=Uniqueness)


def marks_of(found: Mapping[str, Any]) -> Marks | None:
    """Return what a book keeps of an active job beside its record: it follows from the document."""
    claimed = found.get("claimed_at")
    if claimed is None:
        return None
    started, progress = found.get("started_at") or claimed, found.get("progress_at") or claimed
    moved = progress if progress > claimed else started
    return Marks(stamp_of(started), stamp_of(moved), found.get("said", 0))


def lease_document(lease: Lease) -> Document:
    """Return the document of a lease; fields that are ``None`` are left out."""
    found = {
        "_id": lease.spec.id,
        "spec": json_text(lease.spec),
        "ttl": lease.spec.timing.ttl,
        "opened_at": date(lease.opened_at),
        "renewed_at": date_of(lease.renewed_at),
        "expires_at": date_of(lease.expires_at),
        "renewals": lease.renewals,
        "is_draining": lease.is_draining,
        "end": None if lease.end is None else json_text(lease.end),
        "ended_at": _date(lease.ended_at),
        "started": lease.started,
        "voids": lease.voids,
        "alone": lease.spec.is_isolated or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def note_document(note: BeatNote, spec: NewLease, at: datetime) -> Document:
    """Return the document of a note that came with a beat."""
    return beat_document(kept_beat(note, spec, at))


def beat_document(kept: KeptBeat) -> Document:
    """Return the document of a note on a worker."""
    beat = kept.beat
    return {"worker": beat.worker, "at": date(beat.at), "value": json_text(beat), "delete_after": date(kept.delete_after)}


def receipt_of(found: Mapping[str, Any]) -> tuple[datetime, EnqueueAnswer]:
    """Return the receipt of a call, from the receipt's document or that of the first job of the call."""
    if "state" in found:
        return found["created_at"], EnqueueAnswer()
    return found["received_at"], msgspec.json.decode(found["answer"], type=EnqueueAnswer)


def _policy(text: Any) -> Policy:
    return _known_policy(text) if isinstance(text, str) else policy_of(text)


@lru_cache(256)
def _known_policy(text: str) -> Policy:
    return policy_of(text)


def _body(value: Any) -> bytes | None:
    """Return JSON as bytes; encode any other value, written by hand, so that its reader refuses it."""
    if value is None or isinstance(value, bytes):
        return value
    return body_of(value) if isinstance(value, str) else str(value).encode("utf-8", "replace")


def _date(at: datetime | None) -> datetime | None:
    return None if at is None else date(at)


def _start(task: str, *, is_isolated: bool) -> str:
    return f"{_ISOLATED if is_isolated else _OTHERS}{task}"

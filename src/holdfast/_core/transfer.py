"""What a job takes along to another store, and which jobs cannot be moved without losing something."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import structs

from holdfast._core.job import NewJob
from holdfast._core.record import JobRecord, is_expired
from holdfast._core.unique_keys import holds_key
from holdfast._core.uniqueness import Uniqueness

MOST_JOBS = 100
MOST_BYTES = 1024 * 1024
"""The jobs, and the bytes of their payloads, that one write takes along. A job that is larger goes alone."""


class Stays(StrEnum):
    """The reason why a job stays at the source."""

    WORKFLOW = "belongs to a workflow, or other jobs wait for it"
    STEPS = "has recorded steps or a checkpoint"
    HOOK = "its on_rescue has not run yet"
    EXPIRED = "has expired"
    HELD = "is held for an operator"
    BLOCKED = "waits for a signal or for other jobs"
    KEY_TAKEN = "an unfinished job at the destination has its unique key"
    ID_TAKEN = "a job of another task at the destination has its id"
    ALTERED = "the destination cannot keep one of its values"
    CHANGED = "changed at the source while it was copied"


def reason_to_stay(row: JobRecord, now: datetime) -> Stays | None:
    """Return why a waiting job must stay, as far as its record shows it; ``None``: it can be moved."""
    if row.member is not None:
        return Stays.WORKFLOW
    if row.checkpoint is not None:
        return Stays.STEPS
    if row.hook_due_at is not None:
        return Stays.HOOK
    return Stays.EXPIRED if is_expired(row, now) else None


def moved(row: JobRecord, queue_priority: int, now: datetime) -> NewJob:
    """Return a waiting job as a new one of the same id. ``queue_priority``: what its queue has added to its priority.

    It has fresh budgets, and its unique key only if it still holds it; a period of the key ends when it would at the source.
    It does not expire any more once it has been started: at the source it would not either.
    """
    expires_at = None if row.attempt else row.expires_at
    return NewJob(
        id=row.id,
        payload=row.payload,
        task=row.task,
        policy=row.policy,
        queue=row.queue,
        key=row.key,
        priority=row.priority - queue_priority,
        run_at=row.available_at,
        expires_in=None if expires_at is None else (expires_at - now).total_seconds(),
        unique_key=row.unique_key if holds_key(row, now) else None,
        uniqueness=_uniqueness_left(row, now),
        tags=row.tags,
        headers=row.headers,
    )


def _uniqueness_left(row: JobRecord, now: datetime) -> Uniqueness:
    period = row.uniqueness.period
    if period is None:
        return row.uniqueness
    return structs.replace(row.uniqueness, seconds=max(0.0, (row.created_at + period - now).total_seconds()))


def is_as_sent(row: JobRecord, sent: NewJob) -> bool:
    """Return whether a job has arrived with all its values. Its priority may have that of its new queue added."""
    fields = ("id", "payload", "task", "policy", "queue", "key", "unique_key", "tags", "headers", "uniqueness")
    return row.available_at == sent.run_at and all(getattr(row, name) == getattr(sent, name) for name in fields)


def parts_of(rows: Sequence[JobRecord]) -> list[list[JobRecord]]:
    """Return jobs in parts that one write takes.

    >>> parts_of([])
    []
    """
    parts, size = list[list[JobRecord]](), 0
    for row in rows:
        size += len(row.payload)
        if not parts or size > MOST_BYTES or len(parts[-1]) == MOST_JOBS:
            parts.append([])
            size = len(row.payload)
        parts[-1].append(row)
    return parts

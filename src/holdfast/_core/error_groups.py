"""Failed jobs as errors: those that share a fingerprint are one group."""

from collections.abc import Iterable
from datetime import datetime
from heapq import nlargest
from itertools import groupby
from uuid import UUID

from msgspec import Struct

from holdfast._core.failure_text import place_in
from holdfast._core.job import Failure, Reason, State
from holdfast._core.record import JobRecord

MESSAGE_LIMIT = 500
"""Characters of a message in a group; the job has all of it."""


class ErrorGroup(Struct, frozen=True, kw_only=True):
    """Failed jobs with one cause. ``type``, ``message``, ``where`` and ``job`` are those of the newest one; ``where``: file, line and
    function that raised. ``key``: empty for jobs without a fingerprint, which are grouped by task and reason."""

    key: str
    task: str
    reason: Reason | None
    type: str
    message: str
    where: str
    count: int
    first_at: datetime
    last_at: datetime
    job: UUID


class ErrorList(Struct, frozen=True, kw_only=True):
    """Groups of failed jobs, that with the newest failure first. ``kinds``: how many groups there are, also those that are not listed.
    ``looked_at``: the failed jobs that were read, the newest ones. ``back_to``: when the oldest of these failed."""

    groups: tuple[ErrorGroup, ...] = ()
    kinds: int = 0
    looked_at: int = 0
    back_to: datetime | None = None


def group_of(
    newest: UUID,
    task: str,
    reason: Reason | None,
    error: Failure | None,
    *,
    count: int,
    first_at: datetime,
    last_at: datetime,
) -> ErrorGroup:
    """Return a group, described by its newest job."""
    error = error or Failure("", "")
    return ErrorGroup(
        key=error.key,
        task=task,
        reason=reason,
        type=error.type,
        message=error.message if len(error.message) <= MESSAGE_LIMIT else f"{error.message[:MESSAGE_LIMIT]}…",
        where=place_in(error.traceback),
        count=count,
        first_at=first_at,
        last_at=last_at,
        job=newest,
    )


def grouped(rows: Iterable[JobRecord], look: int, limit: int) -> ErrorList:
    """Return the groups of the newest ``look`` of these jobs that failed."""
    failed = (row for row in rows if row.state is State.FAILED and not row.is_stub)
    looked = nlargest(look, failed, key=_age)
    groups = [[*each] for _, each in groupby(sorted(looked, key=_kind), key=_kind)]
    groups.sort(key=lambda each: max(map(_age, each)), reverse=True)
    return ErrorList(
        groups=tuple(_group(each) for each in groups[:limit]),
        kinds=len(groups),
        looked_at=len(looked),
        back_to=_age(looked[-1])[0] if looked else None,
    )


def _group(rows: list[JobRecord]) -> ErrorGroup:
    newest, oldest = max(rows, key=_age), min(rows, key=_age)
    first, last = _age(oldest)[0], _age(newest)[0]
    return group_of(newest.id, newest.task, newest.reason, newest.error, count=len(rows), first_at=first, last_at=last)


def _kind(row: JobRecord) -> tuple[str, str, str]:
    key = "" if row.error is None else row.error.key
    return (key, "", "") if key else ("", row.task, row.reason or "")


def _age(row: JobRecord) -> tuple[datetime, UUID]:
    return row.finished_at or row.created_at, row.id

"""Rows of a book as JSON: those that are there, and the keys of those that were deleted. It knows no order: a key occurs once."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.audit import KeptAudit
from holdfast._core.book.archive import Archive
from holdfast._core.book.content import Receipt
from holdfast._core.book.job_row import JobRow, SharedRead, SharedWritten
from holdfast._core.book.rows import KeptBeat, KeptLimit, KeptSchedule, Lease, Marks
from holdfast._core.book.table import RowChange
from holdfast._core.history import Minute
from holdfast._core.job import Token
from holdfast._core.limits import Scope
from holdfast._core.policy import Policy
from holdfast._core.record import SettledAttempt
from holdfast._core.requests import QueueSettings
from holdfast._core.steps import Signal, StepKey, StepRecord
from holdfast._core.text import json_text
from holdfast._core.workflow import Edge, Flow


class Deleted(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The keys of deleted rows, by table."""

    jobs: list[UUID] = []
    marks: list[UUID] = []
    places: list[UUID] = []
    attempts: list[tuple[UUID, Token]] = []
    receipts: list[UUID] = []
    leases: list[UUID] = []
    paused_queues: list[str] = []
    queue_settings: list[str] = []
    limits: list[Scope] = []
    rates: list[tuple[Scope, str | None]] = []
    schedules: list[str] = []
    beats: list[int] = []
    steps: list[tuple[UUID, StepKey]] = []
    signals: list[UUID] = []
    flows: list[UUID] = []
    edges: list[tuple[UUID, UUID]] = []
    archives: list[str] = []
    recalled: list[tuple[str, UUID]] = []
    audits: list[UUID] = []
    minutes: list[UUID] = []


class Tables(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Rows by table, with keys that JSON can express. ``strings`` and ``policies``: what records of jobs name by its position."""

    strings: list[str] = []
    policies: list[Policy] = []
    jobs: list[JobRow] = []
    marks: dict[UUID, Marks] = {}
    places: dict[UUID, int] = {}
    attempts: list[tuple[tuple[UUID, Token], SettledAttempt]] = []
    receipts: dict[UUID, Receipt] = {}
    leases: dict[UUID, Lease] = {}
    paused_queues: dict[str, datetime] = {}
    queue_settings: dict[str, QueueSettings] = {}
    limits: list[tuple[Scope, KeptLimit]] = []
    rates: list[tuple[tuple[Scope, str | None], int]] = []
    schedules: dict[str, KeptSchedule] = {}
    beats: dict[int, KeptBeat] = {}
    steps: list[tuple[tuple[UUID, StepKey], StepRecord]] = []
    signals: dict[UUID, tuple[Signal, ...]] = {}
    flows: dict[UUID, Flow] = {}
    edges: list[tuple[tuple[UUID, UUID], Edge]] = []
    archives: dict[str, Archive] = {}
    recalled: list[tuple[tuple[str, UUID], bool]] = []
    audits: dict[UUID, KeptAudit] = {}
    minutes: dict[UUID, Minute] = {}
    numbers: dict[str, int] = {}
    deleted: Deleted | None = None

    @classmethod
    def of(cls, changes: Iterable[RowChange]) -> "Tables":
        found, shared = cls(), SharedWritten()
        for name, key, row in changes:
            if row is None:
                found.deleted = found.deleted or Deleted()
                getattr(found.deleted, name).append(key)
            elif name == "jobs":
                found.jobs.append(JobRow.of(row, shared))
            elif name in _LISTS:
                getattr(found, name).append((key, row))
            else:
                getattr(found, name)[key] = row
        found.strings, found.policies = [*shared.strings], [*shared.policies]
        return found

    def changes(self) -> Iterator[RowChange]:
        """Return each row, and each deleted key, with the name of its table."""
        for name in () if self.deleted is None else Deleted.__struct_fields__:
            yield from ((name, key, None) for key in getattr(self.deleted, name))
        shared = SharedRead(self.strings, self.policies)
        yield from (("jobs", row.id, row.record(shared)) for row in self.jobs)
        for name in _LISTS:
            yield from ((name, key, row) for key, row in getattr(self, name))
        for name in _DICTS:
            yield from ((name, key, row) for key, row in getattr(self, name).items())


_LISTS = ("attempts", "limits", "rates", "steps", "edges", "recalled")
_DICTS = (
    *("marks", "places", "receipts", "leases", "paused_queues", "queue_settings", "schedules", "beats", "signals", "flows"),
    *("archives", "audits", "minutes", "numbers"),
)
_decoder = msgspec.json.Decoder(Tables)


def encode(changes: Iterable[RowChange]) -> bytes:
    """Return changes as JSON. ``UnicodeEncodeError``: a string has a character that UTF-8 cannot say."""
    return msgspec.json.encode(Tables.of(changes))


def encode_sayable(changes: Iterable[RowChange]) -> bytes:
    """Return changes as JSON in any case: a character that UTF-8 cannot say becomes a question mark."""
    return json_text(Tables.of(changes)).encode()


def decode(data: Any) -> Iterator[RowChange]:
    """Return the changes in JSON that ``encode`` made. ``msgspec.DecodeError``: it is damaged, or of a later release."""
    return _decoder.decode(data).changes()

"""What a store remembers of an operator's action: who did what, when, to how much, and why."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct, structs

AUDIT_RETENTION: Final = 90 * 86_400.0
"""Seconds for which actions are remembered."""


class AuditNote(Struct, frozen=True, kw_only=True):
    """An operator's action, as a write that belongs to it carries it. All writes of one action have the same ``id``.

    ``write``: the id of this write; a copy of it adds nothing to the count. ``origin``: dashboard, api, cli:user@host or app.
    ``selector``: the target or the filter, as JSON. ``up_to``: the newest that the person saw, if later jobs are left alone.
    """

    id: UUID
    write: UUID
    who: str
    origin: str
    action: str
    selector: str
    up_to: str | None = None
    reason: str | None = None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """An action as it was recorded. ``at``: on the store's clock, at its first write. ``count``: the jobs, queues or settings changed."""

    id: UUID
    at: datetime
    who: str
    origin: str
    action: str
    selector: str
    up_to: str | None = None
    count: int = 0
    reason: str | None = None


class AuditFilter(Struct, frozen=True, kw_only=True):
    """The actions to list, newest first; ``before`` is the last id of the previous page."""

    action: str | None = None
    who: str | None = None
    limit: int = 100
    before: UUID | None = None


class KeptAudit(Struct, frozen=True):
    """An action, and the id of its last write."""

    entry: AuditEntry
    write: UUID


def recorded(old: KeptAudit | None, note: AuditNote, count: int, at: datetime) -> KeptAudit:
    """Return what is kept of an action after a write that changed ``count``."""
    if old is None:
        return KeptAudit(AuditEntry(at=at, count=count, **{name: getattr(note, name) for name in _SHARED}), note.write)
    if old.write == note.write:
        return old
    return KeptAudit(structs.replace(old.entry, count=old.entry.count + count), note.write)


def is_listed(entry: AuditEntry, which: AuditFilter) -> bool:
    """Return whether an action matches."""
    is_before = which.before is None or entry.id < which.before
    return is_before and which.action in (None, entry.action) and which.who in (None, entry.who)


_SHARED: Final = tuple(name for name in AuditNote.__struct_fields__ if name != "write")

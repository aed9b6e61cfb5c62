"""The optional part of the store port that remembers what operators do."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import AuditEntry, AuditFilter, AuditNote
from holdfast._core.job import NewJob


class Auditing(Protocol):
    """The verbs for actions of operators. A store with them has ``Selectors``, too.

    Each verb that takes ``by`` writes the action in its own write: ``steer``, ``purge``, ``pause``, ``set_queue``, ``set_limit``,
    ``set_schedule``, ``remove_schedule``, ``steer_flow`` and ``request_drain``. The first write of an action adds its row, each later one
    adds to the count of that row, and a copy of the last write adds nothing. A write that fails, or that is refused, leaves no row.
    ``prune`` deletes rows that are older than ``AUDIT_RETENTION``.
    """

    async def audits(self, which: AuditFilter) -> tuple[AuditEntry, ...]:
        """Return matching actions, newest first."""
        ...

    async def enqueue_by(self, call: UUID, jobs: Sequence[NewJob], by: AuditNote) -> EnqueueAnswer:
        """Enqueue jobs for an operator, with the row of the action in the same write. A copy of the call adds nothing."""
        ...

    async def record_action(self, by: AuditNote, changed: int) -> None:
        """Record an action that writes nothing else in this store. A copy of the last write adds nothing."""
        ...

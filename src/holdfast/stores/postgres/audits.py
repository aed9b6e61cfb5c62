"""Actions of operators: the verb that lists them, and that by which operators enqueue. All others record theirs where they are."""

from collections.abc import Sequence
from contextlib import nullcontext
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import AuditEntry, AuditFilter, AuditNote
from holdfast._core.job import NewJob
from holdfast._core.text import storable_text
from holdfast.databases.readable import readable
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.audited import action
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.records import Row


class AuditVerbs(StoreDatabase):
    """The part of the store that has the verbs of ``_ports.auditing``."""

    async def audits(self, which: AuditFilter) -> tuple[AuditEntry, ...]:
        values = which.before, storable_text(which.action), storable_text(which.who), which.limit
        return readable(_entry_of, await self._fetch("audits", *values))

    async def enqueue_by(self, call: UUID, jobs: Sequence[NewJob], by: AuditNote) -> EnqueueAnswer:
        self._may_be_known(jobs)
        name, parameter = packing.enqueue(call, jobs, is_known=True)

        def count(rows: Sequence[Row]) -> int:
            answer = answers.enqueued(rows, jobs)
            return 0 if answer.is_refused else len(jobs) - len(answer.duplicates)

        async with self._here().keyed if any(job.unique_key is not None for job in jobs) else nullcontext():
            return answers.enqueued(await self._fetch_by(by, count, name, parameter), jobs)

    async def record_action(self, by: AuditNote, changed: int) -> None:
        await self._fetch("audit", *action(by, changed))


def _entry_of(row: Row) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        at=row["at"],
        who=row["who"],
        origin=row["origin"],
        action=row["action"],
        selector=row["selector"],
        up_to=row["up_to"],
        count=row["changed"],
        reason=row["reason"],
    )

"""Actions of operators in a file: each is recorded in the transaction of its write."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer, Purged, SteerAnswer, Vitals
from holdfast._core.audit import AuditEntry, AuditFilter, AuditNote
from holdfast._core.encoding import instant
from holdfast._core.job import NewJob
from holdfast._core.requests import JobFilter, QueueSettings, Steer, SteerVerb
from holdfast._core.text import json_text, storable_text
from holdfast._ports.clock import Clock
from holdfast.databases.readable import readable
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import micros, micros_of
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite import workflows
from holdfast.stores.sqlite.audited import audited, record_action
from holdfast.stores.sqlite.conditions import matching
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.records import Row

_NEWEST = UUID(int=2**128 - 1)


class AuditVerbs:
    """The part of the store that has the verbs of ``_ports.auditing``, and those of operators that are recorded."""

    _thread: ConnectionThread[StoreDatabase]
    _clock: Clock

    async def audits(self, which: AuditFilter) -> tuple[AuditEntry, ...]:
        before = (which.before or _NEWEST).bytes
        values = {"action": storable_text(which.action), "who": storable_text(which.who), "before": before, "limit": which.limit}
        return readable(_entry_of, await self._thread.run(lambda database: database.read("audits", **values)))

    async def enqueue_by(self, call: UUID, jobs: Sequence[NewJob], by: AuditNote) -> EnqueueAnswer:
        values = {**packing.jobs(jobs), "call": call.bytes, "inline": packing.INLINE}

        def enqueue(database: StoreDatabase) -> EnqueueAnswer:
            database.write("enqueue", **values)
            return answers.enqueued(database.read("receipt", call=call.bytes))

        def count(answer: EnqueueAnswer) -> int:
            return 0 if answer.is_refused else len(jobs) - len(answer.duplicates)

        return await self._thread.run(lambda database: audited(database, by, "enqueue", lambda: enqueue(database), count))

    async def record_action(self, by: AuditNote, changed: int) -> None:
        await self._thread.run(lambda database: record_action(database, by, changed))

    async def vitals(self) -> Vitals:
        def read(database: StoreDatabase) -> Vitals:
            ((version, lag),) = database.read("vitals")
            return Vitals(version, (lag or 0) / 1e6)

        return await self._thread.run(read)

    async def request_drain(self, lease: UUID, *, by: AuditNote | None = None) -> bool:
        def drain(database: StoreDatabase) -> int | None:
            """Return how many leases drain that did not before; ``None`` if this one has ended."""
            before = database.read("drains", lease=lease.bytes)
            database.write("request_drain", lease=lease.bytes)
            return 1 - before[0][0] if before else None

        def write(database: StoreDatabase) -> int | None:
            return audited(database, by, "request_drain", lambda: drain(database), lambda changed: changed)

        return await self._thread.run(write) is not None

    async def steer(self, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None) -> SteerAnswer:
        values, more = {**packing.ids(ids), **matching(which)}, packing.due(how.delay, how.run_at)

        def steer(database: StoreDatabase) -> SteerAnswer:
            chosen = [UUID(bytes=job) for (job,) in database.read("matching", **values)]
            packed = packing.ids(chosen)
            before = [] if by is None else database.read("steered", **packed)
            if how.verb is SteerVerb.CANCEL:
                workflows.request_cancel(database, chosen)
            elif how.verb is SteerVerb.REOPEN:
                workflows.reopen(database, chosen, is_fresh=how.is_fresh)
            elif how.verb is SteerVerb.DELETE:
                workflows.delete(database, chosen, only_waiting=False)
            else:
                database.write(how.verb, **packed, **more)
            if by is not None:
                record_action(database, by, len({*before}.difference(database.read("steered", **packed))))
            return SteerAnswer(answers.states(database.read("states", **values)), frozenset(ids) - frozenset(chosen))

        return await self._thread.run(lambda database: database.atomically(how.verb, lambda: steer(database)))

    async def purge(self, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
        until = until or instant(micros(self._clock.wall()))
        at = micros_of(until)

        def purge(database: StoreDatabase) -> int:
            return audited(database, by, "purge", lambda: workflows.purge(database, queue, limit, at), lambda gone: gone)

        return Purged(await self._thread.run(purge), until)

    async def pause(self, queues: Sequence[str], *, is_paused: bool, by: AuditNote | None = None) -> None:
        names = json_text(queues)

        def pause(database: StoreDatabase) -> int:
            before = 0 if by is None else len(database.read("paused", queues=names))
            database.write("pause" if is_paused else "unpause", queues=names)
            return len({*queues}) - before if is_paused else before

        await self._thread.run(lambda database: audited(database, by, "pause", lambda: pause(database), lambda changed: changed))

    async def set_queue(self, queue: str, settings: QueueSettings | None, *, by: AuditNote | None = None) -> None:
        values = packing.queue(queue, settings)

        def write(database: StoreDatabase) -> int:
            return database.write("set_queue", **values)

        await self._thread.run(lambda database: audited(database, by, "set_queue", lambda: write(database), lambda _: 1))


def _entry_of(row: Row) -> AuditEntry:
    action, at, who, origin, verb, selector, up_to, changed, reason = row
    return AuditEntry(
        id=UUID(bytes=action),
        at=instant(at),
        who=who,
        origin=origin,
        action=verb,
        selector=selector,
        up_to=up_to,
        count=changed,
        reason=reason,
    )

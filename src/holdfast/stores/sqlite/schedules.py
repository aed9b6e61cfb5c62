"""The verbs of schedules on a file: each packs its values, runs its file of ``queries`` and maps the answer."""

from uuid import UUID

from holdfast._core.audit import AuditNote
from holdfast._core.encoding import instant, plan_of
from holdfast._core.schedule import Advance, Overlap, Schedule, ScheduleList, TickAnswer, version_of
from holdfast._core.text import json_text
from holdfast.databases.readable import readable
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import Values, micros_of
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite import workflows
from holdfast.stores.sqlite.audited import audited
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.records import Row

_NO_JOB: Values = dict.fromkeys(
    ("id", "task", "queue", "key", "priority", "delay", "run_at", "expires_in", "tags", "extra", "policy", "payload"), None
)


class ScheduleVerbs:
    """The part of the store that has the verbs of ``Scheduling`` in ``_ports.store``."""

    _thread: ConnectionThread[StoreDatabase]

    async def schedules(self) -> ScheduleList:
        return await self._schedules(is_due=False)

    async def ticks(self, limit: int) -> ScheduleList:
        return await self._schedules(is_due=True, limit=limit)

    async def advance(self, move: Advance) -> TickAnswer:
        values: Values = {
            **(_NO_JOB if move.job is None else packing.single(move.job)),
            "schedule": move.name,
            "version": move.version,
            "next_version": version_of(move.change),
            "change": move.change.bytes,
            "tick": micros_of(move.tick),
            "following": micros_of(move.following),
            "overlap": move.overlap.value,
            "inline": packing.INLINE,
        }

        def advance(database: StoreDatabase) -> TickAnswer:
            has_landed = database.write_changed("advance", **values)
            found = database.read("advance_answer", **values)
            if not has_landed and (not found or not found[0][0]):
                return TickAnswer.LOST
            if move.job is None:
                return TickAnswer.DROPPED
            return TickAnswer.FIRED if found and found[0][1] else TickAnswer.SKIPPED

        def advance_and_cancel(database: StoreDatabase) -> TickAnswer:
            last = [UUID(bytes=job) for (job,) in database.read("last_job", **values)]
            answer, is_fired = advance(database), database.read("last_job", **values) != [(job.bytes,) for job in last]
            workflows.request_cancel(database, last if is_fired else [])
            return answer

        cancels = move.overlap is Overlap.CANCEL and move.job is not None
        return await self._thread.run(
            lambda database: (
                database.atomically("advance", lambda: advance_and_cancel(database)) if cancels else advance(database)
            )
        )

    async def set_schedule(self, schedule: Schedule, change: UUID, *, by: AuditNote | None = None) -> bool:
        values: Values = {
            "schedule": schedule.name,
            "plan": json_text(schedule.plan),
            "next_at": micros_of(schedule.next_at),
            "paused_at": micros_of(schedule.paused_at),
            "version": schedule.version,
            "next_version": version_of(change),
            "change": change.bytes,
        }

        def write(database: StoreDatabase) -> bool:
            is_written = database.write("update_schedule" if schedule.version else "insert_schedule", **values)
            return is_written > 0 or bool(database.read("schedule_change", **values))

        def count(is_written: bool) -> int | None:
            return 1 if is_written else None

        return await self._thread.run(lambda database: audited(database, by, "set_schedule", lambda: write(database), count))

    async def remove_schedule(self, name: str, *, by: AuditNote | None = None) -> None:
        def remove(database: StoreDatabase) -> int:
            return database.write("remove_schedule", schedule=name)

        await self._thread.run(lambda database: audited(database, by, "remove_schedule", lambda: remove(database), int))

    async def _schedules(self, *, is_due: bool, limit: int = -1) -> ScheduleList:
        rows = await self._thread.run(lambda database: database.read("schedules", is_due=is_due, limit=limit))
        wall, wait = rows[0][-2:]
        found = readable(_schedule_of, (row for row in rows if row[0] is not None))
        return ScheduleList(found, instant(wall), None if wait is None else wait / 1e6)


def _schedule_of(row: Row) -> Schedule:
    name, plan, next_at, last_tick, last_job, paused_at, version, *_ = row
    return Schedule(
        name=name,
        plan=plan_of(plan),
        next_at=instant(next_at),
        last_tick=None if last_tick is None else instant(last_tick),
        last_job=None if last_job is None else UUID(bytes=last_job),
        paused_at=None if paused_at is None else instant(paused_at),
        version=version,
    )

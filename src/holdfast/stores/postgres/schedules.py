"""The verbs of schedules: each packs its values, runs its file of ``queries`` and maps the answer."""

from functools import partial
from uuid import UUID

from holdfast._core.audit import AuditNote
from holdfast._core.encoding import plan_of
from holdfast._core.flow_changes import FlowChange
from holdfast._core.schedule import Advance, Overlap, Schedule, ScheduleList, TickAnswer, version_of
from holdfast._core.text import json_text
from holdfast.databases.postgres.pool import Connection
from holdfast.databases.readable import readable
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.locked_flows import LockedFlows
from holdfast.stores.postgres.members import MemberMoves, members_of, move_members
from holdfast.stores.postgres.moves import HURRIED
from holdfast.stores.postgres.records import Row


class ScheduleVerbs(MemberMoves):
    """The part of the store that has the verbs of ``Scheduling`` in ``_ports.store``."""

    async def schedules(self) -> ScheduleList:
        return await self._schedules(False, None)

    async def ticks(self, limit: int) -> ScheduleList:
        return await self._schedules(True, limit)

    async def advance(self, move: Advance) -> TickAnswer:
        job = move.job
        self._may_be_known([] if job is None else [job])
        _, call = packing.enqueue(move.change if job is None else job.id, () if job is None else (job,))
        times = (move.name, move.version, version_of(move.change), move.change, move.tick, move.following)
        values = (*times, move.overlap is Overlap.SKIP, None if job is None else job.id, call)
        if move.overlap is Overlap.CANCEL and job is not None:
            fires = await self._with_flows("advance", partial(self._cancel_and_advance, move.name, values))
        else:
            ((fires,),) = await self._fetch("advance", *values)
        if fires is None:
            return TickAnswer.LOST
        if job is None:
            return TickAnswer.DROPPED
        return TickAnswer.FIRED if fires else TickAnswer.SKIPPED

    async def set_schedule(self, schedule: Schedule, change: UUID, *, by: AuditNote | None = None) -> bool:
        plan = json_text(schedule.plan)
        values = (schedule.name, plan, schedule.next_at, schedule.paused_at, schedule.version, version_of(change), change)
        ((is_written,),) = await self._fetch_by(by, lambda rows: 1 if rows[0][0] else None, "set_schedule", *values)
        return bool(is_written)

    async def remove_schedule(self, name: str, *, by: AuditNote | None = None) -> None:
        await self._fetch_by(by, len, "remove_schedule", name)

    async def _cancel_and_advance(self, name: str, values: tuple[object, ...], more: frozenset[UUID]) -> bool | None:
        """Move the schedule on, and cancel its last job in the same transaction; a job that is locked delays both."""
        async with self._transaction() as connection:
            await connection.execute(HURRIED)
            found = await connection.fetch(self._sql("last_job"), name)
            ((fires,),) = await connection.fetch(self._sql("advance"), *values)
            changes = list[FlowChange]()
            if fires and found and (last := found[0]["last_job"]) is not None and last != values[-2]:
                changes = await self._cancel(connection, last, more)
        self._flow_changes.add(changes)
        return None if fires is None else bool(fires)

    async def _cancel(self, connection: Connection, job: UUID, more: frozenset[UUID]) -> list[FlowChange]:
        """Cancel a job; return what that does to its workflow."""
        found = await connection.fetch(self._sql("request_cancel"), [job])
        if members := members_of(found, [job]):
            flows = LockedFlows(partial(self._fetch_on, connection), more=more)
            await flows.lock_of(members)
            await move_members(flows, "request_cancel", members, ())
            return flows.changes
        if any(row["state"] is None for row in found):
            return await self._cancel(connection, job, more)  # it moved during the statement: the next one sees where to
        return []

    async def _schedules(self, is_due: bool, limit: int | None) -> ScheduleList:
        rows = await self._fetch("schedules", is_due, limit)
        wait = rows[0]["wait"]
        found = readable(_schedule_of, (row for row in rows if row["name"] is not None))
        return ScheduleList(found, rows[0]["now"], None if wait is None else wait / 1e6)


def _schedule_of(row: Row) -> Schedule:
    return Schedule(
        name=row["name"],
        plan=plan_of(row["plan"]),
        next_at=row["next_at"],
        last_tick=row["last_tick"],
        last_job=row["last_job"],
        paused_at=row["paused_at"],
        version=row["version"],
    )

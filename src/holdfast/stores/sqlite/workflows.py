"""The verbs of workflows on a file, and those of operators as far as they move members of workflows.

Each of them is one transaction, in which Python decides: members of workflows are rarer than plain jobs, and their rules are the same in
all stores. Writes of plain jobs are still one statement.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer, ReopenAnswer
from holdfast._core.encoding import inputs_text
from holdfast._core.job import State
from holdfast._core.member_record import member_view, output_of
from holdfast._core.record import JobRecord
from holdfast._core.text import json_text, storable_text
from holdfast._core.workflow import Edge, FlowVerb, FlowView, NewFlow, NewMember, Output, Revived, SteerFlow
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import micros
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.flow_moves import FileFlows, flow_of
from holdfast.stores.sqlite.records import Row, record_of
from holdfast.stores.sqlite.schedules import INLINE


class WorkflowVerbs:
    """The part of the store that has the verbs of ``Workflows`` in ``_ports.workflows``."""

    _thread: ConnectionThread[StoreDatabase]

    async def enqueue_flow(self, call: UUID, new: NewFlow) -> EnqueueAnswer:
        return await self._thread.run(lambda database: database.atomically("enqueue_flow", lambda: _enqueue(database, call, new)))

    async def outputs(self, ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        return await self._thread.run(lambda database: _outputs(database, ids))

    async def flow(self, flow: UUID) -> FlowView | None:
        found = await self._thread.run(lambda database: database.read("flow_records", flow=flow.bytes))
        rows = [(_parents_of(row[3]), record_of(row[4], row[5:])) for row in found]
        if not found:
            return None
        members = tuple(
            member_view(record, record.member, [Edge(parent, record.id) for parent in parents])
            for parents, record in rows
            if record.member is not None
        )
        return FlowView(flow_of(flow, *found[0][:3]), members)

    async def steer_flow(self, flow: UUID, how: SteerFlow) -> State | None:
        def steer(database: StoreDatabase) -> State | None:
            found = database.read("root", flow=flow.bytes)
            if not found:
                return None
            ((_, is_stub, holder),) = found
            if not how.reopens or not (is_stub or holder):
                FileFlows(database).steer(flow, how)
            return State(database.read("root", flow=flow.bytes)[0][0])

        return await self._thread.run(lambda database: database.atomically("steer_flow", lambda: steer(database)))

    async def revive(self, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False) -> Revived:
        values = {"after": None if after is None else after.bytes, "flow": None if flow is None else flow.bytes}

        def revive(database: StoreDatabase) -> Revived:
            found = [UUID(bytes=each) for (each,) in database.read("unfinished_flows", **values, limit=limit + 1)]
            seen = {each: FileFlows(database).revive(each, dry_run=dry_run) for each in found[:limit]}
            return Revived(
                repairs=tuple(repair for _, repairs in seen.values() for repair in repairs),
                overdue=tuple(each for each, (is_overdue, _) in seen.items() if is_overdue),
                next=found[limit - 1] if len(found) > limit else None,
            )

        def revive_any(database: StoreDatabase) -> Revived:
            if not database.read("has_flows"):
                return Revived()  # without the lock of the file: passes are frequent, and workflows may never be used
            return database.atomically("revive", lambda: revive(database))

        return await self._thread.run(revive_any)


def cancelled(database: StoreDatabase, ids: Sequence[UUID]) -> dict[UUID, State]:
    """Cancel jobs, and return their states; without members of workflows it is one statement."""
    values = packing.ids(ids)
    if _has_members(database, ids):
        database.atomically("request_cancel", lambda: request_cancel(database, ids))
    else:
        database.write("request_cancel", **values)
    return answers.states(database.read("states", **values))


def reopened(database: StoreDatabase, ids: Sequence[UUID], *, is_fresh: bool) -> ReopenAnswer:
    """Reopen jobs, and return the answer; without members of workflows it is one statement."""
    values, taken = packing.ids(ids), dict[UUID, UUID]()
    if _has_members(database, ids):
        taken = database.atomically("reopen", lambda: reopen(database, ids, is_fresh=is_fresh))
    else:
        database.write("reopen", **values, is_fresh=is_fresh)
    taken |= {UUID(bytes=job): UUID(bytes=holder) for job, holder in database.read("taken", **values)}
    return ReopenAnswer(answers.states(database.read("states", **values)), taken)


def request_cancel(database: StoreDatabase, ids: Sequence[UUID]) -> None:
    """Cancel jobs, some of which belong to workflows; with a root its workflow."""
    flows = FileFlows(database)
    gates = {each.id for each in flows.members(ids) if each.is_gate}
    plain = [job for job in ids if job not in gates]
    flows.write(plain, lambda: database.write("request_cancel", **packing.ids(plain)))
    for root in gates:
        if flows.is_unfinished(root):
            flows.steer(root, SteerFlow(verb=FlowVerb.CANCEL))


def reopen(database: StoreDatabase, ids: Sequence[UUID], *, is_fresh: bool) -> dict[UUID, UUID]:
    """Reopen jobs, some of which belong to workflows; return those left finished because another job has a unique key."""
    flows, taken = FileFlows(database), dict[UUID, UUID]()
    members = {each.id: each for each in flows.members(ids)}
    plain = [job for job in ids if job not in members or (members[job].state is State.HELD and not members[job].is_paused)]
    plain += [job for job, member in members.items() if member.state is State.AVAILABLE]
    flows.write(plain, lambda: database.write("reopen", **packing.ids(plain), is_fresh=is_fresh))
    for member in members.values():
        if member.is_finished:
            ((_, is_stub, holder),) = database.read("root", flow=member.flow.bytes)
            if holder is not None:
                taken[member.id] = UUID(bytes=holder)
            elif not is_stub:
                flows.retry_member(member.flow, member.id, is_fresh=is_fresh)
    return taken


def expire(database: StoreDatabase, limit: int) -> list[Row]:
    """Fail waiting jobs that have expired, and what depends on them; return them."""

    def write() -> list[Row]:
        database.write("expire", limit=limit)
        return database.read("touched")

    def write_members() -> list[Row]:
        found, flows = write(), FileFlows(database)
        flows.moved(flows.members([UUID(bytes=job) for _, job, _ in found]))
        return found

    return database.atomically("expire", write_members) if database.read("has_flows") else write()


def _has_members(database: StoreDatabase, ids: Sequence[UUID]) -> bool:
    """Return whether any of these jobs belongs to a workflow; a job never joins one later."""
    return bool(database.read("members", **packing.ids(ids)))


def _enqueue(database: StoreDatabase, call: UUID, new: NewFlow) -> EnqueueAnswer:
    root, members = new.root.job, [*new.members, new.root]
    if receipt := database.read("receipt", call=call.bytes):
        return answers.enqueued(receipt)
    key = storable_text(root.unique_key)
    is_taken = key is not None and bool(database.read("job_with_key", task=root.task, unique_key=key))
    jobs = [root] if is_taken else [each.job for each in members]
    database.write("enqueue", **packing.jobs(jobs), call=call.bytes, inline=INLINE)
    if is_taken:
        return answers.enqueued(database.read("receipt", call=call.bytes))
    ids = [each.job.id for each in members]
    positions = {job: position for position, job in enumerate(ids)}
    edges = [(positions[each.parent], positions[each.child], each.tolerates) for each in new.edges]
    packed, deadline = packing.ids(ids), None if new.deadline is None else micros(new.deadline)
    database.write("block_members", **packed, flow=root.id.bytes)
    database.write("insert_members", **packed, flow=root.id.bytes, members=json_text([_columns_of(each) for each in members]))
    database.write("insert_edges", **packed, edges=json_text(edges))
    database.write("insert_flow", flow=root.id.bytes, deadline=deadline)
    flows = FileFlows(database)
    flows.begin(flows.flow(root.id))
    return EnqueueAnswer()


def _columns_of(new: NewMember) -> tuple[object, ...]:
    member = new.member
    return member.node, member.join, member.on_failure, member.is_gate, inputs_text(member.inputs)


def _outputs(database: StoreDatabase, ids: Sequence[UUID]) -> dict[UUID, Output]:
    records = _records(database, ids)
    sources = {job: _source_of(job, records.get(job)) for job in ids}
    records |= _records(database, [each for each in sources.values() if each not in records])
    found = {job: output_of(records.get(source)) for job, source in sources.items()}
    return {job: output for job, output in found.items() if output is not None}


def _source_of(job: UUID, record: JobRecord | None) -> UUID:
    """Return the job whose result is that of this one: of a root that has completed, the member it names."""
    if record is None or record.member is None or record.is_stub or record.state is not State.COMPLETED:
        return job
    return record.member.inputs[0].parent if record.member.is_gate and record.member.inputs else job


def _records(database: StoreDatabase, ids: Sequence[UUID]) -> dict[UUID, JobRecord]:
    found = [record_of(row[0], row[1:]) for row in database.read("records", **packing.ids(ids))] if ids else []
    return {record.id: record for record in found}


def _parents_of(text: str | None) -> list[UUID]:
    return [UUID(each) for each in text.split(",")] if text else []

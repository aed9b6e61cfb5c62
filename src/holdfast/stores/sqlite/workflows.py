"""The verbs of workflows on a file, and those of operators as far as they move members of workflows.

Each of them is one transaction, in which Python decides: members of workflows are rarer than plain jobs, and their rules are the same in
all stores. Writes of plain jobs are still one statement.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer, ReopenAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.dependencies import After, dependents_of
from holdfast._core.flow_changes import FlowChange, FlowChanges
from holdfast._core.job import NewJob, State, Token
from holdfast._core.member_record import member_view, output_of
from holdfast._core.recorded_outcome import RecordedOutcome
from holdfast._core.text import storable_text
from holdfast._core.workflow import Edge, FlowVerb, FlowView, Items, NewFlow, NewMember, Output, Revived, SteerFlow
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite.audited import record_action
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.flow_moves import FileFlows, flow_of
from holdfast.stores.sqlite.records import Row, outcome_of, record_of
from holdfast.stores.sqlite.steps import is_active


class WorkflowVerbs:
    """The part of the store that has the verbs of ``DependentJobs`` in ``_ports.workflows``."""

    _thread: ConnectionThread[StoreDatabase]
    _flow_changes: FlowChanges

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self._flow_changes.take()

    async def enqueue_flow(self, call: UUID, new: NewFlow) -> EnqueueAnswer:
        return await self._thread.run(lambda database: database.atomically("enqueue_flow", lambda: _enqueue(database, call, new)))

    async def enqueue_member(self, call: UUID, child: NewMember, *, under: tuple[UUID, Token]) -> EnqueueAnswer:
        return await self._thread.run(
            lambda database: database.atomically("enqueue_member", lambda: _enqueue_member(database, call, child, under))
        )

    async def enqueue_after(self, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        return await self._thread.run(
            lambda database: database.atomically("enqueue_after", lambda: _enqueue_after(database, call, jobs, after))
        )

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

    async def steer_flow(self, flow: UUID, how: SteerFlow, *, by: AuditNote | None = None) -> State | None:
        def steer(database: StoreDatabase) -> State | None:
            found = database.read("root", flow=flow.bytes)
            if not found:
                return None
            ((_, is_stub, holder),) = found
            if not how.reopens or not (is_stub or holder):
                FileFlows(database).steer(flow, how)
            if by is not None:
                record_action(database, by, 1)
            return State(database.read("root", flow=flow.bytes)[0][0])

        return await self._thread.run(lambda database: database.atomically("steer_flow", lambda: steer(database)))

    async def revive(self, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False) -> Revived:
        values = {"after": None if after is None else after.bytes, "flow": None if flow is None else flow.bytes}

        def unfinished(database: StoreDatabase) -> tuple[list[UUID], UUID | None]:
            found = [UUID(bytes=each) for (each,) in database.read("unfinished_flows", **values, limit=limit + 1)]
            return found[:limit], found[limit - 1] if len(found) > limit else None

        def look(database: StoreDatabase) -> Revived | None:
            flows, (found, last) = FileFlows(database), unfinished(database)
            return None if any(flows.needs_repair(each) for each in found) else Revived(next=last)

        def repair(database: StoreDatabase) -> Revived:
            flows, (found, last) = FileFlows(database), unfinished(database)
            seen = {each: flows.revive(each, dry_run=dry_run, is_restored=flows.restore(each)) for each in found}
            return Revived(
                repairs=tuple(repair for _, repairs in seen.values() for repair in repairs),
                overdue=tuple(each for each, (is_overdue, _) in seen.items() if is_overdue),
                next=last,
            )

        def revive(database: StoreDatabase) -> Revived:
            if not database.read("has_flows"):
                return Revived()
            # Without the lock of the file: passes are frequent, a large workflow takes long, and nearly all are intact.
            if (intact := database.in_snapshot("revive", lambda: look(database))) is not None:
                return intact
            return database.atomically("revive", lambda: repair(database), end="ROLLBACK" if dry_run else "COMMIT")

        return await self._thread.run(revive)


def cancelled(database: StoreDatabase, ids: Sequence[UUID]) -> dict[UUID, State]:
    """Cancel jobs, and return their states; without members of workflows it is one statement."""
    values = packing.ids(ids)
    database.write("request_cancel", **values, with_members=False)
    if _has_members(database, ids):
        database.atomically("request_cancel", lambda: request_cancel(database, ids))
    return answers.states(database.read("states", **values))


def reopened(database: StoreDatabase, ids: Sequence[UUID], *, is_fresh: bool) -> ReopenAnswer:
    """Reopen jobs, and return the answer."""
    values = packing.ids(ids)
    taken = database.atomically("reopen", lambda: reopen(database, ids, is_fresh=is_fresh))
    taken |= {UUID(bytes=job): UUID(bytes=holder) for job, holder in database.read("taken", **values)}
    return ReopenAnswer(answers.states(database.read("states", **values)), taken)


def request_cancel(database: StoreDatabase, ids: Sequence[UUID]) -> None:
    """Cancel jobs, some of which belong to workflows; with a root its workflow."""
    flows = FileFlows(database)
    roots = dict.fromkeys(
        each.id for each in flows.members(ids) if each.id == each.flow
    )  # in their order: one may depend on another one
    chosen = [job for job in ids if job not in roots]
    for parent in flows.members(chosen):
        if parent.waits_for_children:
            chosen += flows.graph(parent.flow).below([parent.id])
    parents = {each.id for each in flows.members(list(dict.fromkeys(chosen))) if each.waits_for_children}
    plain = [job for job in dict.fromkeys(chosen) if job not in parents]
    database.write("mark_cancelled", **packing.ids([*parents]))
    flows.write(plain, lambda: database.write("request_cancel", **packing.ids(plain), with_members=True))
    for root in roots:
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


def delete(database: StoreDatabase, ids: Sequence[UUID], *, only_waiting: bool) -> None:
    """Delete jobs that no worker owns, and pass that on."""
    flows = FileFlows(database)
    unfinished = [each.id for each in flows.members(ids) if not each.is_finished]
    database.write("delete", **packing.ids(ids), only_waiting=only_waiting)
    flows.lose(set(unfinished).difference(each.id for each in flows.members(unfinished)))


def purge(database: StoreDatabase, queue: str, limit: int, until: int | None) -> int:
    """Delete waiting jobs of a queue, and pass that on; return how many."""

    def write(*, with_members: bool) -> list[UUID]:
        database.write("purge", queue=queue, limit=limit, until=until, with_members=with_members)
        return [UUID(bytes=job) for _, job, _ in database.read("touched")]

    def write_members() -> list[UUID]:
        gone = write(with_members=True)
        FileFlows(database).lose(gone)
        return gone

    return len(database.atomically("purge", write_members) if database.read("has_flows") else write(with_members=False))


def expire(database: StoreDatabase, limit: int) -> list[Row]:
    """Fail waiting jobs that have expired, and what depends on them; return them."""

    def write(*, with_members: bool) -> list[Row]:
        database.write("expire", limit=limit, with_members=with_members)
        return database.read("touched")

    def write_members() -> list[Row]:
        found, flows = write(with_members=True), FileFlows(database)
        flows.moved(flows.members([UUID(bytes=job) for _, job, _ in found]))
        return found

    return database.atomically("expire", write_members) if database.read("has_flows") else write(with_members=False)


def _has_members(database: StoreDatabase, ids: Sequence[UUID]) -> bool:
    """Return whether any of these jobs belongs to a workflow. Any other one may become a member later."""
    return bool(database.read("members", **packing.ids(ids)))


def _enqueue(database: StoreDatabase, call: UUID, new: NewFlow) -> EnqueueAnswer:
    if (answer := insert(database, call, new)) is None:
        flows = FileFlows(database)
        flows.begin(flows.flow(new.root.job.id))
        return EnqueueAnswer()
    return answer


def insert(database: StoreDatabase, call: UUID, new: NewFlow) -> EnqueueAnswer | None:
    """Insert a new workflow, all of it blocked; return the answer if nothing was inserted, or by an earlier copy of the call."""
    root, members = new.root.job, [*new.members, new.root]
    if receipt := database.read("receipt", call=call.bytes):
        return answers.enqueued(receipt)
    key = storable_text(root.unique_key)
    is_taken = key is not None and bool(database.read("job_with_key", task=root.task, unique_key=key))
    jobs = [root] if is_taken else [each.job for each in members]
    database.write("enqueue", **packing.jobs(jobs), call=call.bytes, inline=packing.INLINE)
    if is_taken:
        return answers.enqueued(database.read("receipt", call=call.bytes))
    flows = FileFlows(database)
    flows.insert_members(members, new.edges, flow=root.id)
    flows.insert_flow(root.id, new.deadline)
    return None


def _enqueue_member(database: StoreDatabase, call: UUID, child: NewMember, under: tuple[UUID, Token]) -> EnqueueAnswer:
    """Insert a member that a running one adds, and the receipt of the call; without the members, if the answer is that it is lost."""
    if receipt := database.read("receipt", call=call.bytes):
        return answers.enqueued(receipt)
    if not is_active(database, *under):
        database.write("enqueue", **packing.jobs([child.job], under), call=call.bytes, inline=packing.INLINE)
        return answers.enqueued(database.read("receipt", call=call.bytes))
    FileFlows(database).join(under[0], child)
    database.write("enqueue", **packing.jobs([]), call=call.bytes, inline=packing.INLINE)
    return EnqueueAnswer()


def _enqueue_after(database: StoreDatabase, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
    if receipt := database.read("receipt", call=call.bytes):
        return answers.enqueued(receipt)
    flows = FileFlows(database)
    new = dependents_of(jobs, after, flows.with_roots(after.parents))
    database.write("enqueue", **packing.jobs(jobs), call=call.bytes, inline=packing.INLINE)
    for each in new.members:
        flows.insert_members([each], [edge for edge in new.edges if edge.child == each.job.id], flow=each.job.id)
        flows.insert_flow(each.job.id, None)
        flows.begin(flows.flow(each.job.id))
    return EnqueueAnswer()


def _outputs(database: StoreDatabase, ids: Sequence[UUID]) -> dict[UUID, Output]:
    outcomes, sources = _outcomes(database, ids), {job: job for job in ids}
    while moved := {job: outcomes[each].source or each for job, each in sources.items() if each in outcomes}:
        if moved.items() <= sources.items():
            break
        sources |= moved
        outcomes |= _outcomes(database, [each for each in moved.values() if each not in outcomes])
    lists = {each for each in sources.values() if each in outcomes and outcomes[each].is_list}
    items = _items(database, [*lists])
    found = {job: items[each] if each in lists else output_of(outcomes.get(each)) for job, each in sources.items()}
    return {job: output for job, output in found.items() if output is not None}


def _items(database: StoreDatabase, maps: Sequence[UUID]) -> dict[UUID, Items]:
    found = dict[UUID, list[UUID]]({job: [] for job in maps})
    for job, item in database.read("items", **packing.ids(maps)) if maps else ():
        found[UUID(bytes=job)].append(UUID(bytes=item))
    return {job: Items(tuple(items)) for job, items in found.items()}


def _outcomes(database: StoreDatabase, ids: Sequence[UUID]) -> dict[UUID, RecordedOutcome]:
    found = database.read("outcomes", **packing.ids(ids)) if ids else ()
    return {ids[place]: outcome_of(*columns) for place, *columns in found}


def _parents_of(text: str | None) -> list[UUID]:
    return [UUID(each) for each in text.split(",")] if text else []

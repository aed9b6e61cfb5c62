"""The verbs of workflows: each that moves members is a transaction under the locks of their workflows, and Python decides in it."""

from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.flow_changes import FlowChange
from holdfast._core.graph import Graph, Vertex
from holdfast._core.job import State, Token
from holdfast._core.member_record import member_view, output_of
from holdfast._core.recorded_outcome import RecordedOutcome
from holdfast._core.text import json_text
from holdfast._core.workflow import Edge, Flow, FlowVerb, FlowView, Items, NewFlow, NewMember, Output, Repair, Revived, SteerFlow
from holdfast.databases.postgres.errors import RolledBack
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import records as rows
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.audited import action
from holdfast.stores.postgres.flow_plan import Ends, FlowPlan, Known, columns_of, edges_text
from holdfast.stores.postgres.locked_flows import KeyTaken, LockedFlows, edges_of, flow_of, graph_of
from holdfast.stores.postgres.members import MemberMoves
from holdfast.stores.postgres.shared_transactions import SharedTransactions

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WorkflowVerbs(MemberMoves, SharedTransactions):
    """The part of the store that has the verbs of ``GrowingWorkflows`` in ``_ports.workflows``."""

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self._flow_changes.take()

    async def enqueue_flow(self, call: UUID, new: NewFlow) -> EnqueueAnswer:
        members, flow = (*new.members, new.root), new.root.job.id
        jobs = [each.job for each in members]
        begun, is_begun = _begun(new)
        self._may_be_known(jobs)
        blocked = frozenset(each.id for each in begun.blocked())
        name, parameter = packing.enqueue(call, jobs, flow=flow, blocked=blocked, is_known=True)
        columns = json_text([_columns_of(each, begun.members[each.job.id]) for each in members])
        edges = edges_text(new.edges)

        async def enqueue() -> Sequence[rows.Row]:
            async with self._locking() as flows:
                answer = await flows.fetch(name, parameter)
                if await flows.fetch("insert_flow", flow, new.deadline, columns, edges) and not is_begun:
                    await flows.lock([flow])
                    await flows.decide(lambda plan: plan.begin(plan.flow(flow)))
            return answer

        async with self._here().keyed:
            return answers.enqueued(await self._retrying(enqueue, "enqueue_flow"), jobs)

    def enqueue_flow_within(
        self, connection: Any, call: UUID, new: NewFlow
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        members, flow = (*new.members, new.root), new.root.job.id
        jobs, begun = [each.job for each in members], _begun(new)[0]
        self._may_be_known(jobs)
        blocked = frozenset(each.id for each in begun.blocked())
        asked = packing.enqueue(call, jobs, flow=flow, blocked=blocked, is_durable=True, is_known=True)
        columns = json_text([_columns_of(each, begun.members[each.job.id]) for each in members])
        deadline = None if new.deadline is None else str(new.deadline)
        insert = self._sql("insert_flow").replace("$1", "$1::uuid")
        return self._send_within(connection, asked, jobs, (insert, str(flow), deadline, columns, edges_text(new.edges)))

    async def enqueue_member(self, call: UUID, child: NewMember, *, under: tuple[UUID, Token]) -> EnqueueAnswer:
        name, parameter = packing.enqueue(call, (), under, is_known=True)
        self._may_be_known([child.job])

        async def enqueue(more: frozenset[UUID]) -> EnqueueAnswer:
            async with self._locking(more=more) as flows:
                await flows.lock_of([under[0]])
                is_copy = bool(await flows.fetch("receipt", call))
                answer = answers.enqueued(await flows.fetch(name, parameter), ())
                if not (is_copy or answer.is_lost):
                    await flows.decide(lambda plan: plan.join(under[0], child))
            return answer

        return await self._with_flows("enqueue_member", enqueue)

    async def outputs(self, ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        outcomes, sources = await self._outcomes(ids), {job: job for job in ids}
        while moved := {job: outcomes[each].source or each for job, each in sources.items() if each in outcomes}:
            if moved.items() <= sources.items():
                break
            sources |= moved
            outcomes |= await self._outcomes([each for each in moved.values() if each not in outcomes])
        lists = {each for each in sources.values() if each in outcomes and outcomes[each].is_list}
        items = await self._items([*lists])
        found = {job: items[each] if each in lists else output_of(outcomes.get(each)) for job, each in sources.items()}
        return {job: output for job, output in found.items() if output is not None}

    async def flow(self, flow: UUID) -> FlowView | None:
        found = [(row, rows.record_of(row)) for row in await self._search("flow", flow)]
        if not found:
            return None
        members = tuple(
            member_view(record, record.member, [Edge(parent, record.id) for parent in row["parents"]])
            for row, record in found
            if record.member is not None
        )
        return FlowView(flow_of({**found[0][0], "id": flow}), members)

    async def steer_flow(self, flow: UUID, how: SteerFlow, *, by: AuditNote | None = None) -> State | None:
        def act(plan: FlowPlan) -> None:
            root = plan.graph(flow).members.get(flow)
            if root is not None and not (how.verb is FlowVerb.RETRY and root.is_stub):
                plan.steer(flow, how)

        async def steer(more: frozenset[UUID]) -> State | None:
            async with self._locking([flow], more=more) as flows:
                if flow in flows.flows:
                    try:
                        await flows.decide(act)
                    except KeyTaken:
                        pass  # it stays as it is
                found = await flows.fetch("root", flow) if flow in flows.flows else ()
                if found and by is not None:
                    await flows.fetch("audit", *action(by, 1))
            return rows.state_of(found[0]) if found else None

        state = await self._with_flows("steer_flow", steer)
        self._forget_positions()  # members may be due again before these
        return state

    async def revive(self, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False) -> Revived:
        found = [row["id"] for row in await self._fetch("unfinished_flows", after, flow, limit + 1)]
        seen = {each: await self._revive(each, dry_run=dry_run) for each in found[:limit]}
        return Revived(
            repairs=tuple(repair for _, repairs in seen.values() for repair in repairs),
            overdue=tuple(each for each, (is_overdue, _) in seen.items() if is_overdue),
            next=found[limit - 1] if len(found) > limit else None,
        )

    async def _revive(self, flow: UUID, *, dry_run: bool) -> tuple[bool, tuple[Repair, ...]]:
        """Repair a workflow. Its lock is taken only if it needs that: every snapshot of an intact one shows it intact."""
        members = await self._fetch("graph", [flow])
        edges = [edge for row in members for edge in edges_of(row) if edge.parent_flow is not None]
        outside = await LockedFlows(self._fetch).outside([edge.parent for edge in edges]) if edges else []
        graph = graph_of(members, {parent.id: parent for parent in outside})
        if _is_whole(flow, graph):
            known = flow_of({**members[0], "id": flow})
            plan = FlowPlan(Known(members[0]["now"], {flow: known}, {}, {flow: graph}))
            seen = plan.revive(flow, dry_run=True)
            if seen == (False, ()) or (dry_run and not edges):
                return seen

        # Parents in other workflows were read later: what seems to have drifted is read again under the locks.
        async def revive(more: frozenset[UUID]) -> tuple[bool, tuple[Repair, ...]]:
            async with self._locking(more=more) as flows:
                is_restored = bool(await flows.fetch("restore_flow", flow))
                await flows.lock([flow])
                if flow not in flows.flows:
                    return False, ()  # it has ended, and was deleted
                seen = await flows.decide(lambda plan: plan.revive(flow, dry_run=dry_run, is_restored=is_restored))
                if dry_run:
                    raise _Rehearsed(seen)
            return seen

        try:
            return await self._with_flows("revive", revive)
        except _Rehearsed as rehearsed:
            return rehearsed.seen

    async def _items(self, maps: Sequence[UUID]) -> dict[UUID, Items]:
        found = dict[UUID, list[UUID]]({job: [] for job in maps})
        for row in await self._fetch("items", maps) if maps else ():
            found[row["map"]].append(row["item"])
        return {job: Items(tuple(items)) for job, items in found.items()}

    async def _outcomes(self, ids: Sequence[UUID]) -> dict[UUID, RecordedOutcome]:
        found = await self._fetch("outcomes", list(ids)) if ids else ()
        return {row["id"]: answers.recorded_outcome_of(row) for row in found}


class _Rehearsed(RolledBack):
    """Raised in the transaction of a dry run, so that it writes nothing: what it would have done."""

    def __init__(self, seen: tuple[bool, tuple[Repair, ...]]) -> None:
        super().__init__()
        self.seen = seen


def _is_whole(flow: UUID, graph: Graph) -> bool:
    """Return whether no row of a workflow was lost that its other rows name."""
    return flow in graph.members and all(edge.parent in graph.members for edge in graph.edges if edge.parent_flow is None)


def _begun(new: NewFlow) -> tuple[Graph, bool]:
    """Return the graph of a new workflow to be inserted, and whether it has begun in it.

    Nearly always it can, because what begins a workflow is known without the store: those without parents are released. Else all of its
    members are inserted blocked.
    """
    flow = Flow(id=new.root.job.id)
    graph = Graph((_vertex_of(each) for each in (*new.members, new.root)), new.edges)
    plan = FlowPlan(Known(_EPOCH, {flow.id: flow}, {}, {flow.id: graph}, dependents={flow.id: []}))
    plan.begin(flow)
    is_overdue = new.deadline is not None and new.deadline <= 0
    is_begun = not is_overdue and not any(isinstance(write, Ends) for write in plan.writes)
    return plan.graph(flow.id) if is_begun else graph, is_begun


def _vertex_of(new: NewMember) -> Vertex:
    member = new.member
    return Vertex(
        id=new.job.id,
        state=State.BLOCKED,
        node=member.node,
        join=member.join,
        on_failure=member.on_failure,
        is_gate=member.is_gate,
        takes=frozenset(each.parent for each in member.inputs),
    )


def _columns_of(new: NewMember, vertex: Vertex) -> tuple[object, ...]:
    return new.job.id, *columns_of(new.member), vertex.needs, vertex.waits

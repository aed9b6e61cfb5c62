"""The moves of a flow's members in a file. All of them belong to one transaction, which has the lock of the file."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from msgspec import Struct

from holdfast._core.children import Adopted, Adopter
from holdfast._core.dependencies import require_known
from holdfast._core.encoding import failure_text, inputs_of, inputs_text, instant, member_of, names_of
from holdfast._core.flow_growth import FlowGrowth
from holdfast._core.flow_moves import Dependent
from holdfast._core.graph import Ended, Graph, Link, Verdict, Vertex, Waiting, shown_outside
from holdfast._core.job import PLACE_OF, Place, Reason, State
from holdfast._core.member import Member, OnFailure
from holdfast._core.member_record import dependency_failure, end_of
from holdfast._core.text import json_text
from holdfast._core.workflow import Edge, Flow, NewMember
from holdfast.databases.sqlite.values import micros, micros_of
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.records import Row

Answer = TypeVar("Answer")


class KnownMember(Struct, frozen=True):
    """A member of a workflow, as far as its moves depend on it."""

    id: UUID
    flow: UUID
    state: State
    reason: Reason | None
    on_failure: OnFailure
    is_gate: bool
    is_paused: bool
    is_suspended: bool

    @property
    def waits_for_children(self) -> bool:
        """Whether it ends, or runs again, once those have ended that it has added or is the gate of."""
        return self.state is State.BLOCKED and (self.is_gate or self.is_suspended)

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return PLACE_OF[self.state] is Place.FINISHED

    def ended(self) -> Ended:
        """Return it as a member that has ended."""
        vertex = Vertex(id=self.id, state=self.state, reason=self.reason, on_failure=self.on_failure, is_gate=self.is_gate)
        return vertex.ended()


class Ids(dict[bytes, UUID]):
    """The ids of rows by their bytes. Each is made once: a query names the same ids in many rows."""

    def __init__(self, known: Iterable[UUID]) -> None:
        super().__init__((each.bytes, each) for each in known)

    def __missing__(self, key: bytes) -> UUID:
        return self.setdefault(key, UUID(bytes=key))


class FileFlows(FlowGrowth):
    """The reads and writes of a file for the moves of members."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database, self.now, self.changes = database, instant(database.now()), database.changes
        self._flows: dict[UUID, Flow] = {}  # as they are in the file

    def members(self, ids: Sequence[UUID]) -> list[KnownMember]:
        """Return those of these jobs that belong to workflows."""
        known, found = Ids(ids), self._database.read("members", **packing.ids(ids))
        return [
            KnownMember(
                known[job],
                known[flow],
                State(state),
                reason and Reason(reason),
                OnFailure(policy),
                bool(gate),
                bool(paused),
                bool(suspended),
            )
            for job, flow, state, reason, policy, gate, paused, suspended in found
        ]

    def write(self, ids: Sequence[UUID], write: Callable[[], Answer]) -> Answer:
        """Carry out a write that moves jobs, and pass on the members among them that it ends."""
        unfinished = [ids[place] for (place,) in self._database.read("unfinished", **packing.ids(ids))]
        answer = write()
        self.moved(self.members(unfinished))
        return answer

    def moved(self, members: Iterable[KnownMember]) -> None:
        """Pass on the members that this write has ended, and hold those that are available in paused flows."""
        by_flow = defaultdict[UUID, list[KnownMember]](list)
        for member in members:
            by_flow[member.flow].append(member)
        for flow, some in by_flow.items():
            ended = [each for each in some if each.is_finished]
            if ended:
                is_by_workflow = self.flow(flow).ended_for is not None
                kept = packing.ids([each.id for each in ended])
                self._database.write("keep_members", **kept, is_by_workflow=is_by_workflow)
                self._database.write("forget_pause", flow=flow.bytes)
                self.pass_on(flow, [each.ended() for each in ended])
            elif any(each.state is State.AVAILABLE for each in some) and self.flow(flow).is_paused:
                self.hold(flow)

    def flow(self, flow: UUID) -> Flow:
        if flow not in self._flows and (found := self._database.read("flow_state", flow=flow.bytes)):
            self._flows[flow] = flow_of(flow, *found[0])
        return self._flows.get(flow, Flow(id=flow))  # its row was lost: the next pass of repairs puts it back

    def graph(self, flow: UUID) -> Graph:
        edges = self._database.read("flow_edges", flow=flow.bytes)
        parents = {UUID(bytes=parent): UUID(bytes=other) for parent, *_, other in edges if other is not None}
        found = [_vertex_of(row) for row in self._database.read("vertices", **packing.ids([*parents]))] if parents else []
        outside = [shown_outside(parent, self.flow(parents[parent.id])) for parent in found]
        return _graph_of(self._database.read("flow_vertices", flow=flow.bytes), edges, outside)

    def with_roots(self, jobs: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the flow of each of these jobs; a plain one becomes the root of one. ``JobNotFound``."""
        found = {UUID(bytes=job): flow for job, flow in self._database.read("flows_of", **packing.ids(jobs))}
        require_known(jobs, found)
        plain = packing.ids([job for job, flow in found.items() if flow is None])
        for query in ("root_members", "root_flows", "make_roots"):
            self._database.write(query, **plain)
        return {job: job if flow is None else UUID(bytes=flow) for job, flow in found.items()}

    def near(self, job: UUID) -> Graph:
        edges = self._database.read("near_edges", job=job.bytes)
        ids = dict.fromkeys([job, *(UUID(bytes=each) for edge in edges for each in edge[:2])])
        return _graph_of(self._database.read("vertices", **packing.ids([*ids])), edges)

    def adopter(self, job: UUID) -> Adopter:
        ((task, queue, key, priority, tags, flow, member),) = self._database.read("adopter", job=job.bytes)
        known = None if flow is None else member_of(UUID(bytes=flow), member)
        return Adopter(id=job, task=task, queue=queue, key=key, priority=priority, tags=names_of(tags), member=known)

    def insert_flow(self, flow: UUID, deadline: float | None) -> None:
        self._database.write("insert_flow", flow=flow.bytes, deadline=None if deadline is None else micros(deadline))

    def needs_repair(self, flow: UUID) -> bool:
        """Return whether rows of a flow were lost, or ``revive`` would change it; this reads only."""
        is_row_lost = not self._database.read("flow_state", flow=flow.bytes)
        has_lost_rows = is_row_lost or bool(self._database.read("lost_members", flow=flow.bytes))
        return has_lost_rows or self.revive(flow, dry_run=True) != (False, ())

    def restore(self, flow: UUID) -> bool:
        """Put back the rows of an unfinished flow that were lost, as far as its jobs show them; return whether there were any."""
        lost = self._database.read("lost_members", flow=flow.bytes)
        if lost:
            columns = [(task, required, OnFailure.FAIL, bool(is_gate), None) for _, task, required, is_gate in lost]
            packed = packing.ids([UUID(bytes=job) for job, *_ in lost])
            self._database.write("insert_members", **packed, flow=flow.bytes, members=json_text(columns))
        is_row_lost = not self._database.read("flow_state", flow=flow.bytes)
        if is_row_lost:
            self.insert_flow(flow, None)
            if any(each.is_paused for each in self.members([*self.graph(flow).members])):
                self.set_flow(Flow(id=flow, paused_at=self.now))
        return bool(lost) or is_row_lost

    def insert(self, parent: Adopter, adopted: Adopted) -> None:
        own, new = adopted.member, [each.job for each in adopted.members]
        node, _, on_failure, is_gate, inputs = columns_of(own)
        named = {"job": parent.id.bytes, "flow": own.flow.bytes, "node": node, "on_failure": on_failure, "inputs": inputs}
        self._database.write("put_member", **named, is_gate=is_gate, is_suspended=own.is_suspended)
        if parent.member is None:
            self._database.write("block_members", **packing.ids([parent.id]), flow=own.flow.bytes)
        if new:
            self._database.write("enqueue", **packing.jobs(new), call=new[0].id.bytes, inline=packing.INLINE)
            self._database.write("forget_receipt", call=new[0].id.bytes)
        self.insert_members(adopted.members, adopted.edges, flow=own.flow)

    def insert_members(self, members: Sequence[NewMember], edges: Sequence[Edge], *, flow: UUID) -> None:
        """Insert what new jobs are in their workflow, and edges."""
        packed = packing.ids([each.job.id for each in members])
        self._database.write("block_members", **packed, flow=flow.bytes)
        columns = json_text([columns_of(each.member) for each in members])
        self._database.write("insert_members", **packed, flow=flow.bytes, members=columns)
        jobs = {
            job: place
            for place, job in enumerate(
                dict.fromkeys(each for edge in edges for each in (edge.parent, edge.child, edge.parent_flow) if each is not None)
            )
        }
        pairs = [
            (
                jobs[edge.parent],
                jobs[edge.child],
                edge.tolerates,
                edge.is_child,
                None if edge.parent_flow is None else jobs[edge.parent_flow],
            )
            for edge in edges
        ]
        self._database.write("insert_edges", **packing.ids([*jobs]), edges=json_text(pairs))

    def links(self, parents: Sequence[UUID]) -> Iterable[Link]:
        for job, needs, waits, is_gate, policy, *flags, edges in self._database.read("links", **packing.ids(parents)):
            is_suspended, is_cancelled = map(bool, flags)
            child = Waiting(UUID(bytes=job), needs, waits, bool(is_gate), OnFailure(policy), is_suspended, is_cancelled)
            for edge in map(int, edges.split(",")):
                yield Link(parents[edge >> 3], child, bool(edge & 4), bool(edge & 2), bool(edge & 1))

    def dependents(self, flow: UUID, members: Sequence[UUID]) -> Iterable[Dependent]:
        del flow
        for parent, tolerates, *vertex in self._database.read("dependents", **packing.ids(members)):
            yield Dependent(UUID(bytes=parent), _vertex_of(tuple(vertex)), bool(tolerates))

    def is_unfinished(self, flow: UUID) -> bool:
        found = self._database.read("root", flow=flow.bytes)
        return bool(found) and PLACE_OF[State(found[0][0])] is not Place.FINISHED

    def set_flow(self, flow: Flow) -> None:
        if self._flows.get(flow.id) == flow:
            return
        self._flows[flow.id] = flow
        self._database.write(
            "set_flow",
            flow=flow.id.bytes,
            paused_at=micros_of(flow.paused_at),
            ended_for=flow.ended_for,
            deadline_at=micros_of(flow.deadline_at),
        )

    def set_counters(self, counters: Mapping[UUID, Waiting]) -> None:
        if counters:
            values = [(each.needs, each.waits) for each in counters.values()]
            self._database.write("set_counters", **packing.ids([*counters]), counters=json_text(values))

    def set_policies(self, policies: Mapping[UUID, OnFailure]) -> None:
        for policy in set(policies.values()):
            chosen = [job for job, each in policies.items() if each is policy]
            self._database.write("set_policy", **packing.ids(chosen), on_failure=policy.value)

    def judge(self, verdicts: Mapping[UUID, Verdict], flow: Flow) -> None:
        groups = defaultdict[tuple[State, Reason | None], list[UUID]](list)
        for job, verdict in verdicts.items():
            groups[(State.AVAILABLE, None) if verdict is Verdict.RELEASE else end_of(job, verdict, flow)].append(job)
        for (state, reason), jobs in groups.items():
            if state is State.AVAILABLE:
                self._database.write("release_members", **packing.ids(jobs))
            else:
                self._database.write("end_members", **packing.ids(jobs), state=state.value, reason=reason)
        if failed := groups.get((State.FAILED, Reason.DEPENDENCY_FAILED)):
            self._explain(failed)
        if any(state is State.CANCELLED for state, _ in groups):
            self._database.write("forget_pause", flow=flow.id.bytes)

    def block(self, members: Sequence[UUID], *, is_fresh: bool) -> None:
        for flow in {each.flow for each in self.members(members)}:
            self._database.write("reopen", **packing.ids(members), is_fresh=is_fresh)
            self._database.write("block_members", **packing.ids(members), flow=flow.bytes)
        self._database.write("end_suspension", **packing.ids(members))

    def hold(self, flow: UUID) -> None:
        self._database.write("hold_members", flow=flow.bytes)
        self._database.write("held_members", flow=flow.bytes)

    def resume(self, flow: UUID) -> None:
        self._database.write("resume_members", flow=flow.bytes)
        self._database.write("forget_pause", flow=flow.bytes)

    def request_cancel(self, flow: UUID) -> None:
        self._database.write("cancel_active_members", flow=flow.bytes)

    def _explain(self, failed: Sequence[UUID]) -> None:
        """Write the errors of members whose parents did not complete."""
        parents = defaultdict[int, list[tuple[str, Reason | None]]](list)
        for place, node, reason in self._database.read("culprits", **packing.ids(failed)):
            parents[place].append((node, reason and Reason(reason)))
        errors = [failure_text(dependency_failure(parents[place])) for place in range(len(failed))]
        self._database.write("set_errors", **packing.ids(failed), errors=json_text(errors))


def columns_of(member: Member) -> tuple[str, int | None, OnFailure, bool, str | None]:
    """Return the columns of a new member."""
    return member.node, member.join, member.on_failure, member.is_gate, inputs_text(member.inputs)


def flow_of(flow: UUID, paused_at: int | None, ended_for: str | None, deadline_at: int | None) -> Flow:
    """Return the state of a flow from its columns."""
    return Flow(
        id=flow,
        paused_at=None if paused_at is None else instant(paused_at),
        ended_for=None if ended_for is None else Reason(ended_for),
        deadline_at=None if deadline_at is None else instant(deadline_at),
    )


def _graph_of(vertices: Sequence[Row], edges: Sequence[Row], outside: Iterable[Vertex] = ()) -> Graph:
    return Graph(
        (_vertex_of(row) for row in vertices),
        (
            Edge(
                UUID(bytes=parent), UUID(bytes=child), bool(tolerates), bool(is_child), None if flow is None else UUID(bytes=flow)
            )
            for parent, child, tolerates, is_child, flow in edges
        ),
        outside,
    )


def _vertex_of(row: Row) -> Vertex:
    job, state, node, join, reason, policy, is_gate, needs, waits, inputs, is_stub, is_suspended, is_cancelled = row
    return Vertex(
        id=UUID(bytes=job),
        state=State(state),
        node=node,
        join=join,
        reason=reason and Reason(reason),
        on_failure=OnFailure(policy),
        is_gate=bool(is_gate),
        needs=needs,
        waits=waits,
        takes=frozenset(each.parent for each in inputs_of(inputs)),
        is_stub=bool(is_stub),
        is_suspended=bool(is_suspended),
        is_cancelled=bool(is_cancelled),
    )

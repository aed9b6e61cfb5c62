"""Jobs that a running job adds to its workflow: what is stored for them, and who waits for them.

A plain job that waits for children becomes the root of a new flow, whose id is its own.
"""

from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.graph import Graph, Vertex, Waiting
from holdfast._core.job import NewJob, State
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.steps import StepRecord
from holdfast._core.workflow import Edge, NewMember


class Children(Struct, frozen=True, kw_only=True):
    """What an active job waits for from now on, stored in the write that blocks it.

    ``members``: new jobs; their nodes are named below that of the job. ``edges``: among them and to the job. Without members it waits for
    the children that it has already. ``records``: steps of the job. ``is_gate``: it ends once they have ended, else it runs again.
    ``result``, of a gate: the member whose result is its own. ``deadline`` of a new flow: seconds from now.
    """

    members: tuple[NewMember, ...] = ()
    edges: tuple[Edge, ...] = ()
    records: tuple[StepRecord, ...] = ()
    is_gate: bool = False
    result: UUID | None = None
    deadline: float | None = None


class Adopter(Struct, frozen=True, kw_only=True):
    """A job that adds members to its workflow. ``priority``: without that of its queue."""

    id: UUID
    task: str
    queue: str
    key: str
    priority: int
    tags: tuple[str, ...]
    member: Member | None

    @property
    def flow(self) -> UUID:
        """The workflow that its children belong to."""
        return self.id if self.member is None else self.member.flow


class Adopted(Struct, frozen=True, kw_only=True):
    """What a store writes: the job as a member, the new members, and all new edges."""

    member: Member
    members: tuple[NewMember, ...]
    edges: tuple[Edge, ...]


def adopt(parent: Adopter, children: Children, near: Graph) -> Adopted:
    """Return what to write for a job that waits for children; ``near``: its edges, with those that wait for it.

    The gates that wait for the job wait for its children, too: it may end before them when an operator cancels it.
    """
    own = parent.member or Member(flow=parent.flow, node=parent.task)
    inputs = own.inputs if children.result is None else (Input("", children.result),)
    required = None if children.is_gate else own.join  # its parents have satisfied it: as a gate it waits for all its members
    own = structs.replace(
        own, join=required, is_gate=children.is_gate, is_suspended=not children.is_gate, inputs=inputs, is_paused=False
    )
    members = [_named(parent, each) for each in children.members]
    if own.is_gate and own.is_map:
        # The policy of a map is that of its items, which decide about the map: it must not apply a second time.
        members = [NewMember(each.job, structs.replace(each.member, on_failure=own.on_failure)) for each in members]
        is_kept = own.on_failure in (OnFailure.FAIL, OnFailure.CONTINUE)
        own = own if is_kept else structs.replace(own, on_failure=OnFailure.FAIL)
    edges = [structs.replace(edge, is_child=edge.child == parent.id) for edge in children.edges]
    if not children.is_gate:
        direct = [edge.parent for edge in edges if edge.is_child]
        edges += [Edge(child, gate, tolerates=True) for gate in gates_of(parent.id, near) for child in direct]
    return Adopted(member=own, members=tuple(members), edges=tuple(edges))


def join(parent: Adopter, child: NewMember, near: Graph) -> Adopted:
    """Return what to write for a job that a running member adds, and does not wait for: what waits for the member waits for it, too."""
    assert parent.member is not None
    gates = gates_of(parent.id, near)
    edges = [Edge(child.job.id, gate) for gate in gates]
    if not gates:
        edges = [Edge(child.job.id, owner, tolerates=True, is_child=True) for owner in _owners_of(parent.id, near)]
    return Adopted(member=parent.member, members=(_named(parent, child),), edges=tuple(edges))


def gates_of(member: UUID, near: Graph) -> list[UUID]:
    """Return the gates of its flow that wait for a member."""
    children = (near.members.get(edge.child) for edge in near.children.get(member, ()) if edge.parent_flow is None)
    return [child.id for child in children if child is not None and child.is_gate and child.state is State.BLOCKED]


def raised(parent: UUID, adopted: Adopted, near: Graph) -> dict[UUID, Waiting]:
    """Return the counters of the members that wait for the new ones beside the job itself; ``near``: before the new edges."""
    counters = dict[UUID, Waiting]()
    for edge in adopted.edges:
        child = near.members.get(edge.child)
        if child is not None and child.id != parent and child.state is State.BLOCKED:
            known = counters.get(child.id, child.waiting())
            if known.counts(is_child=edge.is_child):
                counters[child.id] = structs.replace(known, needs=known.needs + 1, waits=known.waits + 1)
    return counters


def grown(parent: UUID, adopted: Adopted, near: Graph) -> Graph:
    """Return the part of the graph that decides about the job and its new members, all of which are blocked."""
    new = [vertex_of_new(each.job.id, each.member) for each in adopted.members]
    own = vertex_of_new(parent, adopted.member)
    return Graph([*near.members.values(), *new, own], [*near.edges, *adopted.edges])


def vertex_of_new(job: UUID, member: Member) -> Vertex:
    """Return a blocked member that has no counters yet."""
    return Vertex(
        id=job,
        state=State.BLOCKED,
        node=member.node,
        join=member.join,
        on_failure=member.on_failure,
        is_gate=member.is_gate,
        takes=frozenset(each.parent for each in member.inputs),
        is_suspended=member.is_suspended,
    )


def _owners_of(member: UUID, near: Graph) -> list[UUID]:
    return [edge.child for edge in near.children.get(member, ()) if edge.is_child]


def _named(parent: Adopter, child: NewMember) -> NewMember:
    """Return a new member with its full name, its flow, and what it takes from the job that has added it."""
    own, node = parent.member, child.member.node
    if own is not None and own.flow != parent.id:
        node = f"{own.node}{node}" if node.startswith("[") else f"{own.node}/{node}"
    return NewMember(_inherited(parent, child.job), structs.replace(child.member, flow=parent.flow, node=node))


def _inherited(parent: Adopter, job: NewJob) -> NewJob:
    return structs.replace(
        job,
        queue=parent.queue if job.queue == "default" else job.queue,
        key=job.key or parent.key,
        priority=job.priority or parent.priority,
        tags=tuple(dict.fromkeys((*parent.tags, *job.tags))),
    )

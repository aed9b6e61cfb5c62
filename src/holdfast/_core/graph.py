"""The rules of a workflow's graph: which members a move releases or ends, level by level.

A store calls them inside the write that moves members, under the lock of their flow. Only members that this write moved are passed on,
so a repeated or late outcome lowers no counter twice. Everything here is a pure function of what the store reads under that lock.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import PLACE_OF, Place, Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.workflow import Edge, Flow


class Waiting(Struct, frozen=True, gc=False):
    """A blocked member, with its counters.

    ``is_suspended``: it has run, and runs again once its children have ended. ``is_cancelled``: an operator has cancelled it, and it ends
    once those that it waits for have ended.
    """

    id: UUID
    needs: int
    waits: int
    is_gate: bool = False
    on_failure: OnFailure = OnFailure.FAIL
    is_suspended: bool = False
    is_cancelled: bool = False

    def counts(self, *, is_child: bool, is_outside: bool = False) -> bool:
        """Return whether it waits for the parent of an edge.

        ``is_child``: that parent is a child of it. ``is_outside``: that parent belongs to another flow.
        """
        return not is_outside if self.is_gate else self.is_suspended == is_child


class Ended(Struct, frozen=True, gc=False):
    """A member that has ended in this write. ``is_cause``: it did not end because of others, so its ``on_failure`` applies to the flow."""

    id: UUID
    has_completed: bool
    on_failure: OnFailure = OnFailure.FAIL
    is_cause: bool = True

    def asks_for(self, what: OnFailure) -> bool:
        """Return whether its end asks for a pause, or a cancellation, of the flow."""
        return not self.has_completed and self.is_cause and self.on_failure is what


class Link(Struct, frozen=True, gc=False):
    """A parent that has ended, and a blocked child of it. ``is_child``: as in their edge. ``is_outside``: the child is in another flow."""

    parent: UUID
    child: Waiting
    tolerates: bool = False
    is_child: bool = False
    is_outside: bool = False


class Links(Protocol):
    """The reads that a cascade needs."""

    def links(self, parents: Sequence[UUID]) -> Iterable[Link]:
        """Return the blocked children of these members, as they were before the cascade."""
        ...


class Verdict(StrEnum):
    """The end of a member's wait: it is RELEASED, or ends without running."""

    RELEASE = "release"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"


class Cascade(Struct):
    """What a store writes after moves: new counters of members that still wait, and the verdicts of those that no longer do.

    ``ended``: the members whose ends are passed on, also to other flows. ``pauses``: the flow is to be paused. ``cancels``: the flow is to
    be cancelled in the same write, before anything else is passed on. ``is_end``: the flow is a workflow, and its root ends.
    """

    counters: dict[UUID, Waiting] = {}
    verdicts: dict[UUID, Verdict] = {}
    ended: list[Ended] = []
    pauses: bool = False
    cancels: bool = False
    is_end: bool = False


class Vertex(Struct, frozen=True, kw_only=True):
    """A member, in any state. ``takes``: the parents whose results it reads. ``is_stub``: its result is not stored any more."""

    id: UUID
    state: State
    node: str = ""
    join: int | None = None
    reason: Reason | None = None
    on_failure: OnFailure = OnFailure.FAIL
    is_gate: bool = False
    needs: int = 0
    waits: int = 0
    takes: frozenset[UUID] = frozenset()
    is_stub: bool = False
    is_suspended: bool = False
    is_cancelled: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return PLACE_OF[self.state] is Place.FINISHED

    def waiting(self) -> Waiting:
        """Return it as a blocked member."""
        return Waiting(self.id, self.needs, self.waits, self.is_gate, self.on_failure, self.is_suspended, self.is_cancelled)

    def ended(self) -> Ended:
        """Return it as a member that has ended."""
        is_cause = self.is_gate or self.reason not in (Reason.DEPENDENCY_FAILED, Reason.BY_WORKFLOW)
        return Ended(self.id, self.state is State.COMPLETED, self.on_failure, is_cause)


class Graph:
    """All members of a flow and their edges, read under its lock; ``outside``: the parents of its root that belong to other flows."""

    def __init__(self, members: Iterable[Vertex], edges: Iterable[Edge], outside: Iterable[Vertex] = ()) -> None:
        self.edges = list(edges)
        self.members = {member.id: member for member in members}
        self.outside = {parent.id: parent for parent in outside}
        self.parents = dict[UUID, list[Edge]]()
        self.children = dict[UUID, list[Edge]]()
        for edge in self.edges:
            self.parents.setdefault(edge.child, []).append(edge)
            self.children.setdefault(edge.parent, []).append(edge)

    def replaced(self, members: Iterable[Vertex]) -> "Graph":
        """Return the graph with these members in place of those of the same ids."""
        new = {member.id: member for member in members}
        outside = [new.pop(parent.id, parent) for parent in self.outside.values()]
        return Graph({**self.members, **new}.values(), self.edges, outside)

    def counted(self, counters: Mapping[UUID, Waiting]) -> "Graph":
        """Return the graph with these counters of its members."""
        return self.replaced(
            structs.replace(self.members[id], needs=each.needs, waits=each.waits) for id, each in counters.items()
        )

    def blocked(self) -> list[Vertex]:
        """Return the members that wait for others."""
        return [member for member in self.members.values() if member.state is State.BLOCKED]

    def links(self, parents: Sequence[UUID]) -> Iterable[Link]:
        """Return the blocked children of these members."""
        for parent in parents:
            for edge in self.children.get(parent, ()):
                child = self.members.get(edge.child)
                if child is not None and child.state is State.BLOCKED:
                    yield Link(parent, child.waiting(), edge.tolerates, edge.is_child)

    def behind(self, members: Iterable[UUID]) -> set[UUID]:
        """Return the members that depend on one of these, directly or through others."""
        found, level = set[UUID](), set(members)
        while level:
            level = {edge.child for parent in level for edge in self.children.get(parent, ())} - found
            found |= level
        return found

    def below(self, members: Iterable[UUID]) -> list[UUID]:
        """Return these members with all that one of them has added or is the gate of."""
        found = dict.fromkeys(each for each in members if each in self.members)
        level = list(found)
        while level:
            inner = [edge.parent for each in level for edge in self._inner_edges(each) if edge.parent in self.members]
            level = [each for each in dict.fromkeys(inner) if each not in found]
            found.update(dict.fromkeys(level))
        return list(found)

    def _inner_edges(self, member: UUID) -> Sequence[Edge]:
        edges = self.parents.get(member, ())
        children = [edge for edge in edges if edge.is_child]
        return children if children or not self.members[member].is_gate else edges


def counters_of(child: Vertex, graph: Graph, flow: Flow) -> tuple[int, int]:
    """Return ``needs`` and ``waits`` of a blocked member, from the states of all its parents.

    A parent without a trace, or completed without the stored result that the child reads, counts as one that failed. A parent of another
    flow that was deleted since is not counted: its edge is deleted with it. So the root of a flow requires no more than it has left.
    """
    waiting = child.waiting()
    edges = [
        edge
        for edge in graph.parents.get(child.id, ())
        if waiting.counts(is_child=edge.is_child, is_outside=edge.parent_flow is not None)
    ]
    needs, waits = len(edges) if child.join is None or child.is_suspended else child.join, 0
    if child.id == flow.id and not child.is_gate:  # it depends on other flows only
        needs = min(needs, len(edges))
    for edge in edges:
        parent = graph.members.get(edge.parent) or graph.outside.get(edge.parent)
        if parent is not None and (not parent.is_finished or is_held_back(parent.ended(), flow)):
            waits += 1
        elif edge.tolerates or (parent is not None and _is_success(parent, child)):
            needs -= 1
    return needs, waits


def is_held_back(ended: Ended, flow: Flow) -> bool:
    """Return whether the end of a member is not passed on to its dependents while its flow is paused."""
    return flow.is_paused and ended.asks_for(OnFailure.PAUSE)


def decide(child: Waiting, flow: Flow) -> Verdict | None:
    """Return the verdict on a blocked member; ``None``: it waits on.

    Gates decide only when nothing that they wait for runs any more, and so do members that wait for their children.
    """
    if child.is_gate or child.is_suspended:
        if child.waits > 0:
            return None
        if child.is_gate and child.needs <= 0:
            return Verdict.COMPLETE
        if child.is_cancelled or flow.ended_for is not None:
            return Verdict.CANCEL
        return Verdict.FAIL if child.is_gate else Verdict.RELEASE
    if flow.ended_for is not None:
        return Verdict.CANCEL
    if child.needs <= 0:
        return Verdict.RELEASE
    return Verdict.FAIL if child.waits < child.needs else None


def pass_on(ended: Sequence[Ended], flow: Flow, links: Links) -> Cascade:
    """Return what the ends of these members, which this write has moved, lead to."""
    return _spread(Cascade(counters={}, verdicts={}, ended=[]), ended, flow, links)


def pass_in(ended: Mapping[UUID, Ended], flow: Flow, into: Iterable[Link], links: Links) -> Cascade:
    """Return what the ends of members of other flows lead to in this one; ``into``: their links to its root."""
    cascade, level = Cascade(counters={}, verdicts={}, ended=[]), list[Ended]()
    for child in _lower(cascade, ended, into):
        _judge(cascade, cascade.counters[child], flow, level)
    return _spread(cascade, level, flow, links)


def shown_outside(parent: Vertex, flow: Flow) -> Vertex:
    """Return a parent as other flows see it: as one that has not ended while the pause of its flow holds back its end."""
    if is_held_back(parent.ended(), flow) and parent.is_finished:
        return structs.replace(parent, state=State.HELD)
    return parent if parent.on_failure is OnFailure.CONTINUE else structs.replace(parent, on_failure=OnFailure.FAIL)


def recount(graph: Graph, flow: Flow, blocked: Iterable[Vertex], links: Links | None = None) -> Cascade:
    """Return what blocked members lead to when their counters are computed from the states of their parents.

    With intact counters, and without another reason such as a retry, it leads to nothing. ``links``: if the graph has only a part of the
    members.
    """
    cascade, level = Cascade(counters={}, verdicts={}, ended=[]), list[Ended]()
    for child in blocked:
        needs, waits = counters_of(child, graph, flow)
        _judge(cascade, structs.replace(child.waiting(), needs=needs, waits=waits), flow, level)
    _spread(cascade, level, flow, links or graph)
    known = {each.id: each.waiting() for each in graph.members.values()}
    cascade.counters = {id: each for id, each in cascade.counters.items() if each != known.get(id)}
    return cascade


def _spread(cascade: Cascade, level: Sequence[Ended], flow: Flow, links: Links) -> Cascade:
    while level:
        cascade.ended += level
        if flow.ended_for is None and any(each.asks_for(OnFailure.CANCEL) for each in level):
            cascade.cancels = True
            return cascade
        if flow.ended_for is None and any(each.asks_for(OnFailure.PAUSE) for each in level):
            cascade.pauses = True
        is_paused = cascade.pauses or flow.is_paused
        passed = {each.id: each for each in level if not (is_paused and each.asks_for(OnFailure.PAUSE))}
        touched = _lower(cascade, passed, (link for link in links.links(list(passed)) if not link.is_outside))
        level = []
        for child in touched:
            _judge(cascade, cascade.counters[child], flow, level)
    return cascade


class _Passed(Struct, gc=False):
    """What is passed on to one child: how many of its parents have ended, and how many of those ends it counts as successes."""

    child: Waiting
    ends: int = 0
    successes: int = 0


def _lower(cascade: Cascade, passed: Mapping[UUID, Ended], links: Iterable[Link]) -> list[UUID]:
    found = dict[UUID, _Passed]()
    for link in links:
        job = link.child.id
        into = found.get(job)
        if into is None:
            if job in cascade.verdicts:
                continue
            into = found[job] = _Passed(cascade.counters.get(job, link.child))
        parent = passed[link.parent]
        if into.child.counts(is_child=link.is_child, is_outside=link.is_outside):
            into.ends += 1
            into.successes += parent.has_completed or link.tolerates or parent.on_failure is OnFailure.CONTINUE
    touched = [(job, each) for job, each in found.items() if each.ends]
    for job, each in touched:
        child = each.child
        cascade.counters[job] = structs.replace(child, needs=child.needs - each.successes, waits=child.waits - each.ends)
    return [job for job, _ in touched]


def _judge(cascade: Cascade, child: Waiting, flow: Flow, level: list[Ended]) -> None:
    """Record the counters of a member, or its verdict; append it to the next level if it ends."""
    cascade.counters[child.id] = child
    verdict = decide(child, flow)
    if verdict is None:
        return
    del cascade.counters[child.id]
    cascade.verdicts[child.id] = verdict
    if verdict is not Verdict.RELEASE:
        is_cause = child.is_gate or (child.is_cancelled and flow.ended_for is None)
        level.append(Ended(child.id, verdict is Verdict.COMPLETE, child.on_failure, is_cause))
        cascade.is_end = cascade.is_end or (child.is_gate and child.id == flow.id)


def _is_success(parent: Vertex, child: Vertex) -> bool:
    is_read = parent.state is State.COMPLETED and not (parent.is_stub and parent.id in child.takes)
    return is_read or parent.on_failure is OnFailure.CONTINUE

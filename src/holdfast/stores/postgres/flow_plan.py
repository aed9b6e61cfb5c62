"""Moves of members as a plan: the rules decide on what was read under the locks of their workflows, and the writes are sent afterwards.

``FlowMoves`` decides without waiting for answers of a server. It is given what was read; if it needs more, ``NotRead`` names that, and
the decision is taken again once it is there. Nothing is written in between, so the plan is the same as if all had been read at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.children import Adopted, Adopter, grown
from holdfast._core.encoding import inputs_text
from holdfast._core.flow_changes import FlowChange
from holdfast._core.flow_growth import FlowGrowth
from holdfast._core.flow_moves import Dependent
from holdfast._core.graph import Ended, Graph, Link, Verdict, Vertex, Waiting
from holdfast._core.job import NewJob, Reason, State
from holdfast._core.member import Member, OnFailure
from holdfast._core.member_record import end_of
from holdfast._core.text import json_text
from holdfast._core.workflow import Edge, Flow


class Known(Struct):
    """What was read in a transaction. ``now``: the time at which its workflows were locked. ``links``: by parent.

    ``near``: by job, with what it is as one that adds members. ``dependents``: by workflow, the jobs of others that depend on it.
    ``alike``: by a child in ``links``, as the text of an array, the ids of all children that are like it; only it is in ``links``.
    """

    now: datetime
    flows: dict[UUID, Flow]
    links: dict[UUID, list[Link]] = {}
    graphs: dict[UUID, Graph] = {}
    near: dict[UUID, tuple[Adopter, Graph]] = {}
    dependents: dict[UUID, list[Dependent]] = {}
    alike: dict[UUID, str] = {}

    def neighbours(self) -> set[UUID]:
        """Return the workflows that depend on those that were read, or on which those depend: all of them must be locked."""
        found = {link.child.id for links in self.links.values() for link in links if link.is_outside}
        found |= {each.child.id for dependents in self.dependents.values() for each in dependents}
        edges = (edge for graph in self.graphs.values() for edge in graph.edges)
        return found | {edge.parent_flow for edge in edges if edge.parent_flow is not None}

    def split_alike(self) -> None:
        """Give each child separate links."""
        jobs = {job: [UUID(each) for each in ids[1:-1].split(",")] for job, ids in self.alike.items()}
        self.links = {
            parent: [
                structs.replace(link, child=structs.replace(link.child, id=job))
                for link in links
                for job in jobs.get(link.child.id, [link.child.id])
            ]
            for parent, links in self.links.items()
        }
        self.alike = {}


class NotRead(Exception):
    """What a decision needs beside what was read: the children of these members, all of this workflow, or what is near this job.

    Without any of these: separate links of children that are alike.
    """

    def __init__(self, *, parents: Sequence[UUID] = (), flow: UUID | None = None, job: UUID | None = None) -> None:
        super().__init__()
        self.parents, self.flow, self.job = parents, flow, job


class Write(Struct, frozen=True):
    """A statement to be sent: its file of ``queries``, and its values."""

    query: str
    values: tuple[Any, ...]


class Advance(Struct):
    """New counters of members that wait on, and members that no longer do; in a paused workflow the latter are held.

    ``alike``: more of the latter, each string the text of an array.
    """

    counters: dict[UUID, Waiting] = {}
    released: list[UUID] = []
    alike: list[str] = []
    is_paused: bool = False
    query: str = "advance_members"

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of its statement."""
        ids = sorted(self.counters)
        needs, waits = [self.counters[job].needs for job in ids], [self.counters[job].waits for job in ids]
        return ids, needs, waits, self.released, joined(self.alike), self.is_paused


class Ends(Struct, frozen=True):
    """Waiting members that end without running: by member its state and its reason. Their errors are not known yet."""

    members: dict[UUID, tuple[State, Reason | None]]


class Additions(Struct, frozen=True):
    """New jobs of a workflow, all of them blocked."""

    flow: UUID
    jobs: Sequence[NewJob]


class FlowPlan(FlowGrowth):
    """Moves of members on what is known; ``writes``: what they lead to, in order. ``roots``: the finished roots that wait again."""

    def __init__(self, known: Known) -> None:
        self.now, self.flows = known.now, dict(known.flows)
        self.changes = list[FlowChange]()
        self.writes, self.roots = list[Write | Advance | Ends | Additions](), list[UUID]()
        self._known, self._graphs = known, dict(known.graphs)
        self._over, self._counted = set[UUID](), dict[UUID, Waiting]()
        self._changed = dict[UUID, dict[str, Any]]()
        self._grown, self._inner = Graph((), ()), set[UUID]()
        self._passed: UUID | None = None

    def flow(self, flow: UUID) -> Flow:
        return self.flows[flow]

    def graph(self, flow: UUID) -> Graph:
        if flow not in self._graphs:
            raise NotRead(flow=flow)
        return self._graphs[flow]

    def pass_on(self, flow: UUID, ended: Sequence[Ended]) -> None:
        self._passed = flow
        super().pass_on(flow, ended)

    def links(self, parents: Sequence[UUID]) -> Iterable[Link]:
        if graph := self._graphs.get(self._passed or UUID(int=0)):
            return graph.links(parents)
        outer = [parent for parent in parents if parent not in self._inner]
        if missing := [parent for parent in outer if parent not in self._known.links]:
            raise NotRead(parents=missing)
        found = [link for parent in outer for link in self._known.links[parent]]
        found += self._grown.links([parent for parent in parents if parent in self._inner])
        if self._counted:
            found = [structs.replace(link, child=self._counted.get(link.child.id, link.child)) for link in found]
        return [link for link in found if link.child.id not in self._over] if self._over else found

    def dependents(self, flow: UUID, members: Sequence[UUID]) -> Iterable[Dependent]:
        if flow in self._known.dependents:
            asked = {*members}
            found = [each for each in self._known.dependents[flow] if each.parent in asked]
        else:
            if missing := [member for member in members if member not in self._known.links]:
                raise NotRead(parents=missing)
            links = [link for member in members for link in self._known.links[member] if link.is_outside]
            found = [Dependent(link.parent, blocked_vertex(link.child), link.tolerates) for link in links]
        # One whose row was lost counts its parents when it is repaired.
        found = [each for each in found if each.child.id in self.flows]
        return [
            structs.replace(each, child=structs.replace(each.child, **self._changed.get(each.child.id, {}))) for each in found
        ]

    def adopter(self, job: UUID) -> Adopter:
        return self._near(job)[0]

    def near(self, job: UUID) -> Graph:
        return self._near(job)[1]

    def insert_flow(self, flow: UUID, deadline: float | None) -> None:
        if deadline is not None:
            self.set_flow(Flow(id=flow, deadline_at=self.now + timedelta(seconds=deadline)))

    def insert(self, parent: Adopter, adopted: Adopted) -> None:
        own, jobs = adopted.member, [each.job for each in adopted.members]
        if jobs:
            self.writes.append(Additions(own.flow, jobs))
        members = json_text([(each.job.id, *columns_of(each.member), 0, 0) for each in adopted.members])
        of_parent = own.node, own.on_failure, own.is_gate, inputs_text(own.inputs), own.is_suspended
        self._send("grow", parent.id, own.flow, *of_parent, members, edges_text(adopted.edges))
        self._grown = grown(parent.id, adopted, self.near(parent.id))
        self._inner = {parent.id, *(job.id for job in jobs)}
        if own.flow in self._graphs:
            self._graphs[own.flow] = grown(parent.id, adopted, self._graphs[own.flow])

    def is_unfinished(self, flow: UUID) -> bool:
        root = self.graph(flow).members.get(flow)
        return root is not None and not root.is_finished

    def set_flow(self, flow: Flow) -> None:
        if flow != self.flows[flow.id]:
            self.flows[flow.id] = flow
            self._send("set_flow", flow.id, flow.paused_at, flow.ended_for, flow.deadline_at)

    def set_counters(self, counters: Mapping[UUID, Waiting]) -> None:
        alike = defaultdict[tuple[int, int], list[str]](list)
        for job, ids in self._known.alike.items():
            if job in counters:
                alike[counters[job].needs, counters[job].waits].append(ids)
        for each, lists in alike.items():
            self._send("count_alike", joined(lists), *each)
        if single := {job: each for job, each in counters.items() if job not in self._known.alike}:
            self._advance().counters |= single
        if counters:
            self._counted |= counters
            self._change({job: {"needs": each.needs, "waits": each.waits} for job, each in counters.items()})

    def set_policies(self, policies: Mapping[UUID, OnFailure]) -> None:
        for policy in set(policies.values()):
            self._send("set_policies", [job for job, each in policies.items() if each is policy], policy)
        self._change({job: {"on_failure": policy} for job, policy in policies.items()})

    def judge(self, verdicts: Mapping[UUID, Verdict], flow: Flow) -> None:
        released = [job for job, verdict in verdicts.items() if verdict is Verdict.RELEASE]
        if released:
            last = self._advance(is_paused=flow.is_paused)
            last.released += [job for job in released if job not in self._known.alike]
            last.alike += [self._known.alike[job] for job in released if job in self._known.alike]
            last.is_paused = flow.is_paused
            self._over.update(released)
            self._change({job: {"state": State.AVAILABLE} for job in released})
        ended = {job: end_of(job, verdict, flow) for job, verdict in verdicts.items() if verdict is not Verdict.RELEASE}
        if not self._known.alike.keys().isdisjoint(ended):
            raise NotRead
        self.end_waiting(ended)

    def end_waiting(self, members: dict[UUID, tuple[State, Reason | None]]) -> None:
        """End waiting members without running them."""
        if members:
            self.writes.append(Ends(members))
            self._over.update(members)
            self._change({job: {"state": state, "reason": reason} for job, (state, reason) in members.items()})

    def block(self, members: Sequence[UUID], *, is_fresh: bool) -> None:
        if members:
            self._send("block_members", list(members), is_fresh)
            self._change(
                {job: {"state": State.BLOCKED, "reason": None, "is_suspended": False, "is_cancelled": False} for job in members}
            )
            self.roots += [job for job in members if job in self.flows]

    def hold(self, flow: UUID) -> None:
        if not self._known.flows[flow].is_paused:  # else they are held already, also those that this plan releases
            self._send("hold_members", flow)

    def resume(self, flow: UUID) -> None:
        if self._known.flows[flow].paused_at is not None:
            self._send("resume_members", flow)

    def request_cancel(self, flow: UUID) -> None:
        self._send("mark_members", None, flow)

    def _near(self, job: UUID) -> tuple[Adopter, Graph]:
        if job not in self._known.near:
            raise NotRead(job=job)
        return self._known.near[job]

    def _advance(self, *, is_paused: bool | None = None) -> Advance:
        """Return the last write, if it is one of these and also releases into such a workflow; else a new one."""
        if not (
            self.writes
            and isinstance(last := self.writes[-1], Advance)
            and (not (last.released or last.alike) or is_paused in (None, last.is_paused))
        ):
            self.writes.append(last := Advance())
        return last

    def _send(self, query: str, *values: Any) -> None:
        self.writes.append(Write(query, values))

    def _change(self, changes: Mapping[UUID, Mapping[str, object]]) -> None:
        """Show the changes in the graphs that were read."""
        for job, each in changes.items():
            self._changed.setdefault(job, {}).update(each)
        for flow, graph in self._graphs.items():
            found = {job: graph.members.get(job) or graph.outside.get(job) for job in changes}
            changed = [structs.replace(vertex, **changes[job]) for job, vertex in found.items() if vertex is not None]
            if changed:
                self._graphs[flow] = graph.replaced(changed)


def blocked_vertex(waiting: Waiting) -> Vertex:
    """Return a blocked member, as far as its counters tell."""
    return Vertex(
        id=waiting.id,
        state=State.BLOCKED,
        on_failure=waiting.on_failure,
        is_gate=waiting.is_gate,
        needs=waiting.needs,
        waits=waiting.waits,
        is_suspended=waiting.is_suspended,
        is_cancelled=waiting.is_cancelled,
    )


def joined(arrays: Iterable[str]) -> str:
    """Return the text of one array with the values of all."""
    return "{" + ",".join(each[1:-1] for each in arrays) + "}"


def columns_of(member: Member) -> tuple[object, ...]:
    """Return the columns of a new member, without its counters."""
    return member.node, member.join, member.on_failure, member.is_gate, inputs_text(member.inputs)


def edges_text(edges: Iterable[Edge]) -> str:
    """Return new edges as JSON, one list for each."""
    return json_text([(each.parent, each.child, each.tolerates, each.is_child) for each in edges])

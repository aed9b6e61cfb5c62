"""Workflows that a transaction has locked, and the moves of their members in it."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from msgspec import Struct

from holdfast._core.children import Adopter, Children
from holdfast._core.encoding import failure_text, inputs_of, member_of, names_of
from holdfast._core.flow_changes import FlowChange
from holdfast._core.flow_moves import Dependent
from holdfast._core.graph import Ended, Graph, Link, Vertex, Waiting, shown_outside
from holdfast._core.job import PLACE_OF, Place, Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.member_record import dependency_failure
from holdfast._core.workflow import Edge, Flow
from holdfast.databases.postgres.errors import RolledBack
from holdfast.errors import HoldfastError
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.flow_plan import Additions, Ends, FlowPlan, Known, NotRead
from holdfast.stores.postgres.records import Row
from holdfast.stores.postgres.settled_members import SettledMember, links_of
from holdfast.stores.postgres.steps import arrays_of

Answer = TypeVar("Answer")
Fetch = Callable[..., Awaitable[Sequence[Row]]]


class KeyTaken(RolledBack):
    """A workflow cannot be run again: ``holder`` has its unique key."""

    def __init__(self, holder: UUID) -> None:
        super().__init__()
        self.holder = holder


class MoreFlows(RolledBack):
    """Workflows must be locked before those that are: the transaction is rolled back, and begins again with the locks of these, too."""

    def __init__(self, flows: Iterable[UUID]) -> None:
        super().__init__()
        self.flows = frozenset(flows)


class KnownMember(Struct, frozen=True):
    """A member of a workflow, as far as its moves depend on it."""

    id: UUID
    flow: UUID
    state: State
    on_failure: OnFailure
    is_gate: bool
    is_suspended: bool
    is_paused: bool
    is_active: bool

    @property
    def is_waiting(self) -> bool:
        """Whether it is one of the pending jobs."""
        return PLACE_OF[self.state] is Place.PENDING

    @property
    def waits_for_children(self) -> bool:
        """Whether it ends, or runs again, once those have ended that it has added or is the gate of."""
        return self.state is State.BLOCKED and (self.is_gate or self.is_suspended)


class LockedFlows:
    """The moves of members of workflows that one transaction has locked; ``fetch`` runs a query in it.

    ``more``: workflows that are locked with the first ones, because those depend on them or they on those.
    """

    def __init__(self, fetch: Fetch, locked: Iterable[UUID] = (), more: Collection[UUID] = ()) -> None:
        self.fetch, self.locked, self._more = fetch, list(locked), more
        self.changes = list[FlowChange]()
        self._known: Known | None = None

    @property
    def flows(self) -> dict[UUID, Flow]:
        """The locked workflows that exist, as they are now."""
        return {} if self._known is None else self._known.flows

    async def lock(self, flows: Iterable[UUID]) -> None:
        """Lock workflows, in the order of their ids. It is the first thing that the transaction does."""
        self.locked = lock_order([*flows, *self._more])
        found = await self.fetch("lock_flows", self.locked)
        if found:
            self._known = Known(found[0]["now"], {row["id"]: flow_of(row) for row in found})

    async def lock_of(self, jobs: Sequence[UUID]) -> None:
        """Lock the workflows of these jobs."""
        found = [row["flow"] for row in await self.fetch("flows_of", list(jobs))]
        if found or self._more:
            await self.lock(found)

    def require(self, flows: set[UUID]) -> None:
        """Raise ``MoreFlows`` if some of these workflows are not locked: jobs became their roots since this transaction began."""
        if missing := flows.difference(self.locked):
            raise MoreFlows(missing)

    async def _lock_more(self, flows: set[UUID]) -> bool:
        """Lock those of these workflows that are not locked; return whether there were any: then what was read is forgotten.

        ``MoreFlows`` if that would break the order in which each transaction locks them.
        """
        missing = lock_order(flows.difference(self.locked))
        if missing and missing[0] < self.locked[-1]:
            raise MoreFlows(missing)
        if missing:
            self.locked += missing
            await self.know(missing)
        return bool(missing)

    async def know(self, flows: Sequence[UUID]) -> None:
        """Lock more workflows, all of them behind the others or of this transaction, and forget what was read."""
        assert self._known is not None
        found = {row["id"]: flow_of(row) for row in await self.fetch("lock_flows", flows)}
        self._known = Known(self._known.now, {**self._known.flows, **found})

    async def members(self, jobs: Sequence[UUID]) -> list[KnownMember]:
        """Return those of these jobs that belong to the locked workflows; no claim takes them until the end of the transaction."""
        await self.fetch("lock_waiting", list(jobs), None)
        found = [
            KnownMember(
                id=row["id"],
                flow=row["flow"],
                state=State(row["state"]),
                on_failure=OnFailure(row["on_failure"]),
                is_gate=row["is_gate"],
                is_suspended=row["is_suspended"],
                is_paused=row["is_paused"],
                is_active=row["is_active"],
            )
            for row in await self.fetch("members", list(jobs))
        ]
        return [each for each in found if each.flow in self.flows]

    async def pass_on(self, settled: Sequence[SettledMember]) -> None:
        """Write what the ends of these members lead to."""
        if not settled:
            return
        by_flow = defaultdict[UUID, list[Ended]](list)
        for each in settled:
            by_flow[each.flow].append(each.ended())
        parents, is_stable = [each.id for each in settled], False
        while not is_stable:
            ((text,),) = await self.fetch("links", parents, self.locked)
            self._known = links_of(text, parents)
            is_stable = not await self._lock_more(self._known.neighbours())

        def act(plan: FlowPlan) -> None:
            for flow, ended in by_flow.items():
                if flow in self.flows:
                    plan.pass_on(flow, ended)

        await self.decide(act)

    async def adopt(self, job: UUID, children: Children) -> None:
        """Let a job, which this transaction has blocked, wait for children, and insert them."""
        if children.records:
            await self.fetch("keep_steps", job, *arrays_of(children.records))
        await self.decide(lambda plan: plan.adopt(job, children))

    async def decide(self, act: Callable[[FlowPlan], Answer]) -> Answer:
        """Decide on a plan, reading what that needs, and write it; return what the decision returns.

        ``KeyTaken`` if another job has the unique key of a workflow that would run again; then nothing is written.
        """
        assert self._known is not None
        while True:
            plan = FlowPlan(self._known)
            try:
                answer = act(plan)
            except NotRead as missing:
                await self._read(self._known, missing)
                await self._lock_more(self._known.neighbours())
                continue
            await self._take_keys(plan.roots)
            for write in plan.writes:
                if isinstance(write, Ends):
                    await self._end(write)
                elif isinstance(write, Additions):
                    await self._insert(write)
                else:
                    await self.fetch(write.query, *write.values)
            self._known = Known(self._known.now, plan.flows)
            self.changes += plan.changes
            return answer

    async def graph(self, flow: UUID) -> Graph:
        """Return all members of a workflow, as they are now, and their edges."""
        return (await self.graphs([flow])).get(flow, Graph((), ()))

    async def graphs(self, flows: Sequence[UUID]) -> dict[UUID, Graph]:
        """Return all members of workflows, and those of others on which they depend, as they are now, and their edges."""
        rows = defaultdict[UUID, list[Row]](list)
        for row in await self.fetch("graph", flows):
            rows[row["flow"]].append(row)
        parents = {
            edge.parent for each in rows.values() for row in each for edge in edges_of(row) if edge.parent_flow is not None
        }
        outside = {parent.id: parent for parent in await self.outside([*parents])} if parents else {}
        return {flow: graph_of(each, outside) for flow, each in rows.items()}

    async def outside(self, members: Sequence[UUID]) -> list[Vertex]:
        """Return members as other workflows see them."""
        found = await self.fetch("outside", members)
        return [shown_outside(vertex_of(row), flow_of({**row, "id": row["flow"]})) for row in found]

    async def _read(self, known: Known, missing: NotRead) -> None:
        if missing.flow is not None:
            await self._read_flows(known, missing.flow)
            return
        if missing.job is not None:
            ((task, queue, key, priority, tags, flow, member),) = await self.fetch("adopter", missing.job)
            own = None if flow is None else member_of(flow, member)
            adopter = Adopter(id=missing.job, task=task, queue=queue, key=key, priority=priority, tags=names_of(tags), member=own)
            known.near[missing.job] = adopter, graph_of(await self.fetch("near", missing.job), {})
            return
        known.links |= {parent: [] for parent in missing.parents}
        for row in await self.fetch("links_behind", list(missing.parents)):
            of_gate = row["is_gate"], OnFailure(row["on_failure"])
            child = Waiting(row["child"], row["needs"], row["waits"], *of_gate, row["is_suspended"], row["is_cancelled"])
            known.links.setdefault(child.id, [])
            edge = row["tolerates"], row["is_child"], row["is_outside"]
            known.links.setdefault(row["parent"], []).append(Link(row["parent"], child, *edge))

    async def _read_flows(self, known: Known, flow: UUID) -> None:
        """Read a workflow, and those that its moves may reach; if some of them were not locked yet, it is asked for again."""
        found = await self.fetch("reachable", flow)
        if await self._lock_more({each for row in found for each in (row["flow"], *row["parents"])}):
            return
        flows = [row["flow"] for row in found]
        await self.fetch("lock_waiting", None, flow)
        known.graphs |= dict.fromkeys(flows, Graph((), ())) | await self.graphs(flows)
        known.dependents |= {each: [] for each in flows}
        for row in await self.fetch("dependents", flows):
            child = vertex_of(row)
            for edge in edges_of(row):
                if edge.parent_flow is not None:
                    known.dependents[edge.parent_flow].append(Dependent(edge.parent, child, edge.tolerates))

    async def _insert(self, added: Additions) -> None:
        ids = [job.id for job in added.jobs]
        name, parameter = packing.enqueue(ids[0], added.jobs, flow=added.flow, blocked=frozenset(ids), is_known=True)
        if answers.enqueued(await self.fetch(name, parameter), added.jobs) != answers.ALL:
            raise HoldfastError("a child's unique key is that of another job: give it none")
        await self.fetch("forget_receipt", ids[0])

    async def _take_keys(self, roots: Iterable[UUID]) -> None:
        for root in roots:
            found = await self.fetch("take_root_key", root)
            if found and found[0]["holder"] != root:
                raise KeyTaken(found[0]["holder"])

    async def _end(self, ends: Ends) -> None:
        kinds = dict[tuple[str, str | None, str | None], int]()
        ids, errors = sorted(ends.members), await self._errors(ends)
        of_members = [
            kinds.setdefault((ends.members[job][0], ends.members[job][1], errors.get(job)), len(kinds) + 1) for job in ids
        ]
        states, reasons, texts = zip(*kinds, strict=True)
        await self.fetch("end_members", ids, of_members, list(states), list(reasons), list(texts))

    async def _errors(self, ends: Ends) -> dict[UUID, str | None]:
        """Return the errors of members whose parents did not complete."""
        failed = [job for job, end in ends.members.items() if end == (State.FAILED, Reason.DEPENDENCY_FAILED)]
        if not failed:
            return {}
        over = [job for job, (state, _) in ends.members.items() if state is not State.COMPLETED]
        parents = defaultdict[UUID, list[tuple[str, Reason | None]]](list)
        found = await self.fetch("culprits", failed, over)
        for row in sorted(found, key=lambda row: (row["finished_at"], row["parent"])):
            _, reason = ends.members.get(row["parent"], (None, row["reason"] and Reason(row["reason"])))
            parents[row["child"]].append((row["node"], reason))
        return {job: failure_text(dependency_failure(parents[job])) for job in failed}


def lock_order(flows: Iterable[UUID]) -> list[UUID]:
    """Return workflows in the order in which each transaction locks them."""
    return sorted(set(flows))


def flow_of(row: Row) -> Flow:
    """Return the state of a workflow from its row."""
    reason = None if row["ended_for"] is None else Reason(row["ended_for"])
    return Flow(id=row["id"], paused_at=row["paused_at"], ended_for=reason, deadline_at=row["deadline_at"])


def graph_of(rows: Iterable[Row], outside: Mapping[UUID, Vertex]) -> Graph:
    """Return a graph from the rows of ``graph.sql``; ``outside``: the members of other workflows on which it may depend."""
    members, edges = list[Vertex](), list[Edge]()
    for row in rows:
        members.append(vertex_of(row))
        edges += edges_of(row)
    return Graph(
        members, edges, [outside[edge.parent] for edge in edges if edge.parent_flow is not None and edge.parent in outside]
    )


def edges_of(row: Row) -> list[Edge]:
    """Return the edges that lead to a member, from its row."""
    kinds = (row[each] or () for each in ("tolerates", "are_children", "parent_flows"))
    return [Edge(parent, row["id"], *kind) for parent, *kind in zip(row["parents"] or (), *kinds, strict=True)]


def vertex_of(row: Row) -> Vertex:
    """Return a member from a row with the columns of ``vertex``."""
    return Vertex(
        id=row["id"],
        state=State(row["state"]),
        node=row["node"],
        join=row["required"],
        reason=row["reason"] and Reason(row["reason"]),
        on_failure=OnFailure(row["on_failure"]),
        is_gate=row["is_gate"],
        needs=row["needs"],
        waits=row["waits"],
        takes=frozenset(each.parent for each in inputs_of(row["inputs"])),
        is_stub=row["is_stub"],
        is_suspended=row["is_suspended"],
        is_cancelled=row["is_cancelled"],
    )

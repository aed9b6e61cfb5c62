"""The growth of a flow: active jobs add members to it, over the reads and writes that a store has for them."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from msgspec import structs

from holdfast._core.children import Adopted, Adopter, Children, adopt, grown, join, raised
from holdfast._core.flow_moves import FlowMoves
from holdfast._core.graph import Graph, recount
from holdfast._core.workflow import NewMember


class FlowGrowth(FlowMoves):
    """Moves of members in one write, and the insertion of new ones."""

    @abstractmethod
    def adopter(self, job: UUID) -> Adopter:
        """Return a job as one that adds members to its workflow."""

    @abstractmethod
    def near(self, job: UUID) -> Graph:
        """Return a member, its parents, and its children, with the edges between them and it; nothing for a plain job."""

    @abstractmethod
    def insert_flow(self, flow: UUID, deadline: float | None) -> None:
        """Insert a flow; ``deadline``: seconds from now."""

    @abstractmethod
    def insert(self, parent: Adopter, adopted: Adopted) -> None:
        """Insert members, all of them blocked, and edges; write what the job that has added them is in its workflow."""

    def adopt(self, job: UUID, children: Children) -> None:
        """Let a job wait for its children, which are inserted; it has been blocked in this write."""
        parent, near = self.adopter(job), self.near(job)
        adopted = adopt(parent, children, near)
        if parent.member is None:
            self.insert_flow(parent.flow, children.deadline)
        elif children.deadline is not None and parent.flow == job:  # others depend on it already
            self.set_flow(structs.replace(self.flow(job), deadline_at=self.now + timedelta(seconds=children.deadline)))
        self._add(parent, adopted, near, [*(each.job.id for each in adopted.members), job])

    def join(self, job: UUID, child: NewMember) -> None:
        """Insert a member that an active one has added and does not wait for."""
        parent, near = self.adopter(job), self.near(job)
        self._add(parent, join(parent, child, near), near, [child.job.id])

    def _add(self, parent: Adopter, adopted: Adopted, near: Graph, judged: Sequence[UUID]) -> None:
        counters = raised(parent.id, adopted, near)
        self.insert(parent, adopted)
        self.set_counters(counters)
        flow, graph = self.flow(parent.flow), grown(parent.id, adopted, near.counted(counters))
        self.apply(flow, recount(graph, flow, [graph.members[each] for each in judged], self))

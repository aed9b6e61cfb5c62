"""Jobs that depend on jobs that exist already: what is stored for them. Their parents may belong to any flows, or to none.

Such a job is the root of a separate flow, whose id is that of the job, and so is a plain job on which it depends. A flow does not wait for
the jobs outside it that depend on its members. These are released, or fail, in the writes that move their parents.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from msgspec import Struct

from holdfast._core.children import vertex_of_new
from holdfast._core.graph import Graph, Verdict, Vertex, Waiting, recount
from holdfast._core.job import NewJob
from holdfast._core.member import Member
from holdfast._core.workflow import Edge, Flow, NewMember
from holdfast.errors import JobNotFound


class After(Struct, frozen=True):
    """What a new job waits for: jobs that exist already, each named once.

    ``required``: how many of them must succeed; ``None``: all. ``tolerates``: one that ended in another way counts as a success.
    """

    parents: tuple[UUID, ...]
    required: int | None = None
    tolerates: bool = False


class NewDependents(Struct, frozen=True):
    """New jobs that depend on the same jobs, and the edges to them."""

    members: tuple[NewMember, ...]
    edges: tuple[Edge, ...]


def dependents_of(jobs: Sequence[NewJob], after: After, flows: Mapping[UUID, UUID]) -> NewDependents:
    """Return what to write for new jobs; ``flows``: those of their parents."""
    members = [NewMember(job, Member(flow=job.id, node=job.task, join=after.required)) for job in jobs]
    edges = [Edge(parent, job.id, after.tolerates, parent_flow=flows[parent]) for job in jobs for parent in after.parents]
    return NewDependents(tuple(members), tuple(edges))


def lone_root(job: UUID, task: str) -> Member:
    """Return a plain job as the root of a flow, which it becomes when another one depends on it."""
    return Member(flow=job, node=task)


def require_known(parents: Sequence[UUID], known: Collection[UUID]) -> None:
    """Raise ``JobNotFound`` if one of the parents is unknown."""
    missing = [parent for parent in parents if parent not in known]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise JobNotFound(
            f"after: no job has the id {missing[0]}{more}: it never existed here, or its retention has passed; nothing was enqueued"
        )


def judged(new: NewDependents, parents: Iterable[Vertex]) -> tuple[Waiting, Verdict | None]:
    """Return the counters of each of these jobs, and the verdict on it: their parents are the same."""
    first = new.members[0]
    edges = [edge for edge in new.edges if edge.child == first.job.id]
    graph, flow = Graph([vertex_of_new(first.job.id, first.member)], edges, parents), Flow(id=first.job.id)
    cascade = recount(graph, flow, graph.blocked())
    nothing = graph.members[first.job.id].waiting()
    return cascade.counters.get(first.job.id, nothing), cascade.verdicts.get(first.job.id)

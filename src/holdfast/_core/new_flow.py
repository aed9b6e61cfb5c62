"""The start of a new workflow, decided before anything of it is stored."""

from holdfast._core.children import vertex_of_new
from holdfast._core.graph import Cascade, Graph, recount
from holdfast._core.workflow import Flow, NewFlow


def begun(new: NewFlow) -> Cascade:
    """Return the counters of the members that wait, and the verdicts of all others."""
    graph = Graph((vertex_of_new(each.job.id, each.member) for each in (*new.members, new.root)), new.edges)
    return recount(graph, Flow(id=new.root.job.id), graph.blocked())


def empty_gates(new: NewFlow) -> list[str]:
    """Return the workflows, among this one and those in it, that have no nodes, by their names."""
    children = {edge.child for edge in new.edges}
    gates = (each for each in (*new.members, new.root) if each.member.is_gate)
    return [each.member.node for each in gates if each.job.id not in children]

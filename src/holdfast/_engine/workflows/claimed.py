"""The graph of a workflow that was started by its name: the worker that has claimed its job builds it."""

from holdfast._core.children import Children
from holdfast._core.job import Claim, NewJob
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._engine.workflows.builder import build


def graph_of(claim: Claim, definition: TaskDefinition) -> Children:
    """Call the function of a workflow, and return what its job waits for, as a gate.

    The store gives the members what their workflow has. ``ConfigurationError`` with everything that cannot work.
    """
    root = NewJob(id=claim.job.id, payload=claim.payload, task=definition.name, policy=definition.policy, headers=claim.headers)
    graph, result = build(definition, root)
    flow = graph.flow(result)
    return Children(
        members=flow.members,
        edges=flow.edges,
        is_gate=True,
        result=None if result is None else result.job,
        deadline=flow.deadline,
    )

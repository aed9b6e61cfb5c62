"""Writing a new workflow: its whole graph in one write, with the App's code around the enqueue."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import NewJob
from holdfast._core.workflow import NewFlow
from holdfast._engine.client.connections import Connections
from holdfast._engine.client.within import aenqueue_flow_within, enqueue_flow_within
from holdfast._engine.tasks.around_enqueue import enqueued_within
from holdfast._engine.workflows.builder import Workflow
from holdfast._engine.workflows.handle import WorkflowHandle
from holdfast._engine.workflows.node import Node
from holdfast.sync import blocking

Result = TypeVar("Result")


async def aenqueue(
    connections: Connections, graph: Workflow, root: NewJob, result: Node[Result] | None, within: object = None
) -> WorkflowHandle[Result]:
    """Check a graph, store it in one write, and return its handle; ``ConfigurationError`` with everything that cannot work.

    ``within``: the caller's connection, in whose transaction it is stored.
    """
    with _around(connections, graph, root, result) as flow:
        if within is None:
            return await _send(connections, flow, result)
        return _handle(connections, flow, await aenqueue_flow_within(connections, within, flow), result)


def enqueue(
    connections: Connections, graph: Workflow, root: NewJob, result: Node[Result] | None, within: object = None
) -> WorkflowHandle[Result]:
    """Do what ``aenqueue`` does, with the App's code around it in this thread, whose connections it may need."""
    with _around(connections, graph, root, result) as flow:
        if within is None:
            return _send_blocking(connections, flow, result)
        return _handle(connections, flow, enqueue_flow_within(connections, within, flow), result)


@contextmanager
def _around(connections: Connections, graph: Workflow, root: NewJob, result: Node[Any] | None) -> Iterator[NewFlow]:
    """Check the graph before the App's code runs, and yield it with the root as that code changed it."""
    flow = graph.flow(result)
    around = connections.around_enqueue
    if not around:
        yield flow
        return
    with enqueued_within(around, [root]) as changed:
        yield graph.flow(result, root=_only(changed))


def _only(jobs: Sequence[NewJob]) -> NewJob:
    (job,) = jobs
    return job


async def _send(connections: Connections, flow: NewFlow, result: Node[Result] | None) -> WorkflowHandle[Result]:
    return _handle(connections, flow, await connections.client().enqueue_flow(flow), result)


def _handle(
    connections: Connections, flow: NewFlow, answer: EnqueueAnswer, result: Node[Result] | None
) -> WorkflowHandle[Result]:
    kind = None if result is None else result.kind
    return WorkflowHandle.of(flow.root.job, answer, connections.client, kind)


_send_blocking = blocking(_send)

"""``with app.workflow("release") as w:`` – a workflow that is built in place, and stored when the block ends."""

from types import TracebackType
from typing import Any

from holdfast._core.job import NewJob
from holdfast._core.workflow import WorkflowSettings
from holdfast._engine.client.connections import Connections
from holdfast._engine.workflows.builder import Workflow
from holdfast._engine.workflows.enqueueing import aenqueue, enqueue
from holdfast._engine.workflows.handle import WorkflowHandle
from holdfast._engine.workflows.node import Node
from holdfast.errors import ConfigurationError
from holdfast.sync import refuse_inside_loop


class WorkflowBlock(Workflow):
    """A workflow that is stored at the end of its ``with`` or ``async with``, in one write. If the block raises, nothing is stored.

    >>> with app.workflow("release", on_failure="pause", deadline="2h") as w:  # doctest: +SKIP
    ...     source = w.add(checkout.bind(ref="main"))
    ...     w.returns(w.add(publish.bind(source=source.output)))
    >>> w.handle.result()  # doctest: +SKIP
    """

    def __init__(self, root: NewJob, settings: WorkflowSettings, connections: Connections) -> None:
        super().__init__(root, settings)
        self._job, self._connections = root, connections
        self._handle: WorkflowHandle[Any] | None = None
        self._result: Node[Any] | None = None

    @property
    def handle(self) -> WorkflowHandle[Any]:
        """The handle of the stored workflow; ``ConfigurationError`` before the end of the block."""
        if self._handle is None:
            raise ConfigurationError(
                [f"workflow {self._job.task}: it is stored at the end of its block: use w.handle after that"]
            )
        return self._handle

    def returns(self, node: Node[Any]) -> None:
        """Choose the node whose result is that of the workflow; ``ConfigurationError`` after the end of the block."""
        if self._is_complete:
            raise ConfigurationError([f"workflow {self._job.task}: w.returns(…) after the end of its block: use it inside"])
        self._result = node

    def __enter__(self) -> "WorkflowBlock":
        refuse_inside_loop("async with app.workflow(…)")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_complete = True
        if kind is None:
            self._handle = enqueue(self._connections, self, self._job, self._result)

    async def __aenter__(self) -> "WorkflowBlock":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_complete = True
        if kind is None:
            self._handle = await aenqueue(self._connections, self, self._job, self._result)

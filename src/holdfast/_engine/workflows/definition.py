"""A registered workflow as its callers use it: enqueue it, with options or without, or bind its arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar

from holdfast._core.durations import Duration
from holdfast._core.job import NewJob
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.task import PreparedJob, Task, TaskWithOptions, connections_of
from holdfast._engine.workflows.builder import Workflow, build
from holdfast._engine.workflows.enqueueing import aenqueue, enqueue
from holdfast._engine.workflows.handle import WorkflowHandle
from holdfast._engine.workflows.node import Node
from holdfast.errors import ConfigurationError
from holdfast.sync import refuse_inside_loop

Payload = ParamSpec("Payload")
Result = TypeVar("Result")


class WorkflowWithOptions(Generic[Payload, Result]):
    """A workflow with options, ready to be enqueued any number of times."""

    def __init__(self, task: Task[..., Result, ...], options: Options) -> None:
        self._task, self._options, self.definition = task, options, task.definition

    def bind(self, *args: Payload.args, **kwargs: Payload.kwargs) -> PreparedJob[Result]:
        """Check the arguments now, for code that enqueues later."""
        known: TaskWithOptions[Result, ...] = TaskWithOptions(self._task, self._options)
        return known.bind(*args, **kwargs)

    async def aenqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> WorkflowHandle[Result]:
        """Build the graph and store it in one write: durable when it returns.

        ``PayloadInvalid`` when the arguments do not fit the function, ``ConfigurationError`` with everything that is wrong with the graph;
        nothing is stored then.
        """
        root, graph, result = self._built(self.bind(*args, **kwargs))
        return await aenqueue(connections_of(self._task), graph, root, result, self._options.within)

    def enqueue(self, *args: Payload.args, **kwargs: Payload.kwargs) -> WorkflowHandle[Result]:
        """Enqueue as ``aenqueue`` does, for code without an event loop.

        >>> release.enqueue(ref="main").result(timeout="10m")  # doctest: +SKIP
        """
        refuse_inside_loop("aenqueue")
        root, graph, result = self._built(self.bind(*args, **kwargs))
        return enqueue(connections_of(self._task), graph, root, result, self._options.within)

    def _built(self, job: PreparedJob[Result]) -> tuple[NewJob, Workflow, Node[Result] | None]:
        root = job.new_job()
        graph, result = build(self.definition, root)
        return root, graph, result


class WorkflowDefinition(WorkflowWithOptions[Payload, Result], Generic[Payload, Result]):
    """A function that builds the graph of a workflow, with a name. Calling it calls the plain function, to test what it builds.

    >>> @app.workflow  # doctest: +SKIP
    ... def release(w: Workflow, ref: str) -> Node[Receipt]:
    ...     source = w.add(checkout.bind(ref=ref))
    ...     return w.add(publish.bind(source=source.output))
    >>> release.enqueue(ref="main")  # doctest: +SKIP
    """

    def __init__(self, task: Task[..., Result, ...]) -> None:
        super().__init__(task, Options())
        update_wrapper(self, task.definition.function)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def __call__(self, w: Workflow, /, *args: Payload.args, **kwargs: Payload.kwargs) -> Node[Result] | None:
        """Build the graph here and now, as the function does."""
        node: Node[Result] | None = self.definition.function(w, *args, **kwargs)
        return node

    @property
    def name(self) -> str:
        """The name that its own jobs have in the store."""
        return self.definition.name

    def options(
        self,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        expires_in: Duration | None = None,
        unique_key: str | None = None,
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        within: object = None,
        detached: bool = False,
    ) -> WorkflowWithOptions[Payload, Result]:
        """Return the workflow with options for some enqueues. ``ConfigurationError`` with all problems at once.

        Nodes take ``queue``, ``key``, ``priority``, ``delay``, ``run_at``, ``tags`` and ``headers`` from it unless they have their own.
        ``unique_key``: one unfinished workflow of the name may have it; another enqueue gets that one's handle, its ``created`` false, or
        ``UniqueConflict`` if its arguments are others. ``within``: your own connection, in whose open transaction the whole graph is
        written; it exists if and only if that commits. ``expires_in`` is refused: a workflow ends by its ``deadline=``.
        ``detached``: enqueued by a member of a workflow with ``job.enqueue``, it does not join that workflow.
        """
        options = Options.of(
            queue=queue,
            key=key,
            priority=priority,
            delay=delay,
            run_at=run_at,
            expires_in=expires_in,
            unique_key=unique_key,
            tags=tags,
            headers=headers,
            within=within,
            detached=detached,
        )
        if problems := _problems_of(options):
            raise ConfigurationError([f"workflow {self.name}: {problem}" for problem in problems])
        return WorkflowWithOptions(self._task, options)


def _problems_of(options: Options) -> list[str]:
    if options.expires_in is None:
        return []
    return ["expires_in: a workflow starts at once; use deadline= to end it in time, or give expires_in to its nodes"]

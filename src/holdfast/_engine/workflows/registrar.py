"""``@app.workflow``, and ``app.workflow("name")`` for a graph that is built in place."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from holdfast._core.payload import encode_payload
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.registry import Registry, problems_of_names
from holdfast._engine.tasks.task import Task
from holdfast._engine.workflows.defaults import MOST_NODES, RETENTION
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:  # an App is loaded without what builds graphs
    from collections.abc import Callable, Mapping, Sequence, Set

    from holdfast._core.durations import Duration
    from holdfast._engine.client.connections import Connections
    from holdfast._engine.workflows.block import WorkflowBlock
    from holdfast._engine.workflows.builder import Workflow
    from holdfast._engine.workflows.definition import WorkflowDefinition
    from holdfast._engine.workflows.failure_policy import PolicyName
    from holdfast._engine.workflows.node import Node

Payload = ParamSpec("Payload")
Result = TypeVar("Result")


class WorkflowDecorator(Protocol):
    """``@app.workflow(…)`` once its options are given."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Workflow, Payload], Node[Result]], /
    ) -> WorkflowDefinition[Payload, Result]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Workflow, Payload], None], /) -> WorkflowDefinition[Payload, None]: ...


class WorkflowRegistrar(ABC):
    """What workflows can be registered with: an App or a group."""

    @overload
    def workflow(
        self, function: Callable[Concatenate[Workflow, Payload], Node[Result]], /
    ) -> WorkflowDefinition[Payload, Result]: ...
    @overload
    def workflow(self, function: Callable[Concatenate[Workflow, Payload], None], /) -> WorkflowDefinition[Payload, None]: ...
    @overload
    def workflow(
        self,
        *,
        name: str | None = None,
        on_failure: PolicyName = "fail",
        deadline: Duration | None = None,
        retention: Duration = RETENTION,
        queue: str = "default",
        key: str | None = None,
        priority: int = 0,
        max_nodes: int = MOST_NODES,
    ) -> WorkflowDecorator: ...
    def workflow(self, what: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Register a function that builds the graph of a workflow, bare or with options, as ``App.workflow`` does.

        >>> @group.workflow(deadline="2h")  # doctest: +SKIP
        ... def release(w: Workflow, ref: str) -> Node[Receipt]: ...
        """
        if isinstance(what, str):
            at_once = "a graph in place is stored at once, so it needs an App"
            raise ConfigurationError([f"workflow({what!r}): {at_once}: app.workflow({what!r})"])
        return self._decorated(what, options)

    def _decorated(self, function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
        from holdfast._engine.workflows.settings import define_workflow

        known = _known(options, define_workflow)

        def register(function: Callable[..., Any]) -> WorkflowDefinition[..., Any]:
            return self._register_workflow(function, known)

        return register if function is None else register(function)

    @abstractmethod
    def _register_workflow(self, function: Callable[..., Any], options: dict[str, Any]) -> WorkflowDefinition[..., Any]:
        """Register the function with checked names of options, and return its workflow."""


class BlockRegistrar(WorkflowRegistrar):
    """What can also store a graph that is built in place: an App."""

    registry: Registry

    @overload
    def workflow(
        self, function: Callable[Concatenate[Workflow, Payload], Node[Result]], /
    ) -> WorkflowDefinition[Payload, Result]: ...
    @overload
    def workflow(self, function: Callable[Concatenate[Workflow, Payload], None], /) -> WorkflowDefinition[Payload, None]: ...
    @overload
    def workflow(
        self,
        name: str,
        /,
        *,
        on_failure: PolicyName = "fail",
        deadline: Duration | None = None,
        retention: Duration = RETENTION,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        unique_key: str | None = None,
        tags: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
        max_nodes: int = MOST_NODES,
    ) -> WorkflowBlock: ...
    @overload
    def workflow(
        self,
        *,
        name: str | None = None,
        on_failure: PolicyName = "fail",
        deadline: Duration | None = None,
        retention: Duration = RETENTION,
        queue: str = "default",
        key: str | None = None,
        priority: int = 0,
        max_nodes: int = MOST_NODES,
    ) -> WorkflowDecorator: ...
    def workflow(self, what: Callable[..., Any] | str | None = None, **options: Any) -> Any:
        """Register a function that builds the graph of a workflow, or build one in place.

        The function takes a ``Workflow`` first, adds nodes to it, and returns the node whose result is that of the workflow, or nothing.
        It only builds the graph, so it may run more than once. ``on_failure``: what the failure of a node means: its dependents fail
        (``"fail"``), or run all the same (``"continue"``), or wait for an operator (``"pause"``), or everything ends (``"cancel"``).
        ``deadline``: from the enqueue; everything left is cancelled then. ``key``: the name of the parameter that holds the key.

        >>> @app.workflow(on_failure="pause", deadline="2h")  # doctest: +SKIP
        ... def release(w: Workflow, ref: str) -> Node[Receipt]:
        ...     source = w.add(checkout.bind(ref=ref))
        ...     return w.add(publish.bind(source=source.output))

        With a name it is a block. Everything in it is stored when it ends, and nothing if it raises; ``key`` is then the key itself.

        >>> with app.workflow("release") as w:  # doctest: +SKIP
        ...     w.add(checkout.bind(ref="main"))
        >>> w.handle.id  # doctest: +SKIP
        """
        if isinstance(what, str):
            return self._block(what, **_known(options, self._block, _OF_A_BLOCK))
        return self._decorated(what, options)

    def _block(
        self,
        name: str,
        *,
        on_failure: PolicyName = "fail",
        deadline: Duration | None = None,
        retention: Duration = RETENTION,
        max_nodes: int = MOST_NODES,
        **options: Any,
    ) -> WorkflowBlock:
        from holdfast._engine.workflows.block import WorkflowBlock
        from holdfast._engine.workflows.settings import policy_of, settings_of

        problems = problems_of_names(name, "-", 0)
        settings = settings_of(problems, on_failure=on_failure, deadline=deadline, max_nodes=max_nodes)
        policy = policy_of(problems, retention)
        try:
            chosen = Options.of(**options)
        except ConfigurationError as error:
            problems += error.problems
        if problems:
            raise ConfigurationError([f"workflow {name}: {problem}" for problem in problems])
        connections = self._workflow_connections()
        root = chosen.new_job(connections.chance.uuid7(), name, encode_payload(name, {}), policy=policy)
        return WorkflowBlock(root, settings, connections)

    def _register_workflow(self, function: Callable[..., Any], options: dict[str, Any]) -> WorkflowDefinition[..., Any]:
        from holdfast._engine.workflows.definition import WorkflowDefinition
        from holdfast._engine.workflows.settings import define_workflow

        definition = define_workflow(function, **options)
        self.registry.add(definition)
        return WorkflowDefinition(Task(definition, self._workflow_connections()))

    @abstractmethod
    def _workflow_connections(self) -> Connections:
        """Return the connections that workflows are stored by."""


_OF_A_BLOCK = {"queue", "key", "priority", "unique_key", "tags", "headers"}


def _known(options: dict[str, Any], taken_by: Callable[..., Any], others: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the options; ``ConfigurationError`` for those that there are not. ``others``: what it takes without naming it."""
    parameters = inspect.signature(taken_by).parameters.items()
    known = {each for each, parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY} | others
    if unknown := sorted(set(options) - known):
        there_are = f"there are {', '.join(sorted(known))}"
        raise ConfigurationError([f"app.workflow has no option {name!r}; {there_are}" for name in unknown])
    return options

"""Tasks and workflows registered without an App at hand, for modules that the App's own module imports."""

from collections.abc import Callable
from typing import Any

from holdfast._engine.client.connections import Connections
from holdfast._engine.tasks.decorator import TaskRegistrar
from holdfast._engine.tasks.registry import Registry, TaskDefinition, define, problems_of_names
from holdfast._engine.tasks.task import Task
from holdfast._engine.workflows.definition import WorkflowDefinition
from holdfast._engine.workflows.registrar import WorkflowRegistrar
from holdfast._engine.workflows.settings import define_workflow
from holdfast.errors import ConfigurationError


class TaskGroup(TaskRegistrar, WorkflowRegistrar):
    """Tasks and workflows that an App includes later, under names with a prefix and in their own queue.

    It breaks the circle of an App that imports its tasks and tasks that import their App.

    >>> email = TaskGroup(prefix="email.", queue="mail")
    >>> @email.task
    ... async def send(to: str) -> None: ...
    >>> app.include(email)  # doctest: +SKIP
    >>> send.enqueue(to="a@example.org")  # doctest: +SKIP
    """

    def __init__(self, *, prefix: str = "", queue: str = "default") -> None:
        if problems := problems_of_names(f"{prefix}-", queue, 0):
            raise ConfigurationError([problem.replace("name=", "prefix=") for problem in problems])
        self.prefix, self.queue = prefix, queue
        self._tasks: list[Task[..., Any, ...]] = []
        self._registry: Registry | None = None
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"TaskGroup(prefix={self.prefix!r}, queue={self.queue!r})"

    def join(self, registry: Registry, connections: Connections) -> None:
        """Register all tasks, also those added later, with an App. Twice in one App is once; a second App is refused.

        A task enqueues into one store, so it belongs to one App.
        """
        if self._registry is registry:
            return
        if self._registry is not None:
            raise ConfigurationError([f"{self!r} is included in another App: make a group for each App"])
        registry.add(*(task.definition for task in self._tasks))
        self._registry, self._connections = registry, connections
        for task in self._tasks:
            task.connections = connections

    def _register(self, handler: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any, ...]:
        name = options.get("name") or getattr(handler, "__name__", "")
        definition = define(handler, **{"queue": self.queue, **options, "name": f"{self.prefix}{name}"})
        return self._added(definition)

    def _register_workflow(self, function: Callable[..., Any], options: dict[str, Any]) -> WorkflowDefinition[..., Any]:
        name = options.get("name") or getattr(function, "__name__", "")
        definition = define_workflow(function, **{"queue": self.queue, **options, "name": f"{self.prefix}{name}"})
        return WorkflowDefinition(self._added(definition))

    def _added(self, definition: TaskDefinition) -> Task[..., Any, ...]:
        if self._registry is not None:
            self._registry.add(definition)
        self._tasks.append(Task(definition, self._connections))
        return self._tasks[-1]

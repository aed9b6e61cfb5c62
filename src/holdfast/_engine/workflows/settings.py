"""What users write about a workflow, checked: its name, its queue, what a failure means, its deadline."""

import inspect
from collections.abc import Callable
from typing import Any

from holdfast._core.durations import Duration, seconds
from holdfast._core.payload import PayloadType
from holdfast._core.policy import Policy
from holdfast._core.workflow import WorkflowSettings
from holdfast._engine.tasks.registry import TaskDefinition, problems_of_names
from holdfast._engine.workflows.defaults import MOST_NODES, RETENTION
from holdfast._engine.workflows.failure_policy import PolicyName, failure_policy
from holdfast.errors import ConfigurationError


def define_workflow(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    queue: str = "default",
    key: str | None = None,
    priority: int = 0,
    retention: Duration = RETENTION,
    on_failure: PolicyName = "fail",
    deadline: Duration | None = None,
    max_nodes: int = MOST_NODES,
) -> TaskDefinition:
    """Check what the user wrote, and return the definition; ``ConfigurationError`` with every problem found."""
    name = getattr(function, "__name__", "") if name is None else name
    problems, payload = [*problems_of_names(name, queue, priority), *_problems_of_builder(function)], None
    settings = settings_of(problems, on_failure=on_failure, deadline=deadline, max_nodes=max_nodes)
    policy = policy_of(problems, retention)
    try:
        payload = PayloadType.of(function, skip=1)
    except ConfigurationError as error:
        problems += [problem.removeprefix(f"task {getattr(function, '__name__', '')}: ") for problem in error.problems]
    except (TypeError, ValueError):  # no signature: _problems_of_builder reports it
        pass
    if key is not None and payload is not None and key not in payload.fields:
        problems.append(f"key={key!r}: use the name of a parameter of the workflow")
    if problems or payload is None:
        raise ConfigurationError([f"workflow {name}: {problem}" for problem in problems])
    return TaskDefinition(
        name=name,
        function=function,
        is_async=False,
        takes_job=False,
        queue=queue,
        priority=priority,
        policy=policy,
        retry_for=(),
        fail_for=(),
        payload=payload,
        key=key,
        workflow=settings,
    )


def settings_of(problems: list[str], *, on_failure: object, deadline: Duration | None, max_nodes: object) -> WorkflowSettings:
    """Return the settings of a workflow, from what the user wrote; append what is wrong with it to the problems."""
    before, end = len(problems), None
    policy = failure_policy(on_failure, problems)
    if type(max_nodes) is not int or max_nodes < 1:
        problems.append(f"max_nodes={max_nodes!r}: use an integer from 1")
    try:
        end = None if deadline is None else seconds(deadline)
        if end == 0:
            problems.append(f"deadline={deadline!r}: use a positive duration such as '2h', or None for no deadline")
    except ValueError as error:
        problems.append(f"deadline: {error}")
    if len(problems) > before:
        return WorkflowSettings()
    return WorkflowSettings(on_failure=policy, deadline=end, max_nodes=int(str(max_nodes)))


def policy_of(problems: list[str], retention: Duration) -> Policy:
    """Return the policy of a workflow's own job; append what is wrong with its retention to the problems."""
    try:
        policy = Policy(retention=seconds(retention))
    except ValueError as error:
        problems.append(f"retention: {error}")
        return Policy()
    problems += policy.problems()
    return policy


def _problems_of_builder(function: Callable[..., Any]) -> list[str]:
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if inspect.isclass(function) or not callable(function) or not hasattr(function, "__name__"):
        return [f"{function!r} is not a function: decorate a `def` that takes a Workflow first"]
    if is_generator or inspect.iscoroutinefunction(function):
        return ["its function only builds the graph: write a plain `def`, and wait for nothing in it"]
    if not list(inspect.signature(function).parameters):
        return ["its function takes the graph first: write `def name(w: Workflow, …)`"]
    return []

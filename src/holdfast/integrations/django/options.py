"""What a project writes: ``OPTIONS`` of a backend in ``TASKS``, and ``@task_options`` of a task."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import BoundArguments, Parameter, Signature
from typing import Any, Final, Literal, TypeVar, cast

from msgspec import Struct, structs

from holdfast._engine.tasks.imports import problems_of_imports
from holdfast._engine.tasks.registry import define
from holdfast.errors import ConfigurationError

Function = TypeVar("Function", bound=Callable[..., Any])
Mode = Literal["join", "after_commit", "now"]

MODES: Final = ("join", "after_commit", "now")
KNOWN: Final = ("DATABASE", "IMPORTS", "SETTINGS", "TASK_OPTIONS", "TRANSACTION", "URL")
OF_PROJECT: Final = ("APP", "ACTIONS", "TITLE", *KNOWN)
"""The keys of the setting ``HOLDFAST``."""
ATTRIBUTE: Final = "holdfast_options"
_DJANGO_HAS: Final = {"function", "name", "queue", "priority", "key"}
TASK_OPTIONS: Final = frozenset(inspect.signature(define).parameters) - _DJANGO_HAS


class BackendOptions(Struct, frozen=True, kw_only=True):
    """``OPTIONS``, checked. ``url`` wins over ``database``, which then is only where transactions are looked at.

    ``mode``: what an enqueue does in a transaction. ``imports``: modules with tasks, beside each app's ``tasks``. ``settings``: of the App.
    ``task_options``: of all tasks that do not have their own.
    """

    database: str = "default"
    url: str | None = None
    mode: Mode = "join"
    imports: tuple[str, ...] = ()
    settings: Mapping[str, Any] = {}
    task_options: Mapping[str, Any] = {}

    @property
    def joins(self) -> bool:
        """Whether an enqueue joins the transaction of the caller: only if the jobs are in the same database."""
        return self.mode == "join" and self.url is None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "BackendOptions":
        """Check what the project wrote; ``ConfigurationError`` with every problem found.

        >>> BackendOptions.of({"TRANSACTION": "after_commit"}).mode
        'after_commit'
        """
        problems = [f"OPTIONS: there is no {name!r}: use {', '.join(KNOWN)}" for name in given if name not in KNOWN]
        mode, imports = given.get("TRANSACTION", "join"), given.get("IMPORTS", ())
        settings, of_tasks = given.get("SETTINGS", {}), given.get("TASK_OPTIONS", {})
        if mode not in MODES:
            problems.append(f"OPTIONS: TRANSACTION={mode!r}: use 'join', 'after_commit' or 'now'")
        problems += [f"OPTIONS: {problem}" for problem in problems_of_imports(imports)]
        if not isinstance(settings, Mapping):
            problems.append(f"OPTIONS: SETTINGS={settings!r}: use a dict of the App's settings, for example {{'ttl': '60s'}}")
        problems += _unknown("OPTIONS: TASK_OPTIONS", of_tasks if isinstance(of_tasks, Mapping) else {repr(of_tasks): None})
        if problems:
            raise ConfigurationError(problems)
        url, database = given.get("URL"), given.get("DATABASE", "default")
        found = cls(database=database, url=url, mode=cast(Mode, mode), imports=tuple(imports), settings=settings)
        return structs.replace(found, task_options=of_tasks)


def task_options(**options: Any) -> Callable[[Function], Function]:
    """Give a task options that Django has no word for; it stands below ``@task``. ``ConfigurationError`` for one that does not exist.

    >>> @task_options(max_attempts=5, timeout="1m", on_crash="hold")
    ... def charge(order: int) -> None: ...
    """
    if problems := _unknown("task_options", options):
        raise ConfigurationError(problems)

    def keep(function: Function) -> Function:
        setattr(function, ATTRIBUTE, {**getattr(function, ATTRIBUTE, {}), **options})
        return function

    return keep


def options_of(task: Any) -> Mapping[str, Any]:
    """Return the options of a task that Django has no word for: of ``@task_options``, and of ``@task`` from Django 6.1 on."""
    of_task = {name: getattr(task, name, None) for name in TASK_OPTIONS}
    return {**getattr(task.func, ATTRIBUTE, {}), **{name: value for name, value in of_task.items() if value is not None}}


def arguments_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundArguments:
    """Return the arguments of a call by the names of the task's parameters; ``TypeError`` as for a call in Python."""
    try:
        return Signature([*parameters_of(task).values()]).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}: {error}") from None


def parameters_of(task: Any) -> dict[str, Parameter]:
    """Return the parameters that a call fills."""
    return dict([*inspect.signature(task.func).parameters.items()][bool(task.takes_context) :])


def _unknown(where: str, options: Mapping[str, Any]) -> list[str]:
    there_are = ", ".join(sorted(TASK_OPTIONS))
    return [f"{where} has no option {name!r}; there are {there_are}" for name in sorted(set(options) - TASK_OPTIONS)]

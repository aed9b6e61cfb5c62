"""What a project writes: ``OPTIONS`` of a backend in ``TASKS``, and ``@task_options`` of a task."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, cast

from msgspec import Struct

from holdfast._engine.tasks.imports import problems_of_imports
from holdfast._engine.tasks.registry import define
from holdfast.errors import ConfigurationError

Function = TypeVar("Function", bound=Callable[..., Any])
Mode = Literal["join", "after_commit", "now"]

MODES: Final = ("join", "after_commit", "now")
KNOWN: Final = ("DATABASE", "IMPORTS", "SETTINGS", "TRANSACTION", "URL")
ATTRIBUTE: Final = "holdfast_options"
_DJANGO_HAS: Final = {"function", "name", "queue", "priority", "key"}
TASK_OPTIONS: Final = frozenset(inspect.signature(define).parameters) - _DJANGO_HAS


class BackendOptions(Struct, frozen=True, kw_only=True):
    """``OPTIONS``, checked. ``url`` wins over ``database``, which then is only where transactions are looked at.

    ``mode``: what an enqueue does in a transaction. ``imports``: modules with tasks, beside each app's ``tasks``. ``settings``: of the App.
    """

    database: str = "default"
    url: str | None = None
    mode: Mode = "join"
    imports: tuple[str, ...] = ()
    settings: Mapping[str, Any] = {}

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
        mode, imports, settings = given.get("TRANSACTION", "join"), given.get("IMPORTS", ()), given.get("SETTINGS", {})
        if mode not in MODES:
            problems.append(f"OPTIONS: TRANSACTION={mode!r}: use 'join', 'after_commit' or 'now'")
        problems += [f"OPTIONS: {problem}" for problem in problems_of_imports(imports)]
        if not isinstance(settings, Mapping):
            problems.append(f"OPTIONS: SETTINGS={settings!r}: use a dict of the App's settings, for example {{'ttl': '60s'}}")
        if problems:
            raise ConfigurationError(problems)
        url, database = given.get("URL"), given.get("DATABASE", "default")
        return cls(database=database, url=url, mode=cast(Mode, mode), imports=tuple(imports), settings=settings)


def task_options(**options: Any) -> Callable[[Function], Function]:
    """Give a task options that Django has no word for; it stands below ``@task``. ``ConfigurationError`` for one that does not exist.

    >>> @task_options(max_attempts=5, timeout="1m", on_crash="hold")
    ... def charge(order: int) -> None: ...
    """
    if unknown := sorted(set(options) - TASK_OPTIONS):
        there_are = f"there are {', '.join(sorted(TASK_OPTIONS))}"
        raise ConfigurationError([f"task_options has no option {name!r}; {there_are}" for name in unknown])

    def keep(function: Function) -> Function:
        setattr(function, ATTRIBUTE, {**getattr(function, ATTRIBUTE, {}), **options})
        return function

    return keep

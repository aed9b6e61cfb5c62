"""From a job that a test prepares to the plan by which other processes run it."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from msgspec import structs

from holdfast._engine.runners.options import SCRIPT
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._engine.tasks.task import PreparedJob
from holdfast.app import App
from holdfast.errors import ConfigurationError
from holdfast.settings import problems_of_url
from holdfast.testing.crashes.plan import Blow, Plan

INTERVAL = 0.1
GRACE = 1.0


def plan_of(
    job: PreparedJob[Any], *, point: str, blow: Blow, folder: str, url: str | None, setup: Callable[[], object] | None
) -> Plan:
    """Make the plan; raises ``ConfigurationError`` when other processes could not run it."""
    if not isinstance(job, PreparedJob):
        raise ConfigurationError([f"{job!r} is not a prepared job: pass a task with its arguments, as in charge.bind(order=7)"])
    if job.options.within is not None:
        raise ConfigurationError(["within: the job is written to the store of the crash test; leave within out"])
    url = url or f"sqlite:///{folder}/jobs.db"
    if problems := problems_of_url(url):
        raise ConfigurationError(problems)
    if url.startswith("memory:"):
        raise ConfigurationError(["memory:// lives inside one process, and what is killed is another: leave url out"])
    module, attribute, app = _home_of(job.task.definition)
    names = [module, job.task.definition.function.__module__, *([] if setup is None else [_module_of(setup)])]
    settings = structs.replace(
        app.settings,
        url=url,
        transport=None,
        pooler=None,
        reconcile="process",
        recovery_interval=INTERVAL,
        poll_interval=INTERVAL,
        grace=GRACE,
    )
    return Plan(
        folder=folder,
        target=f"{module}:{attribute}",
        task=job.task.name,
        modules={name: getattr(sys.modules.get(name), "__file__", None) for name in names},
        path=tuple(sys.path),
        settings=settings,
        setup=None if setup is None else f"{setup.__module__}:{setup.__qualname__}",
        point=point,
        blow=blow,
    )


def _home_of(task: TaskDefinition) -> tuple[str, str, App]:
    """Find where other processes can import the App that has this very task; most likely beside its handler."""
    for name, module in _modules(task.function.__module__):
        for attribute, value in tuple(vars(module).items()):
            # By its class, because lazy objects of other libraries must not be asked for attributes.
            if issubclass(type(value), App) and value.registry.get(task.name) is task:
                return name, attribute, value
    remedy = "its worker is another process, and must import it: keep App and handler at the top of a module, not in a script"
    raise ConfigurationError([f"task {task.name}: no module has its App; {remedy}"])


def _modules(first: str) -> Iterator[tuple[str, ModuleType]]:
    for name in (first, *sys.modules):
        module = sys.modules.get(name)
        if name not in SCRIPT and isinstance(module, ModuleType):
            yield name, module


def _module_of(setup: Callable[[], object]) -> str:
    name, place = getattr(setup, "__module__", "__main__"), getattr(setup, "__qualname__", "<")
    if "<" in place or name == "__main__":
        raise ConfigurationError([f"setup={setup!r}: workers must import it; use a function at the top of a module"])
    return str(name)
